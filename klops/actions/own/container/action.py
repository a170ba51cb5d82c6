"""``klops.container``: the container that services run in.

Made when missing, started when stopped, never replaced.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from klops.actions.base import Action, Params, Plan, Probe, Seen, Step, View
from klops.actions.own import hostreads, hostview
from klops.actions.own.container.steps import Create, Remove, Start, WaitAgent
from klops.actions.own.desired import container_spec
from klops.commands.containerspec import SPEC_LABEL, ContainerSpec
from klops.commands.docker import Container
from klops.commands.drift import Drift, drift
from klops.errors import TaskFailed

#: States of a container that ``docker start`` leads out of.
_STARTABLE = ("created", "exited")
#: States in which its processes live, or are about to.
_ALIVE = ("running", "restarting")


class ContainerParams(Params):
    """``state``: present (made if need be, and running) or absent (stopped and removed)."""

    state: Literal["present", "absent"] = "present"


def drift_of(spec: ContainerSpec, container: Container) -> list[Drift]:
    """In what a container differs from what is wanted; one made from this very specification doesn't."""
    if container.labels.get(SPEC_LABEL) == spec.digest:
        return []
    return drift(spec, container.raw)


class ContainerAction(Action[ContainerParams]):
    """Keeps one container: what it differs in is reported, and it stays as it is."""

    name: ClassVar[str] = "klops.container"
    params = ContainerParams

    def probe(self, params: ContainerParams, view: View) -> Probe:
        """The container, its agent, and the cards it is to have."""
        settings = view.settings
        reads = [hostreads.engine(settings), hostreads.container(settings), hostreads.adopted(settings)]
        if params.state == "present":
            reads += [hostreads.status(settings), *hostreads.cards(settings), *hostreads.image(settings)]
        return Probe(reads=tuple(reads))

    def plan(self, params: ContainerParams, view: View, seen: Seen) -> Plan:
        """Nothing for a container that runs; make, start or remove it otherwise."""
        host = hostview.look(seen.replies, view.settings)
        trouble = host.trouble()
        if trouble is not None:
            return Plan(failure=trouble)
        if host.container is not None and not host.ours:
            return Plan(failure=_foreign(host.container))
        if params.state == "absent":
            return self._absent(view, host.container)
        return self._present(view, host, hostview.reply(seen.replies, hostreads.IMAGE).ok)

    def _absent(self, view: View, container: Container | None) -> Plan:
        settings = view.settings
        if container is None:
            return Plan(message=f"there is no container {settings.container.name}")
        prefix = hostreads.docker_prefix(settings)
        timeout = int(settings.container.stop_timeout)
        alive = container.state in (*_ALIVE, "paused")
        return Plan(steps=(Remove(prefix, container.name, container.id, alive, timeout),))

    def _present(self, view: View, host: hostview.HostView, has_image: bool) -> Plan:
        settings = view.settings
        spec = container_spec(settings, host.cards)
        prefix = hostreads.docker_prefix(settings)
        container = host.container
        if container is None:
            return Plan(steps=(Create(prefix, spec, settings),), result=_result("", spec, []))
        differences = drift_of(spec, container)
        warnings = (_drifted(view, differences, has_image),) if differences else ()
        result = _result(container.id, spec, differences)
        if container.state in _STARTABLE:
            start = Start(prefix, container.name, container.id, container.state)
            return Plan(steps=(start, WaitAgent(settings)), result=result, warnings=warnings)
        if container.state not in _ALIVE:
            return Plan(failure=_stuck(container, view.host))
        steps: tuple[Step, ...] = () if host.supervised else (WaitAgent(settings),)
        message = f"container {container.name} ({container.id[:12]}) is {container.state}"
        return Plan(steps=steps, result=result, message=message, warnings=warnings)


def _result(identity: str, spec: ContainerSpec, differences: list[Drift]) -> dict[str, object]:
    return {"id": identity, "spec": spec.digest, "drift": [item.as_json() for item in differences]}


def _drifted(view: View, differences: list[Drift], has_image: bool) -> str:
    """What differs, and the way to a container that doesn't: by hand, as what was written in it goes."""
    container, host = view.settings.container, view.host
    text = f"container {container.name} differs from the settings: {'; '.join(map(str, differences))}"
    if not has_image:
        return f"{text}; the image {container.image} is not on the host, so it can't be made anew either"
    return (
        f"{text}; to have it made anew, without what was written in it: "
        f"klops down {host} --remove, then klops up {host}"
    )


def _foreign(container: Container) -> TaskFailed:
    return TaskFailed(
        f"the container {container.name} ({container.id[:12]}, {container.image}) was not made by klops",
        code="container-foreign",
        hint="set another klops.container.name, or rename that container: docker rename",
    )


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
