"""Counts over the whole suite, printed at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

#: ``equal``, ``different`` runs; ``predicted``, ``unknown`` tasks of dry runs
counts: Counter[str] = Counter()
#: names of the playbooks that were compared
playbooks: set[str] = set()


def dump() -> dict[str, Any]:
    """The counts of this process, as plain values."""
    return {"counts": dict(counts), "playbooks": sorted(playbooks)}


def add(other: Mapping[str, Any]) -> None:
    """The counts of another process."""
    counts.update(other["counts"])
    playbooks.update(other["playbooks"])


def lines() -> list[str]:
    """What to print; nothing when nothing was compared."""
    said = []
    if compared := counts["equal"] + counts["different"]:
        said.append(
            f"oracle: {len(playbooks)} playbooks, {compared} runs: {counts['equal']} equal,"
            f" {counts['different']} different as documented"
        )
    if foretold := counts["predicted"] + counts["unknown"]:
        said.append(
            f"dry runs: {foretold} tasks, {counts['predicted']} as predicted, {counts['unknown']} unknown"
        )
    return said
