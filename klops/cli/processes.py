"""The processes in a host's container: what the agent sees inside, joined with the pids of the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from klops.cli.place import Place
from klops.commands.agent import agent_path
from klops.errors import AgentError
from klops.remote.reads import AgentRead, PidMapRead

if TYPE_CHECKING:
    from klops.inventory.settings import Settings
    from klops.remote.base import Remote


def read_processes(host: str, settings: Settings, remote: Remote) -> list[dict[str, Any]]:
    """Processes of the container in one remote command; ``pid`` is the host's, None if it can't be told."""
    place = Place.of(host, settings)
    agent = AgentRead(
        "ps",
        docker=place.prefix,
        container=place.container,
        python=place.python,
        agent=agent_path(place.root),
        verb="ps",
        args=("--root", place.root),
    )
    pids = PidMapRead("pids", docker=place.prefix, container=place.container)
    replies = remote.read([place.inspect, agent, pids])
    place.require_running(replies["container"])
    answer = replies["ps"].json()
    if not replies["ps"].ok or not isinstance(answer, dict) or "processes" not in answer:
        said = replies["ps"].error_text.strip() or replies["ps"].text.strip()
        raise AgentError(
            f"{host}: the agent in container {place.container} did not answer: {said or 'no output'}",
            hint=f"klops up {host} puts the agent there",
        )
    by_cpid = parse_pid_map(replies["pids"].text)
    return [{"pid": by_cpid.get(process.get("cpid")), **process} for process in answer["processes"]]


def parse_pid_map(text: str) -> Mapping[int, int]:
    """Container pid -> host pid, from ``/proc/HOST/status:NSpid: HOST ... INNER`` lines.

    >>> dict(parse_pid_map("/proc/3374/status:NSpid:\\t3374\\t14\\n"))
    {14: 3374}
    """
    found: dict[int, int] = {}
    for line in text.splitlines():
        _, mark, numbers = line.partition("NSpid:")
        pids = numbers.split()
        if mark and len(pids) > 1 and all(p.isdigit() for p in pids):
            found[int(pids[-1])] = int(pids[0])
    return found
