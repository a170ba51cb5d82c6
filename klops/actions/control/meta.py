"""``meta``: orders to the engine itself. The action only says what was ordered; the engine does it."""

from __future__ import annotations

from pydantic import field_validator

from klops.actions.base import Action, Params, Plan, Probe, Seen, View

NAME = "meta"
FLUSH_HANDLERS = "flush_handlers"
END_HOST = "end_host"
END_BATCH = "end_batch"
END_PLAY = "end_play"
CLEAR_HOST_ERRORS = "clear_host_errors"
CLEAR_FACTS = "clear_facts"
RESET_CONNECTION = "reset_connection"
NOOP = "noop"
#: orders to all hosts of a batch: with the linear strategy their conditions are asked of the first host only
FOR_ALL = frozenset([END_BATCH, END_PLAY, CLEAR_HOST_ERRORS, CLEAR_FACTS])
ORDERS = (FLUSH_HANDLERS, END_HOST, RESET_CONNECTION, NOOP, *sorted(FOR_ALL))
#: what Ansible knows besides, and why klops doesn't
_REFUSED = {
    "refresh_inventory": "the inventory is read once and all its mistakes are told before anything runs; "
    "run klops again to read it again",
    "end_role": "there are no roles; put the tasks into a block, and give them a condition",
    "role_complete": "there are no roles",
}


class MetaParams(Params):
    """``meta: end_play``: the order as a plain word."""

    free_form: str

    @field_validator("free_form")
    @classmethod
    def _known(cls, order: str) -> str:
        if order in _REFUSED:
            raise ValueError(f"{order} is not supported: {_REFUSED[order]}")
        if order not in ORDERS:
            raise ValueError(f"{order!r} is no order; there are {', '.join(ORDERS)}")
        return order


class Meta(Action[MetaParams]):
    """Order something of the engine; touches nothing on the host."""

    name = NAME
    params = MetaParams
    free_form = "free_form"

    def probe(self, params: MetaParams, view: View) -> Probe:
        """Nothing to read."""
        return Probe()

    def plan(self, params: MetaParams, view: View, seen: Seen) -> Plan:
        """No steps; the engine does what ``meta`` of the result says."""
        return Plan(result={"meta": params.free_form})
