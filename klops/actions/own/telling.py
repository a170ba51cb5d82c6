"""Steps that know only afterwards what they have changed: the agent in the container decides, and tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from klops.actions.base import Context, Plan

#: Under this key such a step returns, beside its part of the result, the changes that it has really made.
CHANGES = "changes made"


def carried_out(plan: Plan, ctx: Context) -> tuple[list[dict[str, Any]], bool]:
    """Carry the steps out in order: what each adds to the result, and whether anything was changed.

    Their changes are noted in ``ctx.done``.
    """
    added: list[dict[str, Any]] = []
    before = len(ctx.done)
    for step in plan.steps:
        ctx.before(step)
        told = dict(step.carry_out(ctx) or {})
        ctx.done.extend(told.pop(CHANGES))
        added.append(told)
    return added, len(ctx.done) > before
