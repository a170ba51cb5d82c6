"""The plan of ``klops.container`` for ``state: present``. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from klops.actions.base import Plan, Step, View
from klops.actions.own import hostreads, hostview
from klops.actions.own.container import adopt
from klops.actions.own.container.create import Create
from klops.actions.own.container.differences import differences
from klops.actions.own.container.recreate import Recreate
from klops.actions.own.container.steps import Start
from klops.actions.own.desired import container_spec
from klops.actions.own.hostview import HostView
from klops.actions.own.image.arrival import may_replace
from klops.actions.own.image.python import CheckPython
from klops.actions.own.supervision import WaitAgent
from klops.commands.containerspec import ContainerSpec
from klops.commands.docker import Container
from klops.commands.drift import Drift
from klops.errors import TaskFailed
from klops.remote.base import Replies
from klops.remote.reads import ABSENT
from klops.remote.rootreads import plain

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

_MOVED = "image_id"
#: States of a unit that serves, or is on the way to it.
_WELL = ("starting", "ready")


def present(view: View, host: HostView, replies: Replies, *, recreate: str | None) -> Plan:
    """Make it, start it, take it over, or, where that is allowed, make it anew.

    ``recreate`` is this task's word, None where the settings decide.
    """
    container = host.container
    if container is None:
        spec = container_spec(view.settings, host, anew=True)
        prefix = hostreads.docker_prefix(view.settings)
        steps = (CheckPython(prefix, spec), Create(prefix, spec, view.settings))
        return Plan(steps=steps, result=_result("", spec, []))
    if not (container.startable or container.up):
        return Plan(failure=_stuck(container, view.host))
    allowed = may_replace(view.settings, host, recreate)
    if host.made:
        return _made(view, host, container, replies, allowed)
    plan = adopt.plan(view, host, replies)
    if not allowed or (plan.failure is not None and not host.adopted):
        return plan
    found = _leading(adopt.differences(view.settings, host, replies), view.settings)
    why = [*map(str, found), *_lost_nodes(host)]
    if not why:
        return plan
    if not host.adopted:
        return Plan(failure=_foreign(container, view.host, why))
    return _anew(view, host, container, replies, why)


def _foreign(container: Container, host: str, why: Sequence[str]) -> TaskFailed:
    """It may be at somebody's work, and nothing is known of what that is."""
    return TaskFailed(
        f"the container {container.name} ({container.id[:12]}, {container.image}) was neither made nor "
        f"adopted by klops, so it is not stopped and made anew; it differs: {'; '.join(why)}",
        code="container-foreign",
        hint=f"nothing was changed. klops up {host} without --recreate adopts it as it is; "
        "docker rename gives its name to a new one",
    )


def _made(view: View, host: HostView, container: Container, replies: Replies, allowed: bool) -> Plan:
    settings = view.settings
    spec = container_spec(settings, host)
    found = differences(spec, container, replies)
    lost = _lost_nodes(host)
    why = [*map(str, _leading(found, settings)), *lost]
    if allowed and why:
        return _anew(view, host, container, replies, why)
    warnings = _drifted(view, found, hostview.reply(replies, hostreads.IMAGE).ok)
    failure = host.lost_access_error(view.host)
    if failure is not None:
        return Plan(failure=failure, warnings=warnings)
    prefix, result = hostreads.docker_prefix(settings), _result(container.id, spec, found)
    if container.startable:
        start = Start(prefix, container.name, container.id, container.state)
        return Plan(steps=(start, WaitAgent(settings)), result=result, warnings=warnings)
    steps: tuple[Step, ...] = () if host.supervised else (WaitAgent(settings),)
    message = f"container {container.name} ({container.id[:12]}) is {container.state}"
    return Plan(steps=steps, result=result, message=message, warnings=warnings)


def _lost_nodes(host: HostView) -> list[str]:
    return [f"{node} can't be opened inside: {error}" for node, error in host.lost_access]


