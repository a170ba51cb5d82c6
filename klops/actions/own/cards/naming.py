"""Cards as people name them. Pure."""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Iterable

from klops.actions.own.cards.record.standing import CardState, Standing
from klops.cards.record.presence import is_called
from klops.errors import TaskFailed

#: Cards as they are listed: the first and the last of several.
_RANGE = re.compile(r"(\d{1,4})-(\d{1,4})")


def find(standing: Standing, names: Iterable[str]) -> list[CardState]:
    """The cards that are called so, each once, in the order of the names. Raises TaskFailed.

    By index, range of indexes, node of the host (``xpu3``, ``/dev/xpu3``), PCI address, UUID or serial.
    """
    found = {one.index: one for name in names for one in _several(standing, name.strip())}
    return list(found.values())


def unused(named: Iterable[CardState]) -> TaskFailed | None:
    """The error for cards that are not klops' to use, and so not to test; None where all are."""
    listed = ", ".join(str(one.index) for one in named if not one.used)
    if not listed:
        return None
    return TaskFailed(
        f"card {listed} is none of those that klops.cards.use names",
        code="card-unknown",
        hint="no other card is used or tested: correct klops.cards.use, or name others",
    )


def _several(standing: Standing, text: str) -> list[CardState]:
    several = _RANGE.fullmatch(text)
    if several is None or any(is_called(one.identity, text) for one in standing.cards):
        return [_one(standing, text)]
    first, last = int(several[1]), int(several[2])
    if first > last:
        raise TaskFailed(f"{text} names no card", code="card-unknown", hint=f"write it as {last}-{first}")
    return [_one(standing, str(index)) for index in range(first, last + 1)]


def _one(standing: Standing, text: str) -> CardState:
    found = [one for one in standing.cards if _is(one, text)]
    if len(found) == 1:
        return found[0]
    names = [
        str(value)
        for one in standing.cards
        for value in (one.index, *(one.identity.get(key) for key in ("bdf", "uuid", "serial")))
        if value not in (None, "")
    ]
    near = difflib.get_close_matches(text, names, n=1)
    listed = ", ".join(str(one.index) for one in standing.cards) or "none"
    raise TaskFailed(
        f"no card is called {text}" if not found else f"several cards are called {text}",
        code="card-unknown",
        hint=f"did you mean {near[0]}? klops cards list shows all" if near else f"cards: {listed}",
    )


def _is(card: CardState, text: str) -> bool:
    node = str(card.identity.get("node") or "")
    # a rehearsal has its nodes in a folder of its own
    nodes = (node, posixpath.basename(node), f"/dev/{posixpath.basename(node)}") if node else ()
    return text == str(card.index) or text in nodes or is_called(card.identity, text)
