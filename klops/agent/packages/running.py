"""A program that changes or tests packages: what it says is passed on, and its last words are kept."""

from __future__ import annotations

from typing import Callable, Mapping, NamedTuple, Sequence

from klops.agent.errors import VerbError
from klops.agent.packages.places import Places
from klops.agent.running import Last, Runner, shown

#: Lines that an error quotes.
_QUOTED = 12


class Ended(NamedTuple):
    """``code``: its exit status, negative for a signal; ``said``: its last words."""

    code: int
    said: str


def run(
    places: Places,
    argv: Sequence[str],
    env: Mapping[str, str],
    until: float,
    tell: Callable[[str], None],
    gone: Callable[[float], bool],
) -> Ended:
    """Run a program in ``/``; ``tell`` gets its output line by line.

    ``until``: time.monotonic() at which it is ended (code ``timeout``); ``gone``: whether nobody waits any
    more (code ``interrupted``). Raises :class:`VerbError` for both, and ``OSError`` when it can't be started.
    """
    last = Last(_QUOTED)

    def hear(line: bytes) -> None:
        text = shown(line)
        last.add(text)
        tell(text)

    def check() -> None:
        if gone(0.0):
            raise VerbError("interrupted", "nobody waits for it any more", "repeat it")

    runner = Runner(places.root, places.record, until, "the program that began it is over")
    code = runner.run(argv, env, hear, check)
    return Ended(code, "\n".join(line for line in last if line.strip()))
