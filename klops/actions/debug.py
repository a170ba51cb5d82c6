"""``debug``: show a message, or the value of an expression."""

from __future__ import annotations

import json
from typing import Any

from pydantic import model_validator

from klops.actions.base import Action, Params, Plan, Probe, Seen, View
from klops.actions.fields import Expression


class DebugParams(Params):
    """``msg`` (any value) or ``var`` (an expression without braces)."""

    msg: Any = None
    var: Expression = None

    @model_validator(mode="after")
    def _one_of_both(self) -> DebugParams:
        if self.msg is not None and self.var is not None:
            raise ValueError("give one of msg and var")
        return self


class Debug(Action[DebugParams]):
    """Show something; touches nothing."""

    name = "debug"
    params = DebugParams

    def probe(self, params: DebugParams, view: View) -> Probe:
        """Nothing to read."""
        return Probe()

    def plan(self, params: DebugParams, view: View, seen: Seen) -> Plan:
        """No steps, a message."""
        if params.var is not None:
            shown = f"{params.var.text}: {_text(params.var.value)}"
            return Plan(result={params.var.text: params.var.value}, message=shown)
        msg = "Hello world!" if params.msg is None else params.msg
        return Plan(result={"msg": msg}, message=_text(msg))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str, indent=2)
