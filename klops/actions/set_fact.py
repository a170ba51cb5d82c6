"""``set_fact``: give variables of this host a value for the rest of the run."""

from __future__ import annotations

from pydantic import ConfigDict

from klops.actions.base import Action, Params, Plan, Probe, Seen, View


class SetFactParams(Params):
    """Any names and values."""

    model_config = ConfigDict(extra="allow", frozen=True, arbitrary_types_allowed=True)


class SetFact(Action[SetFactParams]):
    """Set variables; touches nothing on the host, so check mode sets them too."""

    name = "set_fact"
    params = SetFactParams

    def probe(self, params: SetFactParams, view: View) -> Probe:
        """Nothing to read."""
        return Probe()

    def plan(self, params: SetFactParams, view: View, seen: Seen) -> Plan:
        """No steps; the engine takes ``ansible_facts`` over."""
        return Plan(result={"ansible_facts": dict(params.model_extra or {})})
