"""``debug``: show a message, or the value of an expression."""

from __future__ import annotations

import json
from typing import Any

from pydantic import model_validator

from klops.actions.ansibletexts import HELLO
from klops.actions.base import Action, Params, Plan, Probe, Seen, View
from klops.actions.fields import Evaluated, LenientExpression


class DebugParams(Params):
    """``msg`` (any value) or ``var`` (an expression without braces); ``verbosity``: from how many ``-v``.

    As in Ansible a ``var`` that isn't defined is shown as that, with a warning, and is no failure.
    """

    msg: Any = None
    var: LenientExpression = None
    verbosity: int = 0

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
        if params.verbosity > view.verbosity:
            why = f"it is shown from {params.verbosity} -v on"
            return Plan(result={"skipped_reason": why}, skipped=why)
        if params.var is not None:
            return _shown(params.var)
        msg = HELLO if params.msg is None else params.msg
        return Plan(result={"msg": msg}, message=_text(msg))


def _shown(var: Evaluated) -> Plan:
    value = f"<not defined: {var.undefined}>" if var.undefined else var.value
    warnings = (f"{var.text}: {var.undefined}",) if var.undefined else ()
    return Plan(result={var.text: value}, message=f"{var.text}: {_text(value)}", warnings=warnings)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str, indent=2)
