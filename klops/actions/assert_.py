"""``assert``: fail unless all conditions hold.

.. code-block:: yaml

    - assert:
        that: [cards | length == 8, tp in [1, 2, 4, 8]]
        fail_msg: this playbook wants a whole host
"""

from __future__ import annotations

from pydantic import AliasChoices, Field

from klops.actions.base import Action, Params, Plan, Probe, Seen, View
from klops.actions.fields import Conditions
from klops.errors import TaskFailed


class AssertParams(Params):
    """``that``: conditions without braces."""

    that: Conditions
    fail_msg: str | None = Field(default=None, validation_alias=AliasChoices("fail_msg", "msg"))
    success_msg: str | None = None
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
                text = params.fail_msg or f"the condition does not hold: {condition.text}"
                hint = f"does not hold: {condition.text}" if params.fail_msg else ""
                return Plan(failure=TaskFailed(text, hint=hint, code="assertion"))
        return Plan(message="" if params.quiet else params.success_msg or "all assertions hold")
