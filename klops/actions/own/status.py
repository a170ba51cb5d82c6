"""``klops.status``: what is on the host, as the contract's status object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from klops.actions.base import Action, Params, Plan, Probe, Seen, View
from klops.actions.own import hostreads, hostview, records
from klops.actions.own.cards import choosing
from klops.actions.own.cards.record.standing import Standing, look
from klops.actions.own.container import adopt
from klops.actions.own.container.differences import differences
from klops.actions.own.desired import container_spec
from klops.actions.own.services.memory import unreaped
from klops.commands import pidmap
from klops.commands.drift import Drift
from klops.errors import KlopsError, TaskFailed
from klops.remote.base import Replies
from klops.remote.lock import LockInfo, read_lock
from klops.remote.reads import Read

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

#: States in which no process of a unit should live.
_AT_REST = ("stopped", "failed")
#: States in which it has cards, or is about to.
_RUNS = ("starting", "ready", "unhealthy", "backoff")


class StatusParams(Params):
    """Takes no parameters."""


def status_reads(settings: Settings) -> tuple[Read, ...]:
    """Everything the status object is made of."""
    return (
        *hostreads.host(settings),
        *hostreads.image(settings),
        *adopt.reads(settings),
        hostreads.pids(settings),
        hostreads.lock(settings),
        hostreads.recreation(settings),
        *hostreads.quarantine(settings),
        *hostreads.cards(settings),
        hostreads.driver(),
        *choosing.reads(settings),
    )


def assemble(replies: Replies, settings: Settings, *, run: str = "") -> dict[str, Any]:
    """The status object of one host. Raises :class:`DockerUnavailable` when nothing can be said about it.

    The lock of ``run`` is left out: it is given back before anybody reads this.
    """
    host = hostview.look(replies, settings)
    trouble = host.unseen()
    if trouble is not None:
        raise trouble
    if not host.at_rest and host.ours and host.agent is None:
        raise host.silent_agent()
    pids = pidmap.parse(hostview.reply(replies, hostreads.PIDS).text)
    names = dict.fromkeys([*settings.services, *host.units])
    lock = read_lock(hostview.reply(replies, hostreads.LOCK))
    if lock is not None and lock.run == run:
        lock = None
    standing = look(settings, host, replies)
    wanted, _ = choosing.wants(settings, host, replies)

    def service(name: str) -> dict[str, Any]:
        told = _service(name, _unit(host, name), settings, pids)
        runs = name in settings.services and told["state"] in _RUNS
        less = choosing.fallback(settings, standing, wanted, name, told["cards"]) if runs else None
        return {**told, "fallback": less}

    return {
        "services": {name: service(name) for name in names},
        "container": _container(settings, host, replies, lock, standing.notes),
        "source": _source(host),
        "cards": _cards(standing),
        "orphans": _orphans(host),
        "lock": lock.as_json() if lock is not None else None,
    }


def _source(host: hostview.HostView) -> dict[str, Any]:
    """The release that the next start of a unit takes; None for what there isn't, or nobody tells."""
    told = (host.agent or {}).get("release") if host.ours else None
    known = told if isinstance(told, Mapping) else {}
    return {"release": known.get("current"), "commit": known.get("commit")}


def _cards(standing: Standing) -> list[dict[str, Any]]:
    """Every card, with what the container calls it: its node there, and the number it has for runtimes.

    Whether it works as far as that is known, and whether it is kept out of service, and why; of the kind
    ``unknown`` where nobody can tell.
    """
    return [one.as_json() for one in standing.cards]


def _orphans(host: hostview.HostView) -> int:
    """Living members of units that don't run, and those of which it could not be told whose they are."""
    units = (unit for unit in host.units.values() if unit.get("state") in _AT_REST)
    strays = (host.agent or {}).get("strays") or ()
    return sum(len(unit.get("lineage") or ()) for unit in units) + len(strays)


def _unit(host: hostview.HostView, name: str) -> Mapping[str, Any] | None:
    """What is known of a unit; None for one that nobody has started."""
    if host.renamed and name not in host.units:
        return {"state": "unknown"}  # the container that it may run in is not the one that was asked
    return host.units.get(name)


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
        # the cards that its ranks were seen to have, in their order; [] where that could not be read
        "ranks": unit.get("ranks") or [],
        "note": unit.get("note") or "",
        # what it runs on; None for none, and while it doesn't run
        "release": unit.get("release"),
    }


