"""What the agent says of generations. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from klops.actions.own import hostreads
from klops.actions.own.hostview import reply
from klops.agent.generations import document
from klops.remote.lock import LockOwner

if TYPE_CHECKING:
    from klops.inventory.settings import Settings
    from klops.remote.base import Replies
    from klops.remote.reads import Read

KEY = "agent.generations"
GOOD = document.GOOD

Generation = Mapping[str, Any]


def read(settings: Settings) -> Read:
    """All generations, and what stands now."""
    return hostreads.agent(settings, KEY, "generations")


def request(settings: Settings, run: str, health: str = GOOD) -> dict[str, Any]:
    """What the agent is told that is to note what stands."""
    who = LockOwner.here()
    author = f"{who.who}@{who.origin}"
    return {"health": health, "author": author, "run": run, "keep": settings.generations.keep}


@dataclass(frozen=True)
class Generations:
    """``known``: the newest first; ``now``: what stands, its ``number`` None when it was never noted.

    ``original``: distributions as they stood before klops changed them; ``faults``: files that can't be read.
    """

    known: tuple[Generation, ...]
    now: Generation
    original: Mapping[str, Any]
    faults: tuple[str, ...] = ()

    def number(self, number: int) -> Generation | None:
        """The one of that number."""
        return next((one for one in self.known if one["number"] == number), None)

    @property
    def last_good(self) -> Generation | None:
        """The newest that served."""
        return next((one for one in self.known if one["health"] == GOOD), None)

    @property
    def previous(self) -> Generation | None:
        """What a user goes back to who names no number: the last good one before what stands.

        One that was gone back to counts as where it stands in the list: going back twice goes back two steps.
        """
        present = self.number(self.now["number"]) if self.now["number"] is not None else None
        below = None
        if present is not None and present["health"] == GOOD:
            below = present["of"] or present["number"]
        for one in self.known:
            if (
                one["health"] == GOOD
                and (below is None or one["number"] < below)
                and not document.same(one, self.now)
            ):
                return one
        return None


def look(replies: Replies) -> Generations | None:
    """None when the agent doesn't tell: there is none, or it is one of an older klops."""
    answer = reply(replies, KEY)
    said = answer.json() if answer.ok else None
    if not isinstance(said, Mapping) or "now" not in said:
        return None
    return Generations(
        tuple(said["generations"]), said["now"], said.get("original") or {}, tuple(said.get("faults") or ())
    )


def title(one: Generation) -> str:
    """One in a few words: ``generation 3 (release abc-123)``."""
    name = f"generation {one['number']}" if one.get("number") is not None else "what stands now"
    return f"{name} (release {one['release']})" if one.get("release") else name
