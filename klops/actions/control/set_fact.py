"""``set_fact``: give variables of this host a value for the rest of the run."""

from __future__ import annotations

from pydantic import ConfigDict, field_validator, model_validator

from klops.actions.base import Action, Params, Plan, Probe, Seen, View


class SetFactParams(Params):
    """Any names and values. ``cacheable`` is a name that Ansible keeps for itself."""

    model_config = ConfigDict(extra="allow", frozen=True, arbitrary_types_allowed=True)

    cacheable: bool = False

    @field_validator("cacheable")
    @classmethod
    def _no_cache(cls, cacheable: bool) -> bool:
        if cacheable:
            raise ValueError(
                "klops keeps no facts from one run to the next: put the value into the inventory"
            )
        return cacheable

    @model_validator(mode="after")
    def _something(self) -> SetFactParams:
        if not self.model_extra:
            raise ValueError("give a name and its value")
        return self


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
