"""``when``, ``failed_when``, ``changed_when`` and ``until``: expressions that are true or false."""

from __future__ import annotations

from collections.abc import Sequence

from klops.playbook.template.templar import Templar


def failing(conditions: Sequence[str], templar: Templar) -> str:
    """The first condition that doesn't hold, or "" when all do. Later ones are then not evaluated.

    As in Ansible 2.19 only true and false will do, wherever the value comes from. Raises :class:`TaskFailed`
    for a condition that is neither, and NotKnown.
    """
    for text in conditions:
        if not templar.evaluate(text).holds:
            return text
    return ""


def hold(conditions: Sequence[str], templar: Templar) -> bool:
    """Whether all of them do; raises as :func:`failing` does."""
    return not failing(conditions, templar)
