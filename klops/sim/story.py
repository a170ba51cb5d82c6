"""The story that ``klops demo`` tells: the real commands, as users run them, and what they must show."""

from __future__ import annotations

import http.client
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from klops.errors import TaskFailed
from klops.sim.layout import SERVED_NAME, SERVICE, Rehearsal, RehearsalHost
from klops.sim.xpu_smi import holders

#: Seconds a service may take to be ready again after its API server was killed.
RECOVERY_PATIENCE = 300.0
Say = Callable[[str], None]


class Story:
    """One telling. A chapter that doesn't show what it must raises :class:`TaskFailed`."""

    def __init__(self, rehearsal: Rehearsal, say: Say) -> None:
        self.rehearsal = rehearsal
        self.say = say
        self.number = 0

    def tell(self) -> None:
        """All chapters in order."""
        self.chapter("What would change: a dry run writes nothing")
        self.run("up", "all", "--check", "--diff")
        self.chapter("Up: container, agent, service, until it answers")
        self.run("up", "all")
        self.chapter("A request, with and without the key")
        for host in self.rehearsal.hosts:
            self.request(host)
        self.chapter("Status")
        self.run("status", "all")
        self.chapter("kill -9 of the API server, and recovery")
        self.recovery(self.rehearsal.hosts[0])
        self.chapter("Up again: nothing changes")
        self.converged()
        self.chapter("Down: no process holds a card")
        self.run("down", "all")
        self.free()

    def chapter(self, title: str) -> None:
        """A heading."""
        self.number += 1
        self.say(f"\n== {self.number}. {title}")

    def argv(self, command: str, *args: str) -> list[str]:
        """The words after ``klops``."""
        return [command, *args, "-i", str(self.rehearsal.inventory)]

    def run(self, command: str, *args: str, quiet: bool = False) -> str:
        """Run one klops command; its standard output when ``quiet``, else it goes where ours goes."""
        argv = self.argv(command, *args)
        if not quiet:
            self.say(f"$ klops {shlex.join(argv)}")
        # a session of its own: Ctrl-C reaches it once, from here, and it is given the time to end in order
        child = subprocess.Popen(
            [sys.executable, "-m", "klops", *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if quiet else None,
            start_new_session=True,
        )
        try:
            out, _ = child.communicate()
        except KeyboardInterrupt:
            child.send_signal(signal.SIGINT)
            child.communicate()
            raise
        if child.returncode:
            raise TaskFailed(f"klops {command} ended with {child.returncode}", code="demo")
        return (out or b"").decode("utf-8", "replace")

    def host_json(self, host: RehearsalHost, command: str = "status") -> Any:
        """``hosts.NAME`` of a command's JSON."""
        return json.loads(self.run(command, host.name, "-o", "json", quiet=True))["hosts"][host.name]

    def service(self, host: RehearsalHost) -> dict[str, Any]:
        """The service as status has it."""
        found: dict[str, Any] = self.host_json(host)["services"][SERVICE]
        return found

    def request(self, host: RehearsalHost) -> None:
        """401 without the key; the served name, and a completion, with it."""
        refused, _ = self.ask(host, "GET", "/v1/models", key=False)
        self.expect(refused == 401, f"{host.name}: GET /v1/models without the key: {refused}")
        status, answer = self.ask(host, "GET", "/v1/models")
        names = [model["id"] for model in answer.get("data", [])]
        self.expect(names == [SERVED_NAME], f"{host.name}: GET /v1/models with the key: {status} {names}")
        asked = {"model": SERVED_NAME, "prompt": "Hello from the rehearsal", "max_tokens": 8}
        status, answer = self.ask(host, "POST", "/v1/completions", asked)
        text = "".join(choice["text"] for choice in answer.get("choices", []))
        self.expect(status == 200, f"{host.name}: POST /v1/completions: {status} {text!r}")

    def ask(
        self, host: RehearsalHost, method: str, path: str, body: Any = None, *, key: bool = True
    ) -> tuple[int, Any]:
        """One HTTP request to the service: status and JSON."""
        headers = {"Content-Type": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {host.api_key}"
        connection = http.client.HTTPConnection("127.0.0.1", host.port, timeout=60)
        try:
            connection.request(method, path, json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")
        finally:
            connection.close()

    def recovery(self, host: RehearsalHost) -> None:
        """Kill the API server and watch the service come back with another one."""
        before = self.service(host)
        pidfd = os.pidfd_open(before["pid"])
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)
        began, shown = time.monotonic(), ""
        self.say(f"{host.name}: killed pid {before['pid']}")
        while time.monotonic() - began < RECOVERY_PATIENCE:
            now = self.service(host)
            if now["state"] != shown:
                shown = now["state"]
                self.say(f"{host.name}: {time.monotonic() - began:5.1f} s  {shown}  pid {now['pid']}")
            if now["state"] == "ready" and now["pid"] not in (None, before["pid"]):
                return
            if now["state"] == "failed":
                self.expect(False, f"{host.name}: failed: {now.get('error', '')}")
            time.sleep(0.3)
        self.expect(False, f"{host.name}: not ready again within {RECOVERY_PATIENCE:g} s")

    def converged(self) -> None:
        """A second up changes nothing, and says so in its recap."""
        self.say(f"$ klops {shlex.join(self.argv('up', 'all', '-o', 'json'))}")
        result = json.loads(self.run("up", "all", "-o", "json", quiet=True))
        for name, counts in result["recap"].items():
            commands = result["remote_commands"][name]
            self.expect(not counts["changed"], f"{name}: {counts}, {commands} remote commands")

    def free(self) -> None:
        """Nobody holds a card, seen from outside."""
        held = holders()
        for host in self.rehearsal.hosts:
            numbers = [(host.numbers.major, host.numbers.first + n) for n in range(9)]
            pids = sorted({pid for number in numbers for pid in held.get(number, [])})
            self.expect(not pids, f"{host.name}: processes that hold a card: {pids or 'none'}")

    def expect(self, held: bool, text: str) -> None:
        """Say what was seen; end the story when it isn't what must be."""
        self.say(text)
        if not held:
            raise TaskFailed(f"not as it should be: {text}", code="demo")
