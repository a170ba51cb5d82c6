"""What the cards' memory is, asked of ``xpu-smi -m`` inside the container: by a child with a deadline.

With a driver that is stuck xpu-smi may never answer, and KILL may not end it: so there is at most one, and
nobody waits for it. Where it can't be run, or says nothing of use, the memory is not known: None, never 0.
"""

from __future__ import annotations

import os
import select
import signal
import time
from typing import Any, Callable, Collection, Mapping, NamedTuple

from klops.agent.audit import Audit
from klops.agent.processes import children, identity
from klops.agent.processes.children import gone
from klops.agent.trouble import say
from klops.cards import memory as cards
from klops.cards.memory import Held, Use

#: Seconds until no answer is expected any more.
DEADLINE = 10.0
#: Seconds that one look waits for it.
_PATIENCE = 0.3
#: Seconds between two questions: it opens every card.
_APART = 1.0
#: Seconds that a start waits for memory that nobody here holds, as the driver may still be giving it back.
PATIENCE = 10.0
#: Seconds that room which was seen counts for the start that asked for it.
_FRESH = 10.0
#: Bytes of an answer: a card's line has less than 200.
_LONGEST = 1 << 16
#: Seconds for the driver to give memory back once its holders are gone, and between looks meanwhile.
GIVING_BACK = 30.0
_PAUSE = 0.5
#: Seconds after which it is not the driver that is waited for, where somebody has the cards open.
HELD_BY_OTHERS = 3.0


class Answer(NamedTuple):
    """``uses`` by PCI address, None when it can't be told; ``undecided``: it can be told soon."""

    uses: dict[str, Use] | None = None
    undecided: bool = False


class _Asking(NamedTuple):
    """A child that asks."""

    smi: str
    pid: int
    who: identity.Identity | None
    said: int
    since: float


class _Told(NamedTuple):
    smi: str
    since: float
    uses: dict[str, Use] | None


class Memory:
    """Asks, and remembers the newest answer."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._asking: _Asking | None = None
        self._text = b""
        #: it has closed its output; it was told to end
        self._closed = self._ended = False
        self._told: _Told | None = None
        #: what was said to be wrong, by the program's name
        self._wrong: dict[str, str] = {}

    @property
    def pids(self) -> set[int]:
        """The child that was not seen to end."""
        return {self._asking.pid} if self._asking is not None else set()

    def ask(self, smi: str, since: float) -> Answer:
        """The memory at ``since`` (monotonic seconds) or later. ``smi`` is "" where it isn't to be asked."""
        if not smi:
            return Answer()
        self._hear(0.0)
        if self._fits(smi, since):
            return self._answer()
        if self._asking is None:
            if self._told is not None and time.monotonic() - self._told.since < _APART:
                return Answer(undecided=True)
            try:
                self._asking = _begin(smi)
            except OSError as error:
                self._is_wrong(smi, error.strerror or str(error))
                self._told = _Told(smi, time.monotonic(), None)
                return Answer()
            self._text, self._closed, self._ended = b"", False, False
            self._hear(_PATIENCE)
            if self._fits(smi, since):
                return self._answer()
        # one that KILL didn't end either sits in the driver: nobody waits for that
        return Answer(undecided=self._asking is None or not self._ended)

    def _fits(self, smi: str, since: float) -> bool:
        return self._told is not None and self._told.smi == smi and self._told.since >= since

    def _answer(self) -> Answer:
        return Answer(self._told.uses if self._told is not None else None)

    def hear(self) -> None:
        """Note what was answered, and reap who asked."""
        self._hear(0.0)

    def _hear(self, seconds: float) -> None:
        """The same, waiting that long for it."""
        deadline = time.monotonic() + seconds
        while self._asking is not None and not self._closed:
            poll = select.poll()
            poll.register(self._asking.said, select.POLLIN)
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                break
            part = os.read(self._asking.said, 65536)
            self._text += part[: _LONGEST - len(self._text)]
            if not part:
                self._over(self._asking)
        asking = self._asking
        if asking is not None and self._closed and gone(asking.pid, asking.who):
            self._asking = asking = None
        if asking is not None and time.monotonic() - asking.since > DEADLINE and not self._ended:
            what = "end" if self._closed else "answer"
            self._ended = True
            self._kill(asking, f"it does not {what} within {DEADLINE:g} s")
            self._is_wrong(asking.smi, f"it does not {what} within {DEADLINE:g} s")
            self._told = _Told(asking.smi, asking.since, None)

    def _over(self, asking: _Asking) -> None:
        from klops.cards.smi.machine import parse_machine

        os.close(asking.said)
        self._closed = True
        if self._ended:
            return  # what it had said by then may be a part of it
        uses = cards.uses(parse_machine(self._text.decode("utf-8", "replace")))
        if uses:
            self._wrong.pop(asking.smi, None)
        else:
            said = self._text.decode("utf-8", "replace").strip().splitlines()
            self._is_wrong(asking.smi, said[0][:200] if said else "it says nothing")
        self._told = _Told(asking.smi, asking.since, uses or None)

    def _is_wrong(self, smi: str, what: str) -> None:
        if self._wrong.get(smi) != what:
            self._wrong[smi] = what
            say(f"{smi} -m can't be asked here: {what}; whether cards have room is not known")

    def _kill(self, asking: _Asking, why: str) -> None:
        # whoever reaps all children may have reaped it: no bare pid
        handle = identity.hold(asking.who) if asking.who is not None else None
        if handle is not None:
            self._audit.signal("", handle, "xpu-smi", signal.SIGKILL, why)
            handle.close()

    def close(self) -> None:
        """Give up what is being asked. A child that the driver doesn't let go ends when it does."""
        self.hear()
        if self._asking is not None and not self._closed:
            self._kill(self._asking, "whoever asked leaves")
            os.close(self._asking.said)
        self._asking = None  # one that has answered ends by itself


