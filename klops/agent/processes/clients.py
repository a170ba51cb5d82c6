"""Who is connected to a TCP port, from /proc/net."""

from __future__ import annotations

from klops.agent.processes import procs

_ESTABLISHED = b"01"


def connected(port: int) -> int:
    """How many connections to a port of this network namespace are open, idle ones too."""
    wanted = b":%04X" % port
    found = 0
    for name in ("tcp", "tcp6"):
        for line in procs.slurp(f"/proc/self/net/{name}").splitlines()[1:]:
            fields = line.split()
            found += fields[1].endswith(wanted) and fields[3] == _ESTABLISHED
    return found
