"""``assert``: fail unless all conditions hold.

.. code-block:: yaml

    - assert:
        that: [cards | length == 8, tp in [1, 2, 4, 8]]
        fail_msg: this playbook wants a whole host
"""

from __future__ import annotations

from pydantic import AliasChoices, Field

from klops.actions.ansibletexts import ASSERTED, NOT_ASSERTED
from klops.actions.base import Action, Params, Plan, Probe, Seen, View
from klops.actions.fields import Conditions
from klops.errors import TaskFailed


class AssertParams(Params):
    """``that``: conditions without braces; messages are one text, or several."""

    that: Conditions
    fail_msg: str | list[str] | None = Field(default=None, validation_alias=AliasChoices("fail_msg", "msg"))
    success_msg: str | list[str] | None = None
    quiet: bool = False


class Assert(Action[AssertParams]):
    """Check conditions; touches nothing."""

    name = "assert"
    params = AssertParams

    def probe(self, params: AssertParams, view: View) -> Probe:
        """Nothing to read."""
        return Probe()

    def plan(self, params: AssertParams, view: View, seen: Seen) -> Plan:
        """No steps; a failure that names the first condition which doesn't hold."""
        for condition in params.that:
            if not condition.holds:
                text = _text(params.fail_msg or f"the condition does not hold: {condition.text}")
                hint = f"does not hold: {condition.text}" if params.fail_msg else ""
                values = {
                    "assertion": condition.text,
                    "evaluated_to": False,
                    "msg": params.fail_msg or NOT_ASSERTED,
                }
                return Plan(failure=TaskFailed(text, hint=hint, code="assertion", values=values))
        msg = params.success_msg or ASSERTED
        return Plan(result={"msg": msg}, message="" if params.quiet else _text(msg))


def _text(msg: str | list[str]) -> str:
    return msg if isinstance(msg, str) else "\n".join(msg)
