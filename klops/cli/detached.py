"""``klops exec --detach``: a command in the container that outlives klops, and who it is."""

from __future__ import annotations

import secrets
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from klops.cli.session import Session
    from klops.inventory.settings import Settings
    from klops.remote.base import Remote

#: How the names of its logs begin, and how many of them stay.
_LOG = "exec-"
_KEPT = 50


def run_detached(
    session: Session,
    names: Sequence[str],
    settings: Mapping[str, Settings],
    command: Sequence[str],
    log: str | None,
) -> int:
    """Start it on every host, print who it is there, and return the exit status of klops."""
    from klops.cli.place import Place
    from klops.errors import KlopsError, exit_status
    from klops.remote.insidescripts import OLD_LOGS
    from klops.ui.faults import describe
    from klops.ui.json import host_document

    name_of_log = f"{_LOG}{time.strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(2)}.log"

    def start(name: str) -> dict[str, Any]:
        folder = f"{settings[name].root}/log"
        with session.remote(name) as remote:
            if log is None:
                inside = Place.of(name, settings[name]).inside(remote)
                inside.run(["sh", "-c", OLD_LOGS, "sh", folder, str(_KEPT - 1), _LOG], check=False)
            return _start(remote, name, settings[name], command, log or f"{folder}/{name_of_log}")

    found = session.each(names, start)
    if session.common.json:
        session.print_json(host_document(found))
    else:
        for name, one in found.items():
            if isinstance(one, KlopsError):
                sys.stderr.write(f"{name} | {session.redactor(describe(one))}\n")
            else:
                sys.stdout.write(f"{name} | {_line(one)}\n")
    statuses = [one.exit_status for one in found.values() if isinstance(one, KlopsError)]
    return 125 if statuses and len(names) == 1 else exit_status(statuses)


def _start(remote: Remote, name: str, settings: Settings, command: Sequence[str], log: str) -> dict[str, Any]:
    from klops.cli.place import Place
    from klops.commands import pidmap
    from klops.remote.containerreads import PidMapRead

    place = Place.of(name, settings)
    who = place.inside(remote).launch(command, log=log)
    pids = remote.read([PidMapRead("pids", docker=place.prefix, container=place.container)])["pids"]
    return {"pid": pidmap.parse(pids.text).get(who.pid), "cpid": who.pid, "start": who.start, "log": log}


def _line(started: Mapping[str, Any]) -> str:
    host = started["pid"] or "unknown (it has ended)"
    inside = f"cpid {started['cpid']}, start {started['start']}"
    return f"started: host pid {host}, {inside}; output in {started['log']} of the container"
