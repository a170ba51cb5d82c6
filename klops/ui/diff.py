"""Unified diffs of changes. Pure."""

from __future__ import annotations

import difflib

from klops.actions.base import Change

#: Lines of one diff that are shown; the rest is counted.
SHOWN = 400


def unified(change: Change) -> list[str]:
    """The lines of a change's unified diff, without newlines; empty when the change has no texts."""
    if change.before is None and change.after is None:
        return []
    before = (change.before or "").splitlines()
    after = (change.after or "").splitlines()
    lines = list(
        difflib.unified_diff(
            before,
            after,
            "(absent)" if change.before is None else "before",
            "(absent)" if change.after is None else "after",
            lineterm="",
        )
    )
    if not lines:
        return []
    if len(lines) > SHOWN:
        return [*lines[:SHOWN], f"... {len(lines) - SHOWN} more lines"]
    return lines
