"""Kill schedules: what happens to a unit, when, to which part of it. Pure, the same for a seed for ever."""

from __future__ import annotations

import random
from dataclasses import dataclass

#: Parts of a unit and of what keeps it, and how often each is hit.
MEMBERS = {"api": 4, "engine": 4, "worker": 5, "workers": 1, "tracker": 1, "any": 3}
KEEPERS = {"supervisor": 4, "launcher": 1}
#: What happens to the whole: the container is killed and started, the unit is commanded, somebody reaps.
WHOLES = {"container": 1, "restart": 1, "stop-start": 1, "reap": 2}
#: TERM, KILL, STOP; STOP of one and KILL of its parent, which makes orphans that hear nothing.
SIGNALS = {"KILL": 6, "STOP": 2, "TERM": 2, "STOP+KILL": 2}
#: Seconds from one event to the next: at once, in the middle of an end, of a start, and of serving.
MOMENTS = ((0.0, 0.05), (0.05, 0.6), (0.3, 2.0), (1.0, 3.5))


@dataclass(frozen=True)
class Event:
    """One blow: ``after`` seconds, which part, and what; ``pick`` (0 to under 1) chooses among several."""

    after: float
    part: str
    what: str
    pick: float

    def __str__(self) -> str:
        return f"{self.after:5.2f} s later: {self.what} {self.part} (pick {self.pick:.2f})"


def schedule(seed: int) -> list[Event]:
    """The events of a seed: one to four."""
    chance = random.Random(seed)

    def draw(weights: dict[str, int]) -> str:
        return chance.choices(list(weights), list(weights.values()))[0]

    events = []
    for _ in range(chance.randint(1, 4)):
        part = draw({**MEMBERS, **KEEPERS, **WHOLES})
        what = "do" if part in WHOLES else draw(SIGNALS)
        after = chance.uniform(*chance.choice(MOMENTS))
        events.append(Event(round(after, 2), part, what, chance.randrange(100) / 100))
    return events
