"""``fail``: end the run on this host with a message."""

from __future__ import annotations

from klops.actions.base import Action, Params, Plan, Probe, Seen, View
from klops.errors import TaskFailed


class FailParams(Params):
    """What to say."""

    msg: str = "Failed as requested from task"


class Fail(Action[FailParams]):
    """Fail on purpose."""

    name = "fail"
    params = FailParams

    def probe(self, params: FailParams, view: View) -> Probe:
        """Nothing to read."""
        return Probe()

    def plan(self, params: FailParams, view: View, seen: Seen) -> Plan:
        """The failure."""
        return Plan(failure=TaskFailed(params.msg))
