"""The plan of ``klops.container`` for ``state: absent``. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from klops.actions.base import Change, Context, Plan, Step, View
from klops.actions.own import hostreads
from klops.actions.own.container import adopt
from klops.actions.own.container.aside import Aside
from klops.actions.own.container.steps import Remove
from klops.actions.own.hostview import HostView
from klops.actions.own.records import Recreation
from klops.commands.docker import Container
from klops.errors import TaskFailed


def absent(view: View, host: HostView, record: Recreation | None) -> Plan:
    """Remove what klops made, with what a lost recreation has left of it; let go of what it adopted."""
    settings, container = view.settings, host.container
    steps: tuple[Step, ...] = ()
    if container is not None and host.made:
        prefix, grace = hostreads.docker_prefix(settings), int(settings.container.stop_timeout)
        steps = (Remove(prefix, container.name, container.id, not container.at_rest, grace),)
    elif container is not None and record is None:
        return adopt.let_go(view, host) if host.adopted else Plan(failure=_foreign(container))
    if record is not None:
        return Plan(steps=(*steps, Discard(record)))
    return Plan(steps=steps, message="" if steps else f"there is no container {settings.container.name}")


def _foreign(container: Container) -> TaskFailed:
    return TaskFailed(
        f"the container {container.name} ({container.id[:12]}, {container.image}) was not made by klops",
        code="container-foreign",
        hint="set another klops.container.name, or rename that container: docker rename",
    )


@dataclass(frozen=True)
class Discard(Step):
    """Give up the old container that a lost recreation has put aside; one that klops didn't make stays."""

    record: Recreation

    def change(self) -> Change:
        """What becomes of it."""
        record = self.record
        if record.adopted:
            return Change(f"give container {record.aside} ({record.id[:12]}), put aside, its name back")
        return Change(f"remove container {record.aside} ({record.id[:12]}), put aside by run {record.run}")

    def carry_out(self, ctx: Context) -> None:
        """Remove it, or give its name back; then the record."""
        aside = Aside(ctx, ctx.view.settings, self.record)
        if self.record.adopted:
            aside.give_back()
        else:
            aside.remove()
        aside.drop()
