"""Adoption: a container that klops didn't make, and runs units in. Pure.

Its writable layer holds somebody's work, so it is never replaced, removed or stopped here. All that is put
into it lies below klops' root there; what keeps the units running is started beside its main process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from klops.actions.base import Plan, Step, View
from klops.actions.own import hostreads, hostview
from klops.actions.own.container.adopt_steps import (
    CheckInside,
    EndSupervisor,
    Forget,
    PlaceAgent,
    Record,
)
from klops.actions.own.container.differences import differences as all_differences
from klops.actions.own.container.steps import Start
from klops.actions.own.desired import INSIDE, container_spec, devices
from klops.actions.own.supervision import Supervise
from klops.commands import drift, fit
from klops.commands.containerspec import size_in_bytes
from klops.commands.docker import Container
from klops.errors import TaskFailed
from klops.remote import agentpackage
from klops.remote.base import Replies
from klops.remote.reads import Read

if TYPE_CHECKING:
    from klops.commands.drift import Drift
    from klops.inventory.settings import Settings

#: Nodes as the runtimes of these cards look for them.
_USUAL = re.compile(rf"{INSIDE}/xpu(\d+|ctrl)\Z")


def reads(settings: Settings) -> tuple[Read, ...]:
    """What :func:`plan` needs beside the shared reads of a host, its cards and its image."""
    return (hostreads.container_image(settings), hostreads.device_links(settings))


def unfit(settings: Settings, host: hostview.HostView, replies: Replies) -> list[str]:
    """Why klops can't run the services in this container, each the end of a sentence after "it"."""
    if host.container is None:
        return []
    nodes = [node for node, _ in devices(settings, host)]
    links = drift.parse_links(hostview.reply(replies, hostreads.DEVICE_LINKS).text)
    reasons = fit.unfit(host.container.raw, nodes, links, settings.root)
    inside = {node: host.nodes[node] for node in nodes if node in host.nodes}
    elsewhere = [f"{node} as {path}" for node, path in inside.items() if not _USUAL.match(path)]
    if elsewhere:
        reasons.append(f"has {', '.join(elsewhere)}: programs look for {INSIDE}/xpuN and {INSIDE}/xpuctrl")
    return reasons


def weaker(settings: Settings, container: Container) -> list[str]:
    """What is weaker in it than in a container that klops makes."""
    return fit.weaker(container.raw, settings.root, size_in_bytes(settings.container.shm))


def differences(settings: Settings, host: hostview.HostView, replies: Replies) -> list[Drift]:
    """In what it differs from the settings as services see it; nothing where these name no image.

    What makes it only weaker is no difference, and neither is that klops' root isn't mounted.
    """
    if host.container is None or not settings.container.image:
        return []
    spec = container_spec(settings, host)
    if not fit.shares_root(host.container.raw, settings.root):
        spec = replace(spec, volumes=tuple(settings.container.volumes))
    return [one for one in all_differences(spec, host.container, replies) if one.real]


def plan(view: View, host: hostview.HostView, replies: Replies) -> Plan:
    """Take a container over that klops didn't make, or go on with one that was; nothing when all is as it is.

    Each step can be repeated, so a run that was lost between two of them is completed by the next one.
    """
    settings, container = view.settings, host.container
    if container is None:
        raise ValueError("there is no container to adopt")
    reasons = unfit(settings, host, replies)
    failure = _unfit(container, reasons) if reasons else host.lost_access_error(view.host)
    if failure is not None:
        return Plan(failure=failure)
    prefix, digest = hostreads.docker_prefix(settings), agentpackage.build().digest
    steps: list[Step] = []
    if container.startable:
        steps.append(Start(prefix, container.name, container.id, container.state))
    if not host.adopted or (host.running and host.agent is None):
        # an agent that doesn't answer may have lost its interpreter to a setting
        python, started = settings.container.python, container.startable
        steps.append(CheckInside(prefix, container.name, container.id, python, started))
    shared = fit.shares_root(container.raw, settings.root)
    if not shared and (not host.running or (host.agent or {}).get("agent") != digest):
        in_use = str(((host.agent or {}).get("supervisor") or {}).get("agent") or "")
        steps.append(PlaceAgent(prefix, container.name, container.id, settings.root, digest, in_use))
    if not host.adopted:
        before = host.adoption.id if host.adoption is not None else ""
        steps.append(Record(settings.root, container.name, container.id, before))
    if not (host.running and host.supervised):
        steps.append(Supervise(settings))
    found = differences(settings, host, replies)
    return Plan(
        steps=tuple(steps),
        result=_result(container, found),
        message=f"container {container.name} ({container.id[:12]}) is {container.state}, adopted",
        warnings=_warnings(view, host, container, found),
    )


def let_go(view: View, host: hostview.HostView) -> Plan:
    """End the supervisor of an adopted container and forget it. The container stays as it is."""
    settings, container = view.settings, host.container
    if container is None or not host.adopted:
        raise ValueError("there is no adopted container to let go")
    if not host.at_rest and host.agent is None:
        return Plan(failure=host.silent_agent())
    steps: list[Step] = []
    active = tuple(name for name, unit in host.units.items() if _active(unit))
    if host.running and (host.supervised or active):
        steps.append(EndSupervisor(settings, active))
    steps.append(Forget(settings.root, container.name, container.id))
    stays = (
        f"the container {container.name} ({container.id[:12]}) stays, {container.state} as it is: klops did "
        f"not make it. What klops put into it lies below {settings.root} there"
    )
    return Plan(steps=tuple(steps), warnings=(stays,))


def _active(unit: Mapping[str, Any]) -> bool:
    """Whether something of a unit lives, or is about to."""
    return bool(unit.get("lineage")) or unit.get("state") not in ("stopped", "failed")


def _result(container: Container, found: list[Drift]) -> dict[str, Any]:
    return {"id": container.id, "adopted": True, "drift": [one.as_json() for one in found]}


def _warnings(
    view: View, host: hostview.HostView, container: Container, found: list[Drift]
) -> tuple[str, ...]:
    warnings = []
    less = weaker(view.settings, container) if not host.adopted else []
    if less:
        warnings.append(
            f"container {container.name} is not klops' own, which makes it weaker: {'; '.join(less)}"
        )
    if found:
        warnings.append(
            f"the adopted container {container.name} differs from the settings: "
            f"{'; '.join(map(str, found))}; klops up {view.host} --recreate makes a new one in its place, "
            "and keeps this one under another name"
        )
    return tuple(warnings)


def _unfit(container: Container, reasons: list[str]) -> TaskFailed:
    first, *others = reasons
    more = "".join(f"\n- it {reason}" for reason in others)
    counted = f" (and {len(others)} more)" if others else ""
    return TaskFailed(
        f"klops did not make the container {container.name} ({container.id[:12]}, {container.image}), and it "
        f"can't run services in it: it {first}{counted}{more}",
        code="container-unfit",
        hint="nothing was changed. Set another klops.container.name, or rename that container "
        "(docker rename): klops up then makes one that fits",
    )
