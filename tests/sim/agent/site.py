"""A root with a real agent on it, held by real processes, serving a stand-in server."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import klops
from klops.agent.digests import spec_digest
from klops.commands import agent as commands
from klops.remote import agentpackage
from klops.sim.cards import Numbers
from tests.cardnumbers import card_numbers
from tests.shortpaths import short_folder
from tests.waiting import until

STANDIN = Path(klops.__file__).parent / "sim" / "vllm.py"
KEY = "k'e\"y $HOME `x` \\ end"


def free_port() -> int:
    """A port that nobody has right now, below those that the kernel gives to outgoing connections."""
    first, _ = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    below = range(10000, max(20000, int(first)))
    for port in random.sample(below, 1000):  # by chance: other tests run at the same time
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError(f"no port of {below} is free")


class Site:
    """One root. ``python`` runs the agent."""

    def __init__(self, folder: Path, sockets: Path, python: str = sys.executable) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.python = python
        self._last = ExitStack()
        self.holds: list[subprocess.Popen[bytes]] = []
        #: one port, for specifications that are to be the same
        self.port = free_port()
        self.env = {
            "PATH": f"{folder / 'bin'}:{os.defpath}",
            "HOME": str(folder),
            "TMPDIR": str(sockets),  # the servers leave them there
            "IN_SUPERVISOR": "yes",
        }
        self.install(agentpackage.build())
        program = folder / "bin" / "vllm"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {python} -S {STANDIN} "$@"\n')
        program.chmod(0o755)
        self.model = folder / "model"
        self.model.mkdir()
        (self.model / "config.json").write_text("{}")
        self.devices = folder / "dev"
        self.devices.mkdir()

    @cached_property
    def numbers(self) -> Numbers:
        """Device numbers of its cards, which it alone has until nothing of it lives; needs root."""
        return self._last.enter_context(card_numbers(self.folder))

    def install(self, package: agentpackage.AgentPackage) -> None:
        """Put a package where klops puts it, and make it the current one."""
        (self.root / "agent").mkdir(parents=True, exist_ok=True)
        (self.root / "agent" / f"{package.digest}.pyz").write_bytes(package.data)
        new = self.root / "agent" / "new"
        new.symlink_to(f"{package.digest}.pyz")
        new.replace(self.root / "agent" / "current")

    def command(self, verb: str, *args: str) -> list[str]:
        """argv of a verb."""
        return [
            self.python,
            "-I",
            "-S",
            str(self.root / "agent" / "current"),
            verb,
            *args,
            "--root",
            str(self.root),
        ]

    def hold(self, *, beside: bool = False) -> subprocess.Popen[bytes]:
        """Start the launcher; as root with a /dev/shm of its own, like a container: killed servers litter."""
        private = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs shm /dev/shm && exec "$@"', "sh"]
        launcher = commands.hold(self.python, str(self.root), beside=beside)
        argv = [*(private if os.geteuid() == 0 else []), *launcher]
        self.holds.append(subprocess.Popen(argv, env=self.env, start_new_session=True))
        return self.holds[-1]

    def verb(self, verb: str, *args: str, given: Any = None) -> dict[str, Any]:
        """Run a verb to its end; what it printed, an error too."""
        text = json.dumps(given) if given is not None else ""
        done = subprocess.run(
            self.command(verb, *args),
            input=text,
            capture_output=True,
            text=True,
            env=self.env,
            timeout=120,
            check=False,
        )
        assert not done.stderr, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    def spec(self, name: str = "llm", **changes: Any) -> dict[str, Any]:
        """A specification of the stand-in; ``changes`` replace keys, or merge into those that are objects."""
        spec: dict[str, Any] = {
            "schema": 1,
            "name": name,
            "argv": [],
            "env": {"KLOPS_SIM_DEVICE_DIR": "", "KLOPS_SIM_LOAD_SECONDS": "0.1"},
            "env_script": None,
            "cards": [],
            "visible_env": "XPU_VISIBLE_DEVICES",
            "device_dir": str(self.devices),
            "tp": 2,
            "port": free_port(),
            "model": "tiny",
            "health": {"start_timeout": 60, "interval": 0.3, "timeout": 5, "failures": 3, "smoke": True},
            "stop": {"timeout": 5},
            "restart": {"policy": "always", "delay": 0.2, "max_delay": 1, "limit": 4, "window": 60},
            "log": {"max_bytes": 1 << 20, "keep": 3},
        }
        for key, value in changes.items():
            spec[key] = {**spec.get(key, {}), **value} if isinstance(value, dict) else value
        if not spec["argv"]:
            spec["argv"] = ["vllm", "serve", str(self.model), "--served-model-name", spec["model"]]
            spec["argv"] += ["--port", str(spec["port"]), "--tensor-parallel-size", str(spec["tp"])]
        spec["digest"] = spec_digest(spec)
        return spec

    def start(self, spec: dict[str, Any]) -> dict[str, Any]:
        """``start`` with the key of these tests."""
        return self.verb("start", spec["name"], given={"spec": spec, "secrets": {"VLLM_API_KEY": KEY}})

    def unit(self, name: str = "llm") -> dict[str, Any]:
        """The unit as ``status`` shows it."""
        found: dict[str, Any] = self.verb("status")["units"][name]
        return found

    def reaches(self, state: str, name: str = "llm", timeout: float = 30.0) -> dict[str, Any]:
        """Wait for a state."""

        def look() -> dict[str, Any] | None:
            unit = self.unit(name)
            return unit if unit["state"] == state else None

        try:
            found: dict[str, Any] = until(look, timeout=timeout, what=f"{name} is {state}")
        except AssertionError as error:
            raise AssertionError(f"{error}; what it is: {self.unit(name)}") from None
        return found

    def ready_again(self, generation: int, name: str = "llm") -> dict[str, Any]:
        """Wait until a later generation is ready."""

        def look() -> dict[str, Any] | None:
            unit = self.unit(name)
            return unit if unit["state"] == "ready" and unit["generation"] > generation else None

        found: dict[str, Any] = until(look, what=f"{name} is ready after generation {generation}")
        return found

    def supervisor(self) -> int:
        """Pid of the supervisor, once one answers."""
        return int(until(lambda: self.verb("status")["supervisor"], what="a supervisor answers")["cpid"])

    def audit(self, event: str) -> list[dict[str, Any]]:
        """Lines of the audit log."""
        lines = (self.root / "audit.jsonl").read_text().splitlines()
        return [line for line in map(json.loads, lines) if line["event"] == event]

    def close(self) -> None:
        """End everything that was started here, by pid."""
        for hold in self.holds:
            if hold.poll() is None:
                hold.send_signal(signal.SIGTERM)
        for hold in self.holds:
            hold.wait(timeout=60)
        self._last.close()


def site(folder: Path, python: str = sys.executable) -> Iterator[Site]:
    """Body of a fixture."""
    with short_folder() as sockets:
        made = Site(folder, sockets, python)
        try:
            yield made
        finally:
            made.close()


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie doesn't)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
