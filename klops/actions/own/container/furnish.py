"""What services run on is put into a container that was just made: packages, source and patches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from klops.actions.base import Action, Context, Params, Plan, Seen
from klops.actions.own import hostreads, hostview
from klops.actions.own.patch.action import PatchAction
from klops.actions.own.services.action import ServicesAction
from klops.actions.own.services.steps import Verb
from klops.actions.own.services.stop import stop_timeout
from klops.actions.own.source.action import SourceAction
from klops.actions.own.stack.action import StackAction
from klops.errors import TaskFailed

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

#: In the order of ``up.yml``: patches are of files that the packages bring.
_CODE: tuple[Action[Any], ...] = (StackAction(), SourceAction(), PatchAction())


@dataclass(frozen=True)
class Given:
    """What of it comes from the control node, by the action's name."""

    files: Mapping[str, Mapping[str, bytes]]
    local: Mapping[str, Mapping[str, object]]


def look(ctx: Context) -> Given:
    """Look at the control node: what is amiss there is told before anything is touched.

    Raises :class:`TaskFailed`.
    """
    files: dict[str, Mapping[str, bytes]] = {}
    local: dict[str, Mapping[str, object]] = {}
    for action in _CODE:
        probe = action.probe(action.params(), ctx.view)
        files[action.name] = {key: _content(ctx, kind, path) for key, (kind, path) in probe.files.items()}
        local[action.name] = {key: look.look() for key, look in probe.local.items()}
    return Given(files, local)


def _content(ctx: Context, kind: str, path: str) -> bytes:
    place = ctx.view.find_local(kind, path)
    try:
        return place.read_bytes()
    except OSError as error:
        raise TaskFailed(f"{place}: {error.strerror}", code="local-file") from error


def put_in(ctx: Context, settings: Settings, given: Given) -> None:
    """Have all of it there, as the settings ask for.

    Units don't run meanwhile: what they were started on would not be what is there then, and no note would
    tell, where the old container had the same. They are to run again, and the record of each says so.
    """
    at_work = True
    for action in _CODE:
        plan = _planned(ctx, action, action.params(), given.files[action.name], given.local[action.name])
        if plan.changes and at_work:
            _stop(ctx, settings)
            at_work = False
        if plan.steps:
            action.apply(plan, replace(ctx, done=[]))


def serve(ctx: Context, names: list[str]) -> None:
    """Have services ready, as the settings now want them."""
    action = ServicesAction()
    plan = _planned(ctx, action, action.params(state="running", names=names))
    action.apply(plan, replace(ctx, done=[]))


def _planned(
    ctx: Context,
    action: Action[Any],
    params: Params,
    files: Mapping[str, bytes] = {},
    local: Mapping[str, object] = {},
) -> Plan:
    """What another action would do here now. Raises what it fails with."""
    reads = action.probe(params, ctx.view).reads
    plan = action.plan(params, ctx.view, Seen(ctx.remote.read(reads) if reads else {}, files, local))
    if plan.failure is not None:
        raise plan.failure
    for text in plan.warnings:
        ctx.warn(text)
    return plan


def _stop(ctx: Context, settings: Settings) -> None:
    host = hostview.look(ctx.remote.read(hostreads.host(settings)), settings)
    for name, unit in sorted(host.units.items()):
        if unit.get("desired") == "running":
            why = "before what it runs on is put in place"
            Verb(settings, "stop", name, why, stop_timeout(settings, name), resumes=True).carry_out(ctx)
