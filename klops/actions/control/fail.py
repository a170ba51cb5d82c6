"""``fail``: end the run on this host with a message."""

from __future__ import annotations

import json
from typing import Any

from klops.actions.ansibletexts import FAILED
from klops.actions.base import Action, Params, Plan, Probe, Seen, View
from klops.errors import TaskFailed


class FailParams(Params):
    """What to say: a text, or any value."""

    msg: Any = FAILED


class Fail(Action[FailParams]):
    """Fail on purpose."""

    name = "fail"
    params = FailParams

    def probe(self, params: FailParams, view: View) -> Probe:
        """Nothing to read."""
        return Probe()

    def plan(self, params: FailParams, view: View, seen: Seen) -> Plan:
        """The failure."""
        msg = params.msg
        text = msg if isinstance(msg, str) else json.dumps(msg, ensure_ascii=False, default=str)
        return Plan(failure=TaskFailed(text, values={"msg": msg}))
