"""What was ready and was stopped for a test goes on as it was where that test could not be had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from klops.actions.own.services.steps import Verb
from klops.actions.own.services.stop import stop_timeout
from klops.cards.xccl.results import INCONCLUSIVE
from klops.errors import E, HostUnreachable, Interrupted, KlopsError

if TYPE_CHECKING:
    from klops.actions.base import Context
    from klops.inventory.settings import Settings


def resumed(ctx: Context, settings: Settings, units: Sequence[str], error: E) -> E:
    """Start these units again with the specification that they had; the error, with word of that.

    Not where the test has told what is wrong: their cards may be what it is.
    """
    told = (error.values or {}).get("diagnosis")
    if (told and told["scope"] != INCONCLUSIVE) or isinstance(error, (HostUnreachable, Interrupted)):
        return error
    said = [error.message]
    for unit in units:
        why = "as it was before the test"
        step = Verb(settings, "restart", unit, why, stop_timeout(settings, unit))
        try:
            step.carry_out(ctx)
        except KlopsError as failure:
            said.append(f"{unit} was stopped for that and could not be started again: {failure.message}")
        else:
            ctx.done.append(step.change())
            said.append(f"{unit} was started again as it was")
    return error.but(message="; ".join(said))
