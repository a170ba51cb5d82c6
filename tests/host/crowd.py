"""Who is in a container, seen from this machine: which part of a unit or of its keepers each process is."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from klops.agent.processes import procs
from klops.agent.processes.procs import Process
from tests.host.watch import supervisor_pid

#: What processes of a unit call themselves, as the kernel keeps it, by the part they are.
_NAMES = {"vllm": "api", "VLLM::EngineCor": "engine", "VLLM::Worker": "worker", "VLLM::Worker_TP": "worker"}
#: Processes by part: those of _NAMES, tracker, child, visitor, launcher and supervisor.
Crowd = dict[str, list[Process]]


def of(init: Process | None, root: Path, table: dict[int, Process]) -> Crowd:
    """Who lives in a container beside its first process, and its visitors; nobody when it doesn't run.

    What each is its place tells; only which part of the unit a member is, its name. Visitors are what
    ``docker exec`` runs, and what descends from that.
    """
    found: Crowd = {}
    if init is None:
        return found
    inside = {p.pid: p for p in table.values() if p.alive and _namespace(p.pid) == _namespace(init.pid)}
    served = supervisor_pid(root)
    keepers = {}
    for pid in inside:
        verb = _verb(pid)
        if pid == served or (served is None and verb == "supervise"):
            keepers[pid] = "supervisor"
        elif verb == "hold":
            keepers[pid] = "launcher"
    sessions = {inside[pid].session for pid in keepers}
    for process in inside.values():
        part = keepers.get(process.pid) or _NAMES.get(process.name, "tracker")
        above = {process.pid, *procs.ancestors(process.pid, inside)}
        if process.pid not in keepers and process.session in sessions:
            part = "child"  # a gate that was born just now, or one that looks at the cards for the supervisor
        elif init.pid not in above and not above & set(keepers):
            part = "visitor"
        if process.pid != init.pid:
            found.setdefault(part, []).append(process)
    return found


def stale(init: int, everybody: Crowd, since: float) -> list[str]:
    """Shared memory in a container that none of these has, and sockets in its /tmp that nobody has bound.

    Not a socket that is younger than ``since`` (seconds since 1970), when the running generation began: vLLM
    closes the one over which its processes meet, and its file stays as long as they run.
    """
    root, used = Path(f"/proc/{init}/root"), set()
    for process in (one for found in everybody.values() for one in found):
        for line in procs.slurp(f"/proc/{process.pid}/maps").splitlines():
            used.add(int(line.split()[4]))
        with contextlib.suppress(FileNotFoundError):  # it ended meanwhile
            for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    used.add(descriptor.stat().st_ino)
    bound = {line.split()[-1].decode() for line in procs.slurp(f"/proc/{init}/net/unix").splitlines()}
    found = [path for path in (root / "dev/shm").iterdir() if path.stat().st_ino not in used]
    sockets = [path for path in (root / "tmp").iterdir() if path.is_socket() and path.stat().st_ctime < since]
    found += [path for path in sockets if f"/tmp/{path.name}" not in bound]
    return sorted(f"/{path.relative_to(root)}" for path in found)


def began(start: int) -> float:
    """When a process began, in seconds since 1970; ``start`` is in clock ticks since boot, rounded down."""
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.time() - since_boot + start / os.sysconf("SC_CLK_TCK")


def send(process: Process, name: str) -> None:
    """To exactly this process, if it still is there."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(process.pid)
        try:
            now = procs.read(process.pid)
            if now is not None and now.start == process.start:
                signal.pidfd_send_signal(handle, signal.Signals[f"SIG{name}"])
        finally:
            os.close(handle)


def inner(pid: int) -> int:
    """The number of a process in its own namespace; 0 when it is gone."""
    for line in procs.slurp(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"NSpid:"):
            return int(line.split()[-1])
    return 0


def _namespace(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:  # it is gone
        return ""


def _verb(pid: int) -> str:
    """The verb of the agent that keeps units, if it is one: what stands before its options."""
    words = procs.slurp(f"/proc/{pid}/cmdline").split(b"\0")
    before = words[: words.index(b"--root")] if b"--root" in words else []
    verb = next((word for word in reversed(before) if not word.startswith(b"--")), b"")
    return verb.decode() if verb in (b"hold", b"supervise") else ""
