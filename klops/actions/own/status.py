"""``klops.status``: what is on the host, as the contract's status object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from klops.actions.base import Action, Params, Plan, Probe, Seen, View
from klops.actions.own import hostreads, hostview
from klops.actions.own.container.action import drift_of
from klops.actions.own.desired import container_spec
from klops.commands import pidmap
from klops.commands.drift import Drift
from klops.errors import KlopsError, TaskFailed
from klops.remote.base import Replies
from klops.remote.lock import read_lock
from klops.remote.reads import Read

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

#: States in which no process of a unit should live.
_AT_REST = ("stopped", "failed")


class StatusParams(Params):
    """Takes no parameters."""


def status_reads(settings: Settings) -> tuple[Read, ...]:
    """Everything the status object is made of."""
    return (
        *hostreads.host(settings),
        hostreads.pids(settings),
        hostreads.lock(settings),
        *hostreads.cards(settings),
    )


def assemble(replies: Replies, settings: Settings, *, run: str = "") -> dict[str, Any]:
    """The status object of one host. Raises :class:`DockerUnavailable` when nothing can be said about it.

    The lock of ``run`` is left out: it is given back before anybody reads this.
    """
    host = hostview.look(replies, settings)
    trouble = host.trouble()
    if trouble is not None:
        raise trouble
    if not host.at_rest and host.ours and host.agent is None:
        raise host.silent_agent()
    pids = pidmap.parse(hostview.reply(replies, hostreads.PIDS).text)
    names = dict.fromkeys([*settings.services, *host.units])
    lock = read_lock(hostview.reply(replies, hostreads.LOCK))
    if lock is not None and lock.run == run:
        lock = None
    return {
        "services": {name: _service(name, host.units.get(name), settings, pids) for name in names},
        "container": _container(settings, host),
        "source": {"release": None, "commit": None},
        "cards": [card.as_json() for card in host.cards.cards],
        "orphans": _orphans(host),
        "lock": lock.as_json() if lock is not None else None,
    }


def _orphans(host: hostview.HostView) -> int:
    """Living members of units that don't run, and those of which it could not be told whose they are."""
    units = (unit for unit in host.units.values() if unit.get("state") in _AT_REST)
    strays = (host.agent or {}).get("strays") or ()
    return sum(len(unit.get("lineage") or ()) for unit in units) + len(strays)


def _service(
    name: str, unit: Mapping[str, Any] | None, settings: Settings, pids: Mapping[int, int]
) -> dict[str, Any]:
    if unit is None:
        service = settings.services[name]
        unit = {"state": "stopped", "port": service.port, "model": service.served_name or name}
    cpid = unit.get("cpid")
    return {
        "state": unit.get("state"),
        "pid": pids.get(cpid) if isinstance(cpid, int) else None,
        "cpid": cpid,
        "since": unit.get("since"),
        "restarts": unit.get("restarts", 0),
        "cards": unit.get("cards") or [],
        "tp": unit.get("tp"),
        "port": unit.get("port"),
        "health": unit.get("health"),
        "model": unit.get("model"),
        "elapsed": unit.get("elapsed"),
        "line": unit.get("line") or "",
        "percent": unit.get("percent"),
        "error": unit.get("error") or "",
    }


def _container(settings: Settings, host: hostview.HostView) -> dict[str, Any]:
    container = host.container
    if container is None:
        return {
            "name": settings.container.name,
            "id": None,
            "state": "absent",
            "image": None,
            "adopted": False,
            "drift": [],
        }
    differences: list[dict[str, Any]] = []
    if host.ours:
        try:
            spec = container_spec(settings, host.cards)
        except TaskFailed:
            differences = [item.as_json() for item in _impossible(settings, host)]
        else:
            differences = [item.as_json() for item in drift_of(spec, container)]
    return {
        "name": container.name,
        "id": container.id,
        "state": container.state,
        "image": container.image,
        "adopted": False,
        "drift": differences,
    }


def _impossible(settings: Settings, host: hostview.HostView) -> list[Drift]:
    """In what the settings ask for a container that can't be made on this host."""
    found: list[Drift] = []
    known, used = sorted(host.cards.by_index()), settings.cards.indexes
    if not settings.container.image and host.container is not None:
        found.append(Drift("image", "none is set: klops.container.image", host.container.image))
    if not set(used) <= set(known):
        found.append(
            Drift("cards", f"{_listed(used)} (klops.cards.use)", f"{_listed(known)} (all that xpu-smi knows)")
        )
    return found


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


class StatusAction(Action[StatusParams]):
    """Reads, and registers the status object."""

    name: ClassVar[str] = "klops.status"
    params = StatusParams

    def probe(self, params: StatusParams, view: View) -> Probe:
        """Everything at once."""
        return Probe(reads=status_reads(view.settings))

    def plan(self, params: StatusParams, view: View, seen: Seen) -> Plan:
        """Never a step. In check mode the host is described as it is now."""
        try:
            status = assemble(seen.replies, view.settings, run=view.run)
        except KlopsError as error:
            return Plan(failure=error)
        states = ", ".join(f"{name} {service['state']}" for name, service in status["services"].items())
        return Plan(result=status, message=states or "no services")
