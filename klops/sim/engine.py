"""The Docker engine of a rehearsal: the one that answers, or one of our own in the rehearsal's folder."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from klops.errors import CommandFailed, DockerUnavailable, UsageError
from klops.sim.started import Started

#: Seconds an engine may take to answer for the first time.
START_PATIENCE = 60.0
_MNT_DETACH = 2


@dataclass(frozen=True)
class Engine:
    """A Docker engine. ``host`` is its DOCKER_HOST, "" the default; ``process`` set when we started it."""

    host: str = ""
    process: Started | None = None

    def docker(self, *argv: str, stdin: bytes = b"", timeout: float = 120.0, check: bool = True) -> str:
        """Run the docker client; its standard output. Raises :class:`CommandFailed` when ``check``."""
        options = ["-H", self.host] if self.host else []
        try:
            done = subprocess.run(
                ["docker", *options, *argv], input=stdin, capture_output=True, timeout=timeout
            )
        except subprocess.TimeoutExpired as exc:
            raise CommandFailed(f"docker {argv[0]}: no answer within {timeout:g} s", rc=124) from exc
        stderr = done.stderr.decode("utf-8", "replace").strip()
        if check and done.returncode:
            raise CommandFailed(f"docker {argv[0]}: {stderr}", rc=done.returncode, stderr=stderr)
        return done.stdout.decode("utf-8", "replace").strip()

    def answers(self) -> bool:
        """Whether it is there."""
        try:
            return bool(self.docker("version", "--format", "{{.Server.Version}}", timeout=10))
        except CommandFailed:
            return False


def find() -> Engine | None:
    """The engine of this machine that $DOCKER_HOST or the default socket leads to; None when none answers."""
    if not shutil.which("docker"):
        raise UsageError(
            "no docker client on this machine",
            hint="install Docker: `apt-get install docker.io` on Debian and Ubuntu, as root",
        )
    host = os.environ.get("DOCKER_HOST", "")
    if host and not host.startswith("unix://"):
        return None  # an engine on another machine has no use for nodes and folders made here
    engine = Engine(host)
    return engine if engine.answers() else None


def detach_mounts(directory: Path) -> None:
    """Take off what an ended engine left mounted below ``directory``, such as a network namespace."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    points = [line.split()[4].replace("\\040", " ") for line in lines]
    libc = ctypes.CDLL(None, use_errno=True)
    for point in sorted((p for p in points if p.startswith(f"{directory}/")), key=len, reverse=True):
        if libc.umount2(os.fsencode(point), _MNT_DETACH):
            raise OSError(ctypes.get_errno(), f"can't unmount {point}")


def host_of(directory: Path) -> str:
    """DOCKER_HOST of an engine of our own that lives in ``directory``."""
    return f"unix://{directory}/docker.sock"


def start(directory: Path) -> Engine:
    """Start an engine that lives in ``directory`` and touches nothing outside: no bridge, no iptables.

    Raises :class:`UsageError` without dockerd, :class:`DockerUnavailable` when it doesn't come up.
    """
    if not shutil.which("dockerd"):
        raise UsageError(
            "no Docker engine answers, and dockerd isn't installed",
            hint="start the Docker engine, or install it (`apt-get install docker.io`), then try again",
        )
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("pid", "exec/containerd/containerd.pid"):
        _forget_dead(directory / name)
    host = host_of(directory)
    argv = ["dockerd", "--bridge=none", "--iptables=false", "--ip6tables=false", "-H", host]
    argv += [
        "--data-root",
        f"{directory}/data",
        "--exec-root",
        f"{directory}/exec",
        "--pidfile",
        f"{directory}/pid",
    ]
    log = directory / "log"
    # a session of its own, so that Ctrl-C on the terminal doesn't end it before its containers
    output: list[tuple[object, ...]] = [
        (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    ]
    output += [(os.POSIX_SPAWN_DUP2, 1, 2), (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    # not the width of a terminal, by which the ps of docker top would cut its lines
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    process = Started.of(os.posix_spawnp("dockerd", argv, environment, file_actions=output, setsid=True))
    engine = Engine(host, process)
    end = time.monotonic() + START_PATIENCE
    while process and process.alive() and time.monotonic() < end:
        if engine.answers():
            return engine
        time.sleep(0.1)
    if process:
        process.end()
    tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-3:]
    raise DockerUnavailable(
        "the Docker engine of the rehearsal did not come up: " + " | ".join(tail), hint=f"see {log}"
    )


def _forget_dead(pid_file: Path) -> None:
    """Remove a pid file left by a crash: an engine takes a zombie or a stranger with that pid for one."""
    if pid_file.exists():
        pid = int(pid_file.read_text(encoding="ascii").strip() or 0)
        found, comm = Started.of(pid), Path(f"/proc/{pid}/comm")
        if found is None or not found.alive() or "containerd" not in comm.read_text(encoding="utf-8"):
            pid_file.unlink()
