"""Whether a ``systemctl daemon-reload`` may take card nodes from running containers. Pure.

Runc 1.1.3 to 1.1.6 with systemd's cgroup driver tells systemd only of devices that have a link in
``/dev/char``, and a daemon-reload sets the rules of running containers anew from that: the others are refused
from then on, though the host looks as before (opencontainers/runc#3671, mended in 1.1.7).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from klops.commands.listing import Entry

_FIRST, _LAST = (1, 1, 3), (1, 1, 6)


def risk(
    version: str,
    info: str,
    nodes: Mapping[str, Entry],
    links: Collection[str],
    *,
    none_expected: bool = False,
) -> str:
    """Why it may; "" when it may not.

    ``version`` and ``info`` are docker's as JSON, ``nodes`` the card nodes of the host, ``links`` the names
    in its ``/dev/char``. ``none_expected``: no container of klops has a device. What can't be told counts as
    a risk.
    """
    numbers = {path: f"{node.major}:{node.minor}" for path, node in nodes.items() if node.type == "char"}
    bare = [f"{path} ({number})" for path, number in numbers.items() if number not in links]
    if not bare and (numbers or none_expected):
        return ""
    driver = _document(info).get("CgroupDriver")
    if driver is not None and driver != "systemd":
        return ""
    found = _runc(version)
    if driver is not None and found is not None and not _FIRST <= found <= _LAST:
        return ""
    what = "an unknown version" if found is None else ".".join(map(str, found))
    unlinked = f"no link in /dev/char for {', '.join(bare)}" if bare else "no card node is seen on the host"
    return f"runc {what} with the cgroup driver {driver or 'unknown'}, and {unlinked}"


def _runc(version: str) -> tuple[int, ...] | None:
    server = _document(version).get("Server")
    parts = server.get("Components") if isinstance(server, dict) else None
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and part.get("Name") == "runc":
            match = re.match(r"(\d+)\.(\d+)\.(\d+)", str(part.get("Version")))
            return tuple(map(int, match.groups())) if match else None
    return None


def _document(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