def _anew(view: View, host: HostView, container: Container, replies: Replies, why: Sequence[str]) -> Plan:
    settings = view.settings
    spec = container_spec(settings, host, anew=True)
    if (container.raw.get("HostConfig") or {}).get("AutoRemove"):
        return Plan(
            failure=TaskFailed(
                f"container {container.name} can't be made anew and kept until the new one serves: it was "
                "made with --rm, so docker removes it when it stops",
                code="container-unfit",
                hint=f"without --recreate it stays as it is; docker stop {container.name} gives it up",
            )
        )
    if not hostview.reply(replies, hostreads.IMAGE).ok and not view.check:
        return Plan(
            failure=TaskFailed(
                f"container {container.name} can't be made anew: the image {spec.image} is not on the host",
                code="image-missing",
                hint="klops.image, before klops.container in a playbook, brings it",
            )
        )
    prefix = hostreads.docker_prefix(settings)
    states = _wanted_units(settings, host, container, replies)
    anew = Recreate(
        prefix,
        spec,
        settings,
        container,
        made=host.made,
        answers=host.running and host.agent is not None,
        units=tuple(states),
        well=tuple(name for name, state in states.items() if state in _WELL),
        why=tuple(why),
    )
    return Plan(steps=(CheckPython(prefix, spec), anew), result=_result("", spec, []))


def _wanted_units(
    settings: Settings, host: HostView, container: Container, replies: Replies
) -> dict[str, object]:
    """State of the units that are wanted running: as the agent says, or the files where it can't be asked.

    Raises :class:`TaskFailed` for one that can't be read: with nothing to wait for, any container would do.
    """
    known: dict[str, Mapping[str, object]] = dict(host.units)
    if host.agent is None:
        for name in settings.services:
            known[name] = _on_record(settings, container, name, replies)
    return {
        name: known[name].get("state") for name in sorted(known) if known[name].get("desired") == "running"
    }


def _on_record(settings: Settings, container: Container, name: str, replies: Replies) -> Mapping[str, object]:
    # a file in a folder that may not be looked into is as absent as one that isn't there
    answer = plain(hostview.reply(replies, f"state:{name}"))
    if answer.rc == ABSENT and plain(hostview.reply(replies, hostreads.RUN_FOLDER)).ok:
        return {}
    state = answer.json() if answer.ok else None
    if isinstance(state, Mapping):
        return state
    raise TaskFailed(
        f"container {container.name} is {container.state}, its agent does not answer, and "
        f"{settings.root}/run/{name}.state.json can't be read: which services have to serve in a new one?",
        code="unit-unseen",
        hint=f"nothing was changed. docker restart {container.name} brings the agent back where that can be; "
        "root may read the file: become: true",
    )


def _leading(found: Sequence[Drift], settings: Settings) -> list[Drift]:
    """What a container may be made anew for. A tag that moved is followed only where images are kept new."""
    return [one for one in found if one.key != _MOVED or settings.container.pull == "always"]


def _result(identity: str, spec: ContainerSpec, found: Sequence[Drift]) -> dict[str, object]:
    return {"id": identity, "spec": spec.digest, "drift": [item.as_json() for item in found]}


def _drifted(view: View, found: Sequence[Drift], has_image: bool) -> tuple[str, ...]:
    """What differs, and the way to a container that doesn't."""
    container = view.settings.container
    leading = _leading(found, view.settings)
    warnings = []
    if leading:
        text = f"container {container.name} differs from the settings: {'; '.join(map(str, leading))}"
        brought = has_image or container.pull != "never" or container.image_archive
        way = (
            f"to have it made anew, without what was written in it: klops up {view.host} --recreate"
            if brought
            else f"the image {container.image} is not on the host, so it can't be made anew either"
        )
        warnings.append(f"{text}; {way}")
    warnings += [
        f"{container.image} names another image now than container {container.name} was made of ({one}); "
        "that is followed only with klops.container.pull: always and recreation allowed"
        for one in found
        if one not in leading
    ]
    return tuple(warnings)


def _stuck(container: Container, host: str) -> TaskFailed:
    hints = {
        "paused": f"docker unpause {container.name}",
        "dead": f"docker rm {container.name}, then klops up {host}",
    }
    error = f": {container.error}" if container.error else ""
    return TaskFailed(
        f"the container {container.name} is {container.state}{error}",
        code="container-state",
        hint=hints.get(container.state, "wait until docker is done with it"),
    )
