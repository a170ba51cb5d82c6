"""Cards that are kept out of service, each with a note that says why. Pure: a list of notes in and out.

A note has the card's identity, a kind, a reason with its evidence, who wrote it and when. One of the kind
``unkillable`` was written by a supervisor for a process that KILL doesn't end, and is in force as long as
this process may live: until the host is booted anew, or it is seen to be gone. One of the kind ``verdict``
was written after diagnoses in which the card failed, and stays until a diagnosis clears the card, also over
a boot. One of the kind ``hand`` was written by a person, and stays until it expires or is taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from klops.cards.record.form import moment

UNKILLABLE, VERDICT, HAND = "unkillable", "verdict", "hand"
#: What a note says of its card.
_CARD = ("index", "minor", "node", "bdf", "uuid", "serial")
#: What identifies a card, the surest first; an index or a minor may be another card's tomorrow.
_IDENTITY = ("uuid", "serial", "bdf")
#: What identifies a process.
_PROCESS = ("pid", "start", "ns")
#: Kinds that klops lifts when a card passes or somebody says so, the graver first. What a person said comes
#: before klops' own note, after which a card is tested again without being asked for.
LIFTED = (HAND, VERDICT)


def note(
    card: Mapping[str, Any],
    said: str,
    *,
    by: str,
    at: float,
    boot_id: str,
    process: Mapping[str, Any],
) -> dict[str, Any]:
    """A note for a card that a process which KILL doesn't end holds; ``said`` is the evidence of that.

    ``process``: ``{pid, start, ns, name, state}``, numbers as in its container: there it is seen whether it
    lives. ``at`` is epoch seconds.
    """
    return {
        "card": identity(card),
        "kind": UNKILLABLE,
        "reason": (
            f"pid {process['pid']} ({process['name']}, pid of its container) has it open and can't be ended,"
            " not even by KILL: the card needs a reset, or the host a reboot; once that process is gone and"
            " its container was started anew, klops reap HOST lifts this"
        ),
        "evidence": [said],
        "by": by,
        "at": at,
        "boot_id": boot_id,
        "expires": None,
        "process": dict(process),
    }


def exclusion(
    card: Mapping[str, Any],
    kind: str,
    reason: str,
    *,
    by: str,
    at: float | None,
    boot_id: str,
    driver: str,
    evidence: Sequence[str] = (),
    expires: float | None = None,
    run: str = "",
    alone: bool = False,
) -> dict[str, Any]:
    """A note of the kind ``verdict`` or ``hand``; times in epoch seconds, ``expires`` None for never.

    ``alone``: the card failed by itself, not only together with others.
    """
    return {
        "card": identity(card),
        "kind": kind,
        "reason": reason,
        "evidence": list(evidence),
        "by": by,
        "at": at,
        "boot_id": boot_id,
        "driver": driver,
        "expires": expires,
        "run": run,
        "alone": alone,
    }


def identity(card: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a card to know it again."""
    return {key: card.get(key) for key in _CARD}


def recognisable(card: Mapping[str, Any]) -> bool:
    """Whether :func:`same_card` can be true of it: an index alone identifies none."""
    return any(card.get(key) for key in (*_IDENTITY, "node"))


def same_card(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two descriptions are of one card: by UUID, serial or PCI address, else by the node's name."""
    for key in _IDENTITY:
        if one.get(key) and other.get(key):
            return bool(one[key] == other[key])
    names = [str(card.get("node") or "").rpartition("/")[2] for card in (one, other)]
    return bool(names[0]) and names[0] == names[1]


def in_force(
    notes: Sequence[Any], boot_id: str, now: float, lives: Callable[[Mapping[str, Any]], bool | None]
) -> list[dict[str, Any]]:
    """The notes that count now. ``lives`` tells whether a process does, None when that can't be told.

    What can't be told counts as living, and a note of a kind that isn't known here counts until it expires.
    """
    found = []
    for one in notes:
        if not isinstance(one, dict) or not isinstance(one.get("card"), dict):
            continue
        expires = ends(one)
        if expires is not None and expires <= now:
            continue
        if one.get("kind") == UNKILLABLE:
            process = _process(one)
            if one.get("boot_id") != boot_id or (process is not None and lives(process) is False):
                continue
        found.append(one)
    return found


def ends(one: Mapping[str, Any]) -> float | None:
    """When a note ends, epoch seconds; None for one that has no end, or says something that is no time."""
    return moment(one.get("expires"))


def outlived(
    notes: Sequence[Any], boot_id: str, over: Callable[[Mapping[str, Any]], bool]
) -> list[dict[str, Any]]:
    """The notes of this boot whose process is ``over``, for who can tell that of any process of the host."""
    return [
        one
        for one in notes
        if isinstance(one, dict)
        and one.get("kind") == UNKILLABLE
        and one.get("boot_id") == boot_id
        and (process := _process(one)) is not None
        and over(process)
    ]


def _process(one: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The process of a note; None where it doesn't say which that is: it may have been edited by hand."""
    process = one.get("process")
    told = isinstance(process, dict) and all(isinstance(process.get(key), int) for key in _PROCESS)
    return process if told else None


def against(notes: Sequence[Mapping[str, Any]], card: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The gravest of these notes that are about a card, None when none is.

    First one that only its process ends, or that a later klops wrote: no test and no word lifts it.
    """
    return min((one for one in notes if same_card(one["card"], card)), key=_grade, default=None)


def _grade(one: Mapping[str, Any]) -> int:
    kind = one.get("kind")
    if kind in LIFTED:
        return 2 + LIFTED.index(kind)
    return 0 if kind == UNKILLABLE else 1


def added(notes: Sequence[Any], new: Mapping[str, Any]) -> list[Any]:
    """The notes with a new one, which replaces what was said before of the same card and process."""

    def replaced(one: Any) -> bool:
        return (
            isinstance(one, dict)
            and isinstance(one.get("card"), dict)
            and one.get("kind") == new.get("kind")
            and same_card(one["card"], new["card"])
            and _who(one) == _who(new)
        )

    return [*(one for one in notes if not replaced(one)), dict(new)]


def _who(one: Mapping[str, Any]) -> tuple[Any, ...]:
    process = _process(one) or {}
    return tuple(process.get(key) for key in _PROCESS)


def told(one: Mapping[str, Any]) -> dict[str, Any]:
    """What ``klops status`` shows of a note with its card."""
    return {**{key: one.get(key) for key in ("reason", "by", "at", "kind")}, "expires": ends(one)}
