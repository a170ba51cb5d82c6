"""``when``: whether a task runs on a host."""

from __future__ import annotations

from collections.abc import Sequence

from klops.playbook.template import Templar


def failing(conditions: Sequence[str], templar: Templar) -> str:
    """The first condition that doesn't hold, or "" when all do. Later ones are then not evaluated.

    Raises :class:`TaskFailed` for a condition that is neither true nor false, and NotKnown.
    """
    for text in conditions:
        if not templar.evaluate(text).holds:
            return text
    return ""
