"""``klops.container``: the container that services run in.

Made when missing, started when stopped, adopted when it isn't klops' own, and made anew only where that is
allowed.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from klops.actions.base import Action, Context, Params, Plan, Probe, Seen, View
from klops.actions.own import hostreads, hostview, records
from klops.actions.own.container import adopt
from klops.actions.own.container.absent import absent
from klops.actions.own.container.present import present
from klops.actions.own.container.settle import Settle
from klops.errors import KlopsError


class ContainerParams(Params):
    """``state``: present (made if need be, and running), absent (stopped and removed), or settled.

    ``settled``: what a lost run has left of making it anew is finished, or the old one put back; else nothing
    is done. The other two see to that as well, but tasks before them may need what was put aside.

    ``recreate``: whether one that differs from the settings is made anew (allow) or that is only told
    (report); None: as the settings say. The settings alone never lead to a new container in place of one that
    klops didn't make.
    """

    state: Literal["present", "absent", "settled"] = "present"
    recreate: Literal["report", "allow"] | None = None


class ContainerAction(Action[ContainerParams]):
    """Keeps one container: what it differs in is reported, and it stays as it is unless more is allowed."""

    name: ClassVar[str] = "klops.container"
    params = ContainerParams

    def probe(self, params: ContainerParams, view: View) -> Probe:
        """The container, its agent, what a lost run has left, and what it is compared with."""
        settings = view.settings
        reads = [*hostreads.host(settings), hostreads.recreation(settings)]
        if params.state == "present":
            reads += [*hostreads.cards(settings), *hostreads.image(settings), *adopt.reads(settings)]
            reads += [hostreads.unit_state(settings, name) for name in settings.services]
            reads += [hostreads.run_folder(settings), hostreads.nodes(settings)]
        return Probe(reads=tuple(reads))

    def plan(self, params: ContainerParams, view: View, seen: Seen) -> Plan:
        """Nothing for a container that runs and is as it must be."""
        settings, replies = view.settings, seen.replies
        host = hostview.look(replies, settings)
        trouble = host.trouble()
        if trouble is not None and params.state != "settled":
            return Plan(failure=trouble)
        try:
            record = records.parse_recreation(hostview.reply(replies, hostreads.RECREATION))
        except KlopsError as error:
            return Plan(failure=error)
        if params.state == "settled":
            if record is None:
                # whatever else is wrong with the host is for klops.preflight to tell, all of it at once
                return Plan(message="no recreation was lost")
            if trouble is not None:
                return Plan(failure=trouble)
        if params.state == "absent":
            return absent(view, host, record)
        if record is not None:
            unknown = "what is left to do then depends on how that ends" if view.check else ""
            alone = params.state == "settled"
            return Plan(steps=(Settle(settings, record, params.recreate, alone),), unknown=unknown)
        return present(view, host, replies, recreate=params.recreate)

    def apply(self, plan: Plan, ctx: Context) -> dict[str, Any]:
        """Carry the steps out; where a lost recreation was settled, look again and do what then is left."""
        result = super().apply(plan, ctx)
        for step in plan.steps:
            if isinstance(step, Settle) and not step.alone:
                params = ContainerParams(recreate=step.recreate)
                replies = ctx.remote.read(self.probe(params, ctx.view).reads)
                again = self.plan(params, ctx.view, Seen(replies))
                if again.failure is not None:
                    raise again.failure
                for text in again.warnings:
                    ctx.warn(text)
                result = {**result, **again.result, **super().apply(again, ctx)}
        return result
