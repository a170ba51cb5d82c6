"""Machines of inventories for host tests: sshds under several names, and one that can really be restarted."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from tests.host.sshd import Sshd, find_sshd, start_sshd
from tests.waiting import until

#: ssh options that keep the files of the user who runs the tests out of it
_OWN_FILES = "-F none -o GlobalKnownHostsFile=none -o IdentitiesOnly=yes"


def entry(sshd: Sshd, folder: Path, *, port: int | None = None, **variables: Any) -> dict[str, Any]:
    """The variables of a host that is served by ``sshd``, by way of ``port`` where that is given.

    ``folder`` is the host's own: klops' root, and the file with its key.
    """
    folder.mkdir(parents=True, exist_ok=True)
    known = folder / "known_hosts"
    port = port or sshd.port
    known.write_text(sshd.known_hosts.read_text().replace(f"]:{sshd.port} ", f"]:{port} "))
    return {
        "ansible_host": "127.0.0.1",
        "ansible_port": port,
        "ansible_user": sshd.user,
        "ansible_ssh_private_key_file": str(sshd.key_file),
        "ansible_ssh_common_args": f"{_OWN_FILES} -o UserKnownHostsFile={known}",
        "klops": {"root": str(folder / "klops")},
        **variables,
    }


def inventory(path: Path, hosts: Mapping[str, Mapping[str, Any]]) -> Path:
    """Write an inventory (JSON is YAML too)."""
    path.write_text(json.dumps({"all": {"hosts": hosts}}))
    return path


def playbook(path: Path, *tasks: Mapping[str, Any], **keywords: Any) -> Path:
    """Write a playbook of one play for all hosts."""
    path.write_text(json.dumps([{"hosts": "all", "gather_facts": False, **keywords, "tasks": list(tasks)}]))
    return path


class Machine:
    """An sshd with a boot id of its own, which goes down and comes up again when a session asks for it.

    Its mount namespace has another file over the kernel's boot id. ``command`` is what asks for the restart;
    a restart ends sshd and all its sessions, stays away for ``away`` seconds, and takes ``boots`` one by one:
    ids of the next boots, None for the same as before; a new one when they run out.
    """

    def __init__(self, folder: Path, *, away: float = 1.0, boots: Sequence[str | None] = ()) -> None:
        self.sshd = start_sshd(folder)
        self.sshd.close()
        self._config = folder / "sshd_config"
        self._log = folder / "sshd.log"
        self._boot = folder / "boot_id"
        self._wanted = folder / "restart-wanted"
        self._away = away
        self._boots = list(boots)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._process: subprocess.Popen[bytes] | None = None
        #: ids of the boots so far
        self.booted: list[str] = []

    @property
    def command(self) -> str:
        """For ``reboot_command``: asks for the restart, and is still at it when that comes."""
        return f"touch {self._wanted}; sleep 60"

    def __enter__(self) -> Machine:
        self._start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._end()

    def _watch(self) -> None:
        while not self._over.wait(0.03):
            if self._wanted.exists():
                self._end()
                self._wanted.unlink()
                if not self._over.wait(self._away):
                    self._start()

    def _start(self) -> None:
        boot = (self._boots.pop(0) if self._boots else str(uuid.uuid4())) or self.booted[-1]
        self.booted.append(boot)
        self._boot.write_text(f"{boot}\n")
        script = 'mount --bind "$1" /proc/sys/kernel/random/boot_id && exec "$2" -D -e -f "$3"'
        argv = ["unshare", "-m", "sh", "-c", script, "sh", str(self._boot), find_sshd(), str(self._config)]
        with self._log.open("ab") as sink:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True
            )
        until(self._greets, timeout=10, what="the machine's sshd listens")

    def _end(self) -> None:
        if self._process is None:
            return  # it is down
        daemon = psutil.Process(self._process.pid)
        for process in [daemon, *daemon.children(recursive=True)]:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self._process.wait()
        self._process = None

    def _greets(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.sshd.port), 1) as sock:
                return sock.recv(4) == b"SSH-"
        except OSError:
            return False


def may_unshare() -> bool:
    """Whether this user may make a mount namespace."""
    done = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    return done.returncode == 0


def end(pid: int) -> None:
    """Kill one process, which may be gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
