"""Fault specs of a rehearsal host: what may be asked for, and the faults.json the stand-ins read.

::

    card=3:hang-init             card=5:hang-collective       card=2:wrong:3/10@1MiB
    card=4:slow:0.7              card=1:dead                  card=6:node-missing
    card=7:open-eperm            pair=2,6:error               pair=2,3:hang
    pair=4,7:slow:0.2            all-pairs:addr_window        group=8:error
    renumber                     vllm=crash-on-load

``wrong:K/N@SIZE``: in K of every N rounds the sum is wrong, from SIZE on; the rounds are spread evenly, so
3/10 are the rounds 2, 5 and 8. ``hang`` of a pair: both never return from a collective of a group that holds
both. ``slow:F``: the card, or a group that holds the pair, does its work at the factor F of its speed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from klops.errors import UsageError
from klops.yamlsource import nearest

SCHEMA = 1
CARDS = 8
CARD_KINDS = ("hang-init", "hang-collective", "wrong", "slow", "dead", "node-missing", "open-eperm")
VLLM_KINDS = ("crash-on-load", "no-ready", "hang-stop", "stall")
EXAMPLES = (
    *(
        "card=3:hang-init",
        "card=5:hang-collective",
        "card=2:wrong:3/10@1MiB",
        "card=4:slow:0.7",
        "card=1:dead",
    ),
    *("card=6:node-missing", "card=7:open-eperm", "pair=2,6:error", "pair=2,3:hang", "pair=4,7:slow:0.2"),
    *("all-pairs:addr_window", "group=8:error", "renumber"),
    *(f"vllm={kind}" for kind in VLLM_KINDS),
)
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def parse(specs: Sequence[str]) -> dict[str, Any]:
    """The content of faults.json for these specs.

    ``{schema, specs, cards: [{card, kind, ...}], pairs: [{a, b, kind, ...}], all_pairs, groups: [{size,
    kind}], renumber, vllm}``; ``kind`` wrong has ``of: [K, N]``, ``rounds``, ``min_bytes``, slow ``factor``.
    Raises :class:`UsageError` for a spec that isn't one, with the nearest that is.
    """
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "specs": list(specs),
        "cards": [],
        "pairs": [],
        "all_pairs": None,
        "groups": [],
        "renumber": False,
        "vllm": None,
    }
    for spec in specs:
        _add(spec, found)
    return found


def wrong_rounds(wrong: int, of: int) -> list[int]:
    """Which of ``of`` rounds are wrong, ``wrong`` of them, spread evenly.

    >>> wrong_rounds(3, 10)
    [2, 5, 8]
    """
    return [int((i + 0.5) * of / wrong + 0.5) for i in range(wrong)]


def _add(spec: str, found: dict[str, Any]) -> None:
    if spec == "renumber":
        found["renumber"] = True
    elif spec == "all-pairs:addr_window":
        found["all_pairs"] = "addr_window"
    elif spec.startswith("vllm=") and spec[5:] in VLLM_KINDS:
        found["vllm"] = spec[5:]
    elif outside := _outside(spec):
        hint = f"a rehearsal host has the cards 0 to {CARDS - 1}"
        raise UsageError(f"fault {spec!r}: there is no card {outside}", hint=hint)
    elif match := re.fullmatch(r"card=([0-7]):(.+)", spec):
        found["cards"].append({"card": int(match[1]), **_card_fault(spec, match[2])})
    elif (match := re.fullmatch(r"pair=([0-7]),([0-7]):(.+)", spec)) and match[1] != match[2]:
        a, b = sorted((int(match[1]), int(match[2])))
        found["pairs"].append({"a": a, "b": b, **_pair_fault(spec, match[3])})
    elif match := re.fullmatch(r"group=([2-8]):error", spec):
        found["groups"].append({"size": int(match[1]), "kind": "error"})
    else:
        raise _unknown(spec)


def _outside(spec: str) -> str:
    """The first card that a spec names and no host has, "" when there is none."""
    match = re.match(r"(?:card|pair)=(\d+)(?:,(\d+))?:", spec)
    numbers = [number for number in match.groups() if number] if match else []
    return next((number for number in numbers if int(number) >= CARDS), "")


def _pair_fault(spec: str, text: str) -> dict[str, Any]:
    if text in ("error", "hang"):
        return {"kind": text}
    if slow := _slow(text):
        return slow
    raise _unknown(spec)


def _slow(text: str) -> dict[str, Any] | None:
    match = re.fullmatch(r"slow:(0?\.\d*[1-9]\d*)", text)
    return {"kind": "slow", "factor": float(match[1])} if match else None


def _card_fault(spec: str, text: str) -> dict[str, Any]:
    if text in ("hang-init", "hang-collective", "dead", "node-missing", "open-eperm"):
        return {"kind": text}
    if slow := _slow(text):
        return slow
    if match := re.fullmatch(r"wrong:(\d+)/(\d+)(?:@(\d+)(B|KiB|MiB|GiB))?", text):
        wrong, of = int(match[1]), int(match[2])
        if 0 < wrong <= of:
            size = int(match[3]) * _UNITS[match[4]] if match[3] else 0
            return {"kind": "wrong", "of": [wrong, of], "rounds": wrong_rounds(wrong, of), "min_bytes": size}
    raise _unknown(spec)


def _unknown(spec: str) -> UsageError:
    close = nearest(spec, EXAMPLES)
    hint = f"did you mean {close}?" if close else "known: " + ", ".join(EXAMPLES)
    return UsageError(f"unknown fault {spec!r}", hint=hint)
