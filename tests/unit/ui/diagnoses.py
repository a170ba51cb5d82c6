"""Diagnoses as ``klops.cards`` registers them, for what shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

SIZES = (65536, 1 << 20, 2_600_000, 16 << 20, 256 << 20)


def card(index: int, verdict: str = "pass", reason: str = "", **more: Any) -> dict[str, Any]:
    return {
        "index": index,
        "minor": (index + 1) % 8,
        "node": f"/dev/xpu{(index + 1) % 8}",
        "bdf": f"0000:{0x52 + index:02x}:00",
        "uuid": f"GPU-{index:08d}",
        "serial": f"02K0{index}",
        "container_index": index,
        "container_node": f"/dev/xpu{(index + 1) % 8}",
        "verdict": verdict,
        "reason": reason,
        "evidence": [reason] if reason else [],
        "action": "none",
        **more,
    }


def samples(gbps: float, sizes: Iterable[int] = SIZES) -> list[dict[str, Any]]:
    """Rising to ``gbps`` at the largest size."""
    return [
        {"bytes": size, "rounds": 10, "wrong": 0, "nan": 0, "us": size / gbps / 1000 + 40, "spread_us": 1.5}
        for size in sizes
    ]


def diagnosis(
    count: int = 8, pairs: Mapping[tuple[int, int], Mapping[str, Any]] | None = None, **more: Any
) -> dict[str, Any]:
    """All well, but for the ``pairs`` that are given otherwise, and what ``more`` replaces."""
    other = pairs or {}
    every: list[dict[str, Any]] = [
        {"a": a, "b": b, "status": "ok", "gbps": 28.9, "us": 90.0, "runs": 1, "failures": 0, "reason": ""}
        | dict(other.get((a, b), {}))
        for a, b in combinations(range(count), 2)
    ]
    tested = [
        {
            "cards": [pair["a"], pair["b"]],
            "status": "ok" if pair["status"] == "slow" else pair["status"],
            "error": pair["reason"],
            "samples": samples(pair["gbps"]) if pair["gbps"] else [],
            "runs": pair["runs"],
            "failures": pair["failures"],
        }
        for pair in every
    ]
    alone = [
        {"cards": [index], "status": "ok", "error": "", "samples": [], "runs": 1, "failures": 0}
        for index in range(count)
    ]
    together = {**alone[0], "cards": list(range(count)), "samples": samples(19.3)}
    return {
        "cards": [card(index) for index in range(count)],
        "pairs": every,
        "scope": "none",
        "summary": f"all {count} cards work, alone and together",
        "healthy": list(range(count)),
        "excluded": [],
        "recommended_tp": count,
        "recommended_cards": list(range(count)),
        "recommended": {"": list(range(count))},
        "verified": True,
        "collectives_run": 29,
        "rounds": 10,
        "rank_processes": count,
        "seconds": 41.7,
        "why": "",
        "error": "",
        "hints": [],
        "backend": "nccl",
        "device": "cuda",
        "torch": "2.5.1",
        "outcomes": [together, *alone, *tested],
        "scan": [],
        "notes": [],
        "at": 1796013600.0,
        "driver": "5.0.21.47",
        **more,
    }


def card_3_is_bad() -> dict[str, Any]:
    """Card 3 fails with all others; pair 0-1 is slow; the service goes to 4-7."""
    bad: dict[tuple[int, int], dict[str, Any]] = {
        (min(3, other), max(3, other)): {
            "status": "timeout",
            "gbps": None,
            "us": None,
            "runs": 2,
            "failures": 2,
            "reason": "card 3 did not answer in 20 s",
        }
        for other in range(8)
        if other != 3
    }
    slow: dict[tuple[int, int], dict[str, Any]] = {
        (0, 1): {"status": "slow", "gbps": 9.1, "reason": "0.31 of its peers"}
    }
    cards = [card(index) for index in range(8)]
    cards[3] = card(
        3,
        "fail",
        "hangs in 7 of 7 pairs",
        evidence=["hangs in 7 of 7 pairs", "12 Xid lines since boot"],
        action="reset",
    )
    return diagnosis(
        pairs=bad | slow,
        cards=cards,
        scope="card",
        summary="card 3 is bad: it hangs with every other card; 7 cards work",
        healthy=[0, 1, 2, 4, 5, 6, 7],
        excluded=[3],
        recommended_tp=4,
        recommended_cards=[4, 5, 6, 7],
        recommended={"": [4, 5, 6, 7]},
        why="TP=8 needs card 3",
    )