def _begin(smi: str) -> _Asking:
    now = time.monotonic()
    pid, said = children.ask([smi, "-m"])
    return _Asking(smi, pid, identity.of_pid(pid), said, now)


def indexes(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Index by PCI address of a unit's cards, of those whose address is known."""
    return {str(card["bdf"]): card["index"] for card in spec["cards"] if card.get("bdf")}


class Room(NamedTuple):
    """Whether a unit's cards have the memory that its server will ask for."""

    #: "" for enough, or not known
    problem: str = ""
    undecided: bool = False
    #: what is used just before the start, by PCI address; None when that isn't known
    idle: dict[str, int] | None = None


def room(spec: Mapping[str, Any], memory: Memory, since: float) -> Room:
    """Look at the memory of a unit's cards, before its start."""
    known = indexes(spec)
    if not known:
        return Room()
    answer = memory.ask(str(spec.get("smi") or ""), since)
    if answer.uses is None:
        return Room(undecided=answer.undecided)
    idle = {bdf: answer.uses[bdf].used for bdf in known if bdf in answer.uses}
    absent = ", ".join(f"card {known[bdf]} ({bdf})" for bdf in known if bdf not in answer.uses)
    if absent:
        say(f"{spec['smi']} -m does not list {absent}: whether that has room is not known")
    share = cards.utilisation(spec["argv"])
    lacking = cards.short(dict.fromkeys(known, share), answer.uses) if share is not None else []
    if not lacking:
        return Room(idle=idle)
    listed = "; ".join(
        f"card {known[one.bdf]} ({one.bdf}) has {one.use.free} of {one.use.total} MiB free and"
        f" {one.asked} will be asked for"
        for one in lacking
    )
    return Room(
        f"too little memory is free (--gpu-memory-utilization {share:g}): {listed}; no process of this"
        " container holds it, and holders outside can't be seen from here: klops reap HOST lists them"
    )


class Admission:
    """The looks of one unit that is to start: each attempt asks anew, and shortage may pass."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._since: float | None = None
        self._short_since: float | None = None
        #: there was room, and when that was seen: what else a start needs may take a few looks more
        self._had: tuple[float, Room] | None = None

    def again(self) -> None:
        """Somebody asked for the start, or it is made: what was seen before doesn't count."""
        self._since = self._short_since = self._had = None

    def look(self, spec: Mapping[str, Any], now: float) -> Room:
        """Whether there is room for it."""
        if self._had is not None and now - self._had[0] < _FRESH:
            return self._had[1]
        self._had = None
        self._since = now if self._since is None else self._since
        found = room(spec, self._memory, self._since)
        if found.undecided:
            return found
        self._since = None
        if not found.problem:
            self._short_since, self._had = None, (now, found)
        return found

    def patient(self, now: float) -> bool:
        """Whether the driver may still be giving back what is lacking."""
        self._short_since = now if self._short_since is None else self._short_since
        return now - self._short_since < PATIENCE


def given_back(
    memory: Memory,
    smi: str,
    idle: Mapping[str, int],
    holders: Callable[[], Mapping[str, Collection[Any]]] = dict,
) -> list[Held] | None:
    """Wait until cards hold no more than before their unit was started; the cards that go on holding it.

    None when it can't be told. For verbs: it takes up to half a minute, but for cards that somebody else
    goes on holding: ``holders`` says who has which card open, by PCI address.
    """
    begun = since = time.monotonic()
    before: Mapping[str, Collection[Any]] = {}
    while True:
        answer = memory.ask(smi, since)
        if not answer.undecided:
            held = None if answer.uses is None else cards.returned(idle, answer.uses)
            waited = time.monotonic() - begun
            if not held or waited > GIVING_BACK:
                return held
            if waited > HELD_BY_OTHERS:
                # the same at two looks: an xpu-smi has a card open for a moment
                now = holders()
                if all({*now.get(one.bdf, ())} & {*before.get(one.bdf, ())} for one in held):
                    return held
                before = now
            since = time.monotonic() + _PAUSE
            time.sleep(_PAUSE)
        else:
            time.sleep(0.05)
