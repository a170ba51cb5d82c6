"""What a lost recreation has left on a host is put in order."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from klops.actions.base import Change, Context, Step
from klops.actions.own import hostreads, hostview, records
from klops.actions.own.container.aside import Aside, way_back
from klops.actions.own.container.calm import calm
from klops.actions.own.hostview import HostView
from klops.actions.own.records import Recreation
from klops.commands.containerspec import RUN_LABEL
from klops.errors import AgentError, HostUnreachable, KlopsError, LockHeld, TaskFailed

if TYPE_CHECKING:
    from klops.inventory.settings import Settings


def replaced(host: HostView, record: Recreation, settings: Settings) -> bool:
    """Whether the new container of that recreation is there and has proved itself: its units are ready.

    One that has nothing to prove, as no unit was wanted or none is in the settings any more, hasn't.
    """
    container = host.container
    if container is None or container.id == record.id or not host.supervised:
        return False
    if container.labels.get(RUN_LABEL) != record.run:
        return False
    names = [name for name in record.units if name in settings.services]
    return bool(names) and all((host.units.get(name) or {}).get("state") == "ready" for name in names)


def _half_stopped(host: HostView, record: Recreation) -> bool:
    """Whether the old container still runs, but its units don't: the engine may be stopping it just now."""
    if host.container is None or host.container.id != record.id or not host.running:
        return False
    states = [(host.units.get(name) or {}).get("state") for name in record.units]
    return not host.supervised or not set(states) <= {"starting", "ready"}


@dataclass(frozen=True)
class Settle(Step):
    """Finish a recreation whose run was lost, or put the old container back: whichever it was near to."""

    settings: Settings
    record: Recreation
    #: whether what is looked at afterwards may be made anew, as the task says
    recreate: Literal["report", "allow"] | None = None
    #: whether nothing is looked at afterwards: that is all that was asked for
    alone: bool = False

    def change(self) -> Change:
        """Whose it was."""
        return Change(
            f"put in order what run {self.record.run} left of making container {self.record.name} anew"
        )

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """Look again now that the lock is ours: the run may have come to its end meanwhile."""
        settings = self.settings
        reads = (*hostreads.host(settings), hostreads.recreation(settings))
        replies = ctx.remote.read(reads)
        record = records.parse_recreation(hostview.reply(replies, hostreads.RECREATION))
        if record is None:
            return {}
        host = hostview.look(replies, settings)
        trouble = host.trouble()
        if trouble is not None:
            raise trouble
        with calm(ctx) as quiet:
            aside = Aside(quiet, settings, record)
            if aside.engine.find(record.id) is None:
                # it is only removed when the new one has served: there is no way back, and none is needed
                with suppress(AgentError):
                    aside.forget()
                aside.drop()
                return {"settled": "new"}
            if replaced(host, record, settings):
                aside.finish()
                ctx.warn(f"the container that run {record.run} made anew serves, so it stays")
                return {"settled": "new"}
            self._back(aside, host, ctx.view.host)
        ctx.warn(f"run {record.run} was lost while it made container {record.name} anew; the old one is back")
        return {"settled": "old"}

    def _back(self, aside: Aside, host: HostView, name: str) -> None:
        """Put the old one back. That its units start is for what follows in the run to see to."""
        record = aside.record
        try:
            if _half_stopped(host, record):
                aside.stop()
            aside.give_back()
        except (HostUnreachable, LockHeld):
            raise
        except KlopsError as error:
            raise TaskFailed(
                f"run {record.run} was lost while it made container {record.name} anew, and the old one "
                f"could not be put back: {error.message}",
                code="recreate-failed",
                hint=f"{way_back(record, name, error)}; when it is of no use any more: rm "
                f"{records.recreation_path(self.settings.root)}",
            ) from error
        try:
            aside.revive()
            if record.ran and record.units:
                aside.forget()
        except (HostUnreachable, LockHeld):
            raise
        except KlopsError as error:
            aside.ctx.warn(f"the old container {record.name} is back, but: {error.message}")
        aside.drop()