def _container(
    settings: Settings,
    host: hostview.HostView,
    replies: Replies,
    lock: LockInfo | None,
    notes: Sequence[Mapping[str, Any]] | None,
) -> dict[str, Any]:
    container = host.container
    lost = _lost(replies, lock)
    if notes is None:
        lost.append(f"which cards are kept out of service can't be read: {settings.root}/cards.json")
    if container is None:
        return {
            "name": settings.container.name,
            "id": None,
            "state": "absent",
            "image": None,
            "adopted": False,
            "drift": [],
            "weaker": [],
            "faults": [*_renamed(host), *lost],
            "note": "",
        }
    return {
        "name": container.name,
        "id": container.id,
        "state": container.state,
        "image": container.image,
        "adopted": host.adopted,
        "drift": [item.as_json() for item in _drift(settings, host, replies)],
        "weaker": adopt.weaker(settings, container) if host.adopted else [],
        "faults": [*_renamed(host), *_faults(host, settings), *lost],
        "note": _spares(host) if host.ours else _strange(settings, host, replies),
    }


def _drift(settings: Settings, host: hostview.HostView, replies: Replies) -> list[Drift]:
    if host.container is None or not host.ours:
        return []
    try:
        if host.adopted:
            return adopt.differences(settings, host, replies)
        return differences(container_spec(settings, host), host.container, replies)
    except TaskFailed:
        return _impossible(settings, host)


def _faults(host: hostview.HostView, settings: Settings) -> list[str]:
    """What is wrong with the container itself, though docker has nothing to say about it."""
    found = []
    if host.ours and host.lost_access:
        listed = "; ".join(f"{node}: {error}" for node, error in host.lost_access)
        found.append(
            f"access to devices is lost inside: listed, but opening them is refused ({listed}); "
            "a fault of the container, not of a card"
        )
    if host.alone:
        found.append(
            "no supervisor is at work in it, so nobody looks after its services; klops up starts it, or "
            f"sh {settings.root}/pass on the host, as from cron"
        )
    defunct = unreaped((host.agent or {}).get("defunct")) if host.ours else ""
    return [*found, defunct] if defunct else found


def _renamed(host: hostview.HostView) -> list[str]:
    """The adopted container has another name: where it is, and the way back."""
    error = host.renamed_error()
    return [] if error is None else [f"{error.message}, so what runs in it is not known; {error.hint}"]


def _spares(host: hostview.HostView) -> str:
    """Nodes of cards that nobody uses need not be open."""
    listed = "; ".join(f"{node}: {error}" for node, error in host.lost_spares)
    return f"not used by the settings, and not to be opened inside: {listed}" if listed else ""


def _lost(replies: Replies, lock: LockInfo | None) -> list[str]:
    """A recreation whose run is no more: with that run's lock it is only under way."""
    try:
        record = records.parse_recreation(hostview.reply(replies, hostreads.RECREATION))
    except KlopsError as error:
        return [error.message]
    if record is None or (lock is not None and lock.run == record.run):
        return []
    return [f"run {record.run} was lost while it made {record.name} anew; klops up puts that in order"]


def _strange(settings: Settings, host: hostview.HostView, replies: Replies) -> str:
    """Of a container that klops neither made nor adopted: what klops up would do with it."""
    try:
        reasons = adopt.unfit(settings, host, replies)
    except TaskFailed as error:
        reasons = [f"can't be compared with the settings: {error.message}"]
    if reasons:
        return f"klops did not make it, and can't run services in it: it {'; it '.join(reasons)}"
    return "klops did not make it; klops up adopts it, as it fits"


def _impossible(settings: Settings, host: hostview.HostView) -> list[Drift]:
    """In what the settings ask for a container that can't be made on this host."""
    found: list[Drift] = []
    known, used = sorted(host.cards.by_index()), settings.cards.indexes
    if not settings.container.image and host.container is not None:
        found.append(Drift("image", "none is set: klops.container.image", host.container.image))
    if host.missing.doubt:
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
