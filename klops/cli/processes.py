"""The processes in a host's container: what the agent sees inside, joined with the pids of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from klops.cli.place import Place
from klops.commands import pidmap
from klops.remote.containerreads import PidMapRead

if TYPE_CHECKING:
    from klops.inventory.settings import Settings
    from klops.remote.base import Remote


def read_processes(host: str, settings: Settings, remote: Remote) -> list[dict[str, Any]]:
    """Processes of the container in one remote command; ``pid`` is the host's, None if it can't be told."""
    place = Place.of(host, settings)
    pids = PidMapRead("pids", docker=place.prefix, container=place.container)
    replies = remote.read([*place.looks, place.ask("ps"), pids])
    place.require_running(replies)
    processes = place.answer(replies["ps"], "processes")
    by_cpid = pidmap.parse(replies["pids"].text)
    return [{"pid": by_cpid.get(process.get("cpid")), **process} for process in processes]
