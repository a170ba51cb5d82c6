"""Whether a card gave back the memory of a rank that was killed, before the next test of it."""

from __future__ import annotations

import time
from typing import Any, Callable, Mapping, Sequence

from klops.agent.audit import Audit
from klops.agent.units.memory import Memory
from klops.cards import memory as cards_memory

#: Seconds that a card has for it, and between looks.
PATIENCE = 10.0
_PAUSE = 0.3
_SOON = 0.05


class Settling:
    """Knows what the cards held before the first rank."""

    def __init__(
        self,
        smi: str,
        cards: Sequence[Mapping[str, Any]],
        audit: Audit,
        end: float,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """``end``: monotonic seconds. ``check`` is called in every wait, and raises what ends it early."""
        self._smi = smi
        self._memory = Memory(audit)
        self._check = check
        self._address = {one["index"]: str(one["bdf"]) for one in cards if one.get("bdf")}
        self._end = end
        #: sentences on what is not as it was
        self.notes: list[str] = []
        self._before: dict[str, int] = {}
        #: addresses of cards that did not give it back once: they are not waited for again
        self._late: set[str] = set()

    def begin(self) -> None:
        """Ask what they hold, for :data:`PATIENCE` at most."""
        uses = self._ask(min(self._end, time.monotonic() + PATIENCE)) or {}
        self._before = {bdf: uses[bdf].used for bdf in self._address.values() if bdf in uses}

    def _ask(self, until: float) -> Any:
        """Use by PCI address, None when it can't be told in time."""
        since = time.monotonic()
        while True:
            self._check()
            answer = self._memory.ask(self._smi, since)
            if not answer.undecided or time.monotonic() > until:
                return answer.uses
            time.sleep(_SOON)

    def wait(self, cards: Sequence[int]) -> None:
        """Until these hold what they held before, :data:`PATIENCE` at most."""
        before = {
            bdf: self._before[bdf]
            for bdf in (self._address.get(card) for card in cards)
            if bdf is not None and bdf in self._before and bdf not in self._late
        }
        if not before:
            return
        until = min(self._end, time.monotonic() + PATIENCE)
        while True:
            uses = self._ask(until)
            held = cards_memory.returned(before, uses) if uses is not None else None
            if held == []:
                return
            if time.monotonic() > until:
                break
            self._check()
            time.sleep(_PAUSE)
        listed = ", ".join(map(str, cards))
        self._late.update(before if held is None else (one.bdf for one in held))
        if held is None:
            self._note(f"whether card {listed} gave the memory of a killed rank back can't be told")
            return
        number = {bdf: card for card, bdf in self._address.items()}
        for one in held:
            self._note(
                f"card {number[one.bdf]} still has {one.used} MiB in use {PATIENCE:g} s after its rank was"
                f" killed, {one.before} MiB before the diagnosis"
            )

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def close(self) -> None:
        """Ask no more."""
        self._memory.close()
