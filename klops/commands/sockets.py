"""Who listens on which TCP port: from ``ss``, or from /proc/net/tcp and tcp6 where there is no ss."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

_USERS = re.compile(r'\("([^"]*)",pid=(\d+)')
#: State LISTEN in /proc/net/tcp.
_LISTEN = "0A"


@dataclass(frozen=True)
class Listener:
    """A listening socket. ``process`` and ``pid`` are empty where the asker may not see them."""

    port: int
    address: str
    process: str = ""
    pid: int | None = None
    uid: int | None = None

    def __str__(self) -> str:
        if self.pid is not None:
            return f"{self.process} (pid {self.pid}) on {self.address}:{self.port}"
        owner = f"uid {self.uid}" if self.uid is not None else "owner not visible"
        return f"a process ({owner}) on {self.address}:{self.port}"


def parse_ss(text: str) -> list[Listener]:
    """Listeners of ``ss -H -ltnp``."""
    found = []
    for line in text.splitlines():
        fields = line.split(None, 5)
        if len(fields) < 5 or fields[0] != "LISTEN":
            continue
        address, _, port = fields[3].rpartition(":")
        if not port.isdecimal():
            continue
        users = _USERS.findall(fields[5]) if len(fields) > 5 else []
        for name, pid in users or [("", "")]:
            found.append(Listener(int(port), address, name, int(pid) if pid else None))
    return found


def parse_proc(text: str) -> list[Listener]:
    """Listeners of ``/proc/net/tcp`` or ``tcp6``; they name the user, never the process."""
    found = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[3] != _LISTEN:
            continue
        address, _, port = fields[1].partition(":")
        try:
            found.append(Listener(int(port, 16), _address(address), uid=int(fields[7])))
        except ValueError:
            continue
    return found


def _address(hexadecimal: str) -> str:
    raw = bytes.fromhex(hexadecimal)
    # the kernel prints each 32-bit word in the host's order, little-endian on hosts of these cards
    network = b"".join(raw[i : i + 4][::-1] for i in range(0, len(raw), 4))
    address = ipaddress.ip_address(network)
    return str(address) if address.version == 4 else f"[{address}]"
