"""What one pass of the agent's ``reap`` costs on a machine with many processes."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from klops.remote import agentpackage
from klops.sim import cards

PROCESSES = 3000
#: Open files of each of them.
FILES = 20
RUNS = 7

#: Forks that many children with that many files, says so, and ends them when its input ends. The kernel ends
#: them when this one is killed.
_NURSERY = """
import ctypes, os, signal, sys
count, files = int(sys.argv[1]), int(sys.argv[2])
for _ in range(files - 3):
    os.dup(0)
libc = ctypes.CDLL(None)
children = []
for _ in range(count):
    pid = os.fork()
    if not pid:
        libc.prctl(1, signal.SIGKILL)
        while True:
            signal.pause()
    children.append(pid)
print("up", flush=True)
sys.stdin.read()
for pid in children:
    os.kill(pid, signal.SIGKILL)
for pid in children:
    os.waitpid(pid, 0)
"""

#: Runs a command and prints wall and CPU seconds, and KiB that were resident at most. A small process of its
#: own: what the one that starts a command has resident counts for the command too.
_MEASURE = """
import os, sys, time
began = time.monotonic()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ,
    file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
_, status, used = os.wait4(pid, 0)
print(time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def reap() -> None:
    """Both views of the verb, showing only; as root, on Linux."""
    with _root() as root, _crowd():
        many = sum(entry.name.isdigit() for entry in Path("/proc").iterdir())
        print(f"\nOne pass of reap --check over {many} processes; aims: 1 s, 60 MiB")
        print(f"  {'':20} {'wall s':>8} {'cpu s':>8} {'MiB':>6} {'runs':>5}")
        for view, more in (("container view", []), ("host view", ["--host"])):
            argv = [
                *_agent(root),
                "reap",
                "--root",
                str(root),
                "--check",
                "--device-dir",
                f"{root}/dev",
                *more,
            ]
            runs = [_once(argv) for _ in range(RUNS)]
            wall, cpu, size = (statistics.median(column) for column in zip(*runs, strict=True))
            print(f"  {view:20} {wall:8.3f} {cpu:8.3f} {size:6.1f} {RUNS:5}")


def _agent(root: Path) -> list[str]:
    return [sys.executable, "-I", "-S", f"{root}/agent/current"]


def _once(argv: list[str]) -> tuple[float, float, float]:
    """Wall and CPU seconds of a command, and MiB that were resident at most."""
    measure = [sys.executable, "-I", "-S", "-c", _MEASURE, *argv]
    done = subprocess.run(measure, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr}")
    wall, cpu, resident = map(float, done.stdout.split())
    return wall, cpu, resident / 1024


@contextmanager
def _root() -> Iterator[Path]:
    """A root with the agent on it as klops installs it, compiled, and a folder of card nodes."""
    with tempfile.TemporaryDirectory(prefix="klops-bench-") as folder:
        root, package = Path(folder), agentpackage.build()
        (root / "agent").mkdir()
        (root / "agent" / f"{package.digest}.pyz").write_bytes(package.data)
        (root / "agent" / "current").symlink_to(f"{package.digest}.pyz")
        subprocess.run([*_agent(root), "compile", "--root", str(root)], check=True)
        (root / "dev").mkdir()
        try:
            cards.make_nodes(root / "dev", cards.claim(root), {})
            yield root
        finally:
            cards.release(root)


@contextmanager
def _crowd() -> Iterator[None]:
    argv = [sys.executable, "-I", "-S", "-c", _NURSERY, str(PROCESSES), str(FILES)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as nursery:
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        if nursery.stdout.readline() != b"up\n":
            raise SystemExit(f"{PROCESSES} processes can't be started here")
        yield
        nursery.stdin.close()
