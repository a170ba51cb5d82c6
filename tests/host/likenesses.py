"""Processes in a container that look like vLLM's: any title, any short name, a card or none."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from klops.agent.processes import procs
from klops.sim.layout import SERVICE
from tests.host.test_adoption import Hand
from tests.waiting import until

#: Put over argv as setproctitle does, beside PR_SET_NAME. ``left``: its parent goes, so that nothing of the
#: docker exec that it came by is above it. It says who it is, and lets go of what it was given.
LIKENESS = r"""
import ctypes, os, signal, sys
how, title, comm, node = sys.argv[1:5]
if how == "left":
    if os.fork():
        os._exit(0)
    os.setsid()
if node:
    os.open(node, os.O_RDWR | os.O_NOCTTY)
fields = open("/proc/self/stat").read().rpartition(")")[2].split()
print(os.getpid(), fields[19], flush=True)
if how == "left":
    quiet = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(quiet, number)
begin, end, _, over = (int(word) for word in fields[45:49])
raw = title.encode()[: end - begin - 1]
ctypes.memset(begin, 0, over - begin)
ctypes.memmove(begin, raw, len(raw))
ctypes.CDLL(None).prctl(15, comm.encode(), 0, 0, 0)
while True:
    signal.pause()
"""


@dataclass(frozen=True)
class Likeness:
    """One of them: pid and start in the container, pid and namespace on this machine."""

    title: str
    cpid: int
    start: int
    pid: int
    ns: int

    def lives(self) -> bool:
        """Whether this very process runs."""
        process = procs.read(self.pid)
        return process is not None and process.start == self.start and process.alive

    def kill(self) -> None:
        """End it, if it is still there; by a pidfd."""
        if self.lives():
            handle = os.pidfd_open(self.pid)
            if self.lives():
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)


class Crowd(Hand):
    """A host in whose container such processes are started."""

    @property
    def where(self) -> list[str]:
        """How docker is called."""
        assert self.rehearsal.engine is not None
        return ["docker", *(["-H", self.rehearsal.engine.host] if self.rehearsal.engine.host else [])]

    def python(self, how: str, title: str, comm: str, node: str, user: int | None = None) -> list[str]:
        """The command line of a likeness; the last word makes room for its title."""
        python = self.settings("container")["python"]
        words = [*self.where, "exec", "-i", *(["--user", str(user)] if user else []), self.host.container]
        return [*words, python, "-ISc", LIKENESS, how, title, comm, node, "x" * 400]

    def settings(self, key: str) -> Any:
        """A setting as all hosts of the rehearsal have it."""
        from ruamel.yaml import YAML

        return YAML(typ="safe").load(self.rehearsal.inventory)["all"]["vars"]["klops"][key]

    def left(self, title: str, comm: str = "", node: str = "", user: int | None = None) -> Likeness:
        """One with nobody above it."""
        words = self.python("left", title, comm or title, node, user)
        done = subprocess.run(words, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return self.found(title, done.stdout)

    def attended(self, title: str, node: str = "") -> tuple[Likeness, subprocess.Popen[str]]:
        """One that somebody runs by docker exec, and still does; with the client, to be ended."""
        words = self.python("attended", title, title, node)
        client = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert client.stdout is not None
        return self.found(title, client.stdout.readline()), client

    def found(self, title: str, said: str) -> Likeness:
        """Who a process is that said its pid and start in the container."""
        cpid, start = map(int, said.split())
        container = self.id
        for status in Path("/proc").glob("[0-9]*/status"):
            try:
                (inner,) = [line.split() for line in status.read_text().splitlines() if "NSpid:" in line]
                stat = (status.parent / "stat").read_text().rpartition(")")[2].split()
                if inner[-1] != str(cpid) or int(stat[19]) != start:
                    continue
                if container in (status.parent / "cgroup").read_text():
                    ns = (status.parent / "ns" / "pid").stat().st_ino
                    return Likeness(title, cpid, start, int(inner[1]), ns)
            except (FileNotFoundError, ProcessLookupError, ValueError):
                continue
        raise AssertionError(f"{title}: pid {cpid} of {self.host.container} can't be found")

    def put_on_record(self, *members: Likeness, generation: int = 1) -> None:
        """Put processes on the lineage of the service, as its supervisor would have; none is at work."""
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        lines = [
            {
                "boot": boot,
                "ns": one.ns,
                "pid": one.cpid,
                "start": one.start,
                "name": "x",
                "generation": generation,
            }
            for one in members
        ]
        path = f"{self.host.root}/run/{SERVICE}.lineage.jsonl"
        text = "".join(json.dumps(line) + "\n" for line in lines)
        words = [*self.where, "exec", "-i", self.host.container, "sh", "-c", 'cat >>"$1"', "sh", path]
        subprocess.run(words, input=text, text=True, check=True)

    def inside(self, word: str) -> list[int]:
        """Pids on this machine of processes in the container that have a word in their command line."""
        rows = (
            row.split(None, 1)
            for row in self.docker("top", self.host.container, "-eo", "pid,args").splitlines()
        )
        return [int(pid) for pid, args in rows if word in args.split()]

    def without_keepers(self) -> None:
        """Kill launcher and supervisor, in this order: nobody starts another one."""
        for word in ("hold", "supervise"):
            for pid in self.inside(word):
                handle = os.pidfd_open(pid)
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                os.close(handle)
        until(lambda: not self.inside("hold") + self.inside("supervise"), what="nobody keeps the units")

    def reap(self, *args: str, rc: int = 0) -> dict[str, Any]:
        """``klops reap`` without a grace time; what it says of this host."""
        done = self.klops("reap", "--grace", "0", *args)
        assert done.rc == rc, done.stdout + done.stderr
        found: dict[str, Any] = done.json["hosts"][self.host.name]
        return found

    def node(self, index: int) -> str:
        """The node in the container of a card, as xpu-smi counts them."""
        name = next(card["node"] for card in self.status["cards"] if card["index"] == index)
        return f"/dev/{Path(name).name}"

    @property
    def service(self) -> dict[str, Any]:
        """The service in its status."""
        found: dict[str, Any] = self.status["services"][SERVICE]
        return found
