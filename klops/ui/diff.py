"""Unified diffs of changes. Pure."""

from __future__ import annotations

import difflib
import re

from klops.actions.base import Change

#: Lines of one diff that are shown; the rest is counted.
SHOWN = 400
#: Ends a line.
_END = re.compile(r"\r\n|\n|\r")


def unified(change: Change) -> list[str]:
    """The lines of a change's unified diff, without newlines; empty when the change has no texts."""
    if change.before is None and change.after is None:
        return []
    before, after = _lines(change.before or ""), _lines(change.after or "")
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


def _lines(text: str) -> list[str]:
    """Lines as files have them: a form feed or U+2028 within one ends it for Python alone."""
    lines = _END.split(text)
    return lines if lines[-1] else lines[:-1]
