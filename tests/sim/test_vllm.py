"""The stand-in vllm lives and dies as the real one was seen to: tree, titles, signals, leftovers.

No cards here (they need root): KLOPS_SIM_DEVICE_DIR is empty. Every process of a server is found by the
session that it shares, and all of them are ended at the end.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from klops.sim import vllm as standin
from klops.sim import vllms
from tests.shortpaths import short_folder
from tests.waiting import until

KEY = "made-up-\"key\" with $pace & 'quotes'"


BODY = json.dumps({"model": "m", "prompt": "a"})
HEAD = f"POST /v1/completions HTTP/1.1\r\nAuthorization: Bearer {KEY}\r\nContent-Length: {len(BODY)}"
COMPLETION = f"{HEAD}\r\n\r\n{BODY}".encode()
WORKER_MARGIN = standin.WORKER_NOTICES + 0.5


@dataclass
class Server:
    """One running stand-in."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    faults: Path
    own_shm: set[str] = field(default_factory=set)

    def members(self) -> dict[int, tuple[str, str, int]]:
        """Living processes of its session: pid -> (short name, state, parent)."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
                    state, ppid, _, session = rest.split()[:4]
                    if int(session) == self.process.pid and state not in "ZX":
                        found[int(entry.name)] = (name, state, int(ppid))
        return found

    def pids(self, name: str) -> list[int]:
        """Pids of members by short name."""
        return sorted(pid for pid, member in self.members().items() if member[0] == name)

    @property
    def engine(self) -> int:
        return self.pids("VLLM::EngineCor")[0]

    @property
    def workers(self) -> list[int]:
        return self.pids("VLLM::Worker_TP")

    def shm(self) -> list[str]:
        """What it put into /dev/shm and is still there: mapped by its processes, or named after its engine.

        Others may put things there at the same time; those are none of ours.
        """
        for pid, (name, _, _) in self.members().items():
            with contextlib.suppress(OSError):
                maps = Path(f"/proc/{pid}/maps").read_text()
                self.own_shm.update(re.findall(r"/dev/shm/((?:psm_|sem\.mp-)\S+)$", maps, re.MULTILINE))
            if name == "VLLM::EngineCor":
                self.own_shm.update(p.name for p in Path("/dev/shm").glob(f"vllm_dist_{pid}_*"))
        return sorted(name for name in self.own_shm if (Path("/dev/shm") / name).exists())

    def ask(self, method: str, path: str, body: Any = None, key: str | None = KEY) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def healthy(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.ask("GET", "/health", key=None)[0] == 200
        return False

    def set_fault(self, kind: str) -> None:
        self.faults.write_text(json.dumps({"vllm": kind}))


def wakes(pid: int) -> int:
    """How often a process has gone to sleep of its own accord: it grows with each thing that wakes it."""
    found = re.search(
        r"^voluntary_ctxt_switches:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE
    )
    assert found is not None
    return int(found[1])


def woken(server: Server, before: dict[int, int], times: int = 1) -> bool:
    """Whether each of these was woken since and sleeps again: what woke it is dealt with."""
    members = server.members()
    return all(wakes(pid) >= count + times and members[pid][1] == "S" for pid, count in before.items())


def stays(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether it holds all the time: for what a process would do by the clock."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not condition():
            return False
        time.sleep(0.03)
    return condition()


Start = Callable[..., Server]


@pytest.fixture
def sockets() -> Iterator[Path]:
    """Where the stand-ins leave their sockets."""
    with short_folder() as folder:
        yield folder


@pytest.fixture
def start(tmp_path: Path, sockets: Path) -> Iterator[Start]:
    """Starts stand-ins; ends every process of theirs afterwards."""
    servers: list[Server] = []
    vllms.write_standin_model(tmp_path / "model")

    def run(
        *more: str,
        load: float = 0.2,
        wait: bool = True,
        fault: str = "",
        model: str = "",
        tp: int = 2,
        token: float = 0.002,
    ) -> Server:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        faults = tmp_path / "faults.json"
        faults.write_text(json.dumps({"vllm": fault}))
        env = {
            "PATH": os.environ["PATH"],
            "TMPDIR": str(sockets),
            "VLLM_API_KEY": KEY,
            "KLOPS_SIM_DEVICE_DIR": "",
            "KLOPS_SIM_FAULTS": str(faults),
            "KLOPS_SIM_LOAD_SECONDS": str(load),
            "KLOPS_SIM_TOKEN_SECONDS": str(token),
        }
        argv = [sys.executable, "-S", standin.__file__, "serve", model or str(tmp_path / "model")]
        argv += [
            "--served-model-name",
            "m",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "-tp",
            str(tp),
            *more,
        ]
        log = tmp_path / f"log{len(servers)}"
        with log.open("wb") as out:
            process = subprocess.Popen(argv, env=env, stdout=out, stderr=out, start_new_session=True)
        server = Server(process, port, log, faults)
        servers.append(server)
        if wait:
            until(lambda: server.healthy() or process.poll() is not None)
            server.shm()  # learns the names while its processes live
        return server

    yield run
    for server in servers:
        server.shm()
        for pid in server.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        server.process.wait()
        until(lambda s=server: not s.members())  # type: ignore[misc]  # mypy doesn't infer a lambda's default
        for name in server.shm():
            (Path("/dev/shm") / name).unlink(missing_ok=True)


def test_tree_titles_and_environment(start: Start) -> None:
    server = start()
    api, engine, workers = server.process.pid, server.engine, server.workers
    members = server.members()
    assert len(members) == 5
    assert members[engine][2] == api
    assert [members[w][2] for w in workers] == [engine, engine]
    tracker = next(pid for pid in members if pid not in (api, engine, *workers))
    assert members[tracker][2] == api
    titles = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in members}
    assert titles[engine].rstrip(b"\0") == b"VLLM::EngineCore"
    assert len(titles[engine]) == len(titles[api])
    assert [titles[w].rstrip(b"\0") for w in workers] == [b"VLLM::Worker_TP0", b"VLLM::Worker_TP1"]
    assert b"resource_tracker" in titles[tracker]
    assert not any(Path(f"/proc/{pid}/environ").read_bytes().strip(b"\0") for pid in (engine, *workers))
    assert b"KLOPS_SIM" in Path(f"/proc/{api}/environ").read_bytes()
    groups = [name.rstrip("0123456789") for name in server.shm() if "cpushm" in name]
    assert len(groups) == 2
    assert sum(name.startswith("psm_") for name in server.shm()) == 4


def test_routes(start: Start) -> None:
    server = start()
    assert server.ask("GET", "/v1/models", key=None)[0] == 401
    assert server.ask("GET", "/v1/models", key="wrong")[0] == 401
    assert json.loads(server.ask("GET", "/v1/models")[1])["data"][0]["id"] == "m"
    status, raw = server.ask("POST", "/v1/completions", {"model": "m", "prompt": "a b", "max_tokens": 3})
    assert (status, json.loads(raw)["choices"][0]["text"]) == (200, "a b a")
    assert server.ask("POST", "/v1/completions", {"model": "other", "prompt": "a"})[0] == 404
    assert server.ask("POST", "/v1/completions", "nonsense")[0] == 400
    message = {"model": "m", "messages": [{"role": "user", "content": "a"}], "max_tokens": 2, "stream": True}
    status, raw = server.ask("POST", "/v1/chat/completions", message)
    events = [line for line in raw.decode().splitlines() if line]
    assert (status, len(events), events[-1]) == (200, 3, "data: [DONE]")
    metrics = server.ask("GET", "/metrics", key=None)[1].decode()
    assert 'vllm:generation_tokens_total{engine="0",model_name="m"} 5.0' in metrics
    assert KEY not in server.log.read_text()


def test_term_when_ready_kills_the_tree_and_leaves_shm(start: Start) -> None:
    server = start()
    server.process.terminate()
    assert server.process.wait(5) == 0
    until(lambda: not server.members())
    assert [name for name in server.shm() if "cpushm" not in name] == []
    assert len(server.shm()) == 2


def test_term_with_a_shutdown_timeout_is_clean(start: Start) -> None:
    server = start("--shutdown-timeout", "15")
    server.process.terminate()
    assert server.process.wait(10) == 0
    until(lambda: not server.members())
    assert server.shm() == []


def test_a_killed_api_server_leaves_everything_else_for_ever(start: Start) -> None:
    server = start()
    engine, workers = server.engine, server.workers
    before = {pid: wakes(pid) for pid in (engine, *workers)}
    server.process.kill()
    server.process.wait()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.port), 1)
    until(lambda: woken(server, {engine: before[engine]}), what="the engine has noticed")
    assert [wakes(pid) for pid in workers] == [before[pid] for pid in workers]
    assert len(server.members()) == 4
    os.kill(server.engine, signal.SIGTERM)
    until(lambda: not server.members())


def test_a_killed_engine_takes_all_and_the_status_is_0(start: Start) -> None:
    server = start()
    os.kill(server.engine, signal.SIGKILL)
    until(lambda: server.ask("GET", "/health", key=None)[0] == 503, timeout=2)
    assert len(server.workers) == 2
    assert server.process.wait(10) == 0
    until(lambda: not server.members())


def test_a_killed_worker_takes_all(start: Start) -> None:
    server = start()
    os.kill(server.workers[0], signal.SIGKILL)
    until(lambda: server.ask("GET", "/health", key=None)[0] == 503, timeout=2)
    assert server.process.wait(10) == 0
    until(lambda: not server.members())


def test_stopped_workers_survive_their_engine(start: Start) -> None:
    server = start()
    for pid in server.workers:
        os.kill(pid, signal.SIGSTOP)
    os.kill(server.engine, signal.SIGKILL)
    assert server.process.wait(10) == 0
    assert [server.members()[pid][1] for pid in server.workers] == ["T", "T"]


def test_a_stopped_worker_stalls_requests_but_not_health(start: Start) -> None:
    server = start()
    os.kill(server.workers[1], signal.SIGSTOP)
    with socket.create_connection(("127.0.0.1", server.port), 5) as client:
        client.sendall(COMPLETION)
        client.settimeout(1)
        with pytest.raises(TimeoutError):
            client.recv(1)
        assert server.healthy()
        os.kill(server.workers[1], signal.SIGCONT)
        client.settimeout(10)
        assert client.recv(12) == b"HTTP/1.1 200"


def test_term_while_loading_is_lost(start: Start) -> None:
    server = start(load=1.5, wait=False)
    until(lambda: len(server.workers) == 2)
    server.process.terminate()
    until(server.healthy)
    assert server.process.poll() is None


def test_a_second_term_while_loading_ends_it(start: Start) -> None:
    server = start(load=30, wait=False)
    until(lambda: len(server.workers) == 2)
    before = {server.process.pid: wakes(server.process.pid)}
    server.process.terminate()
    until(lambda: woken(server, before), what="it took the first")  # two signals at once would count as one
    server.process.terminate()
    assert server.process.wait(standin.SECOND_TERM + 5) == -signal.SIGINT
    until(lambda: not server.members())


def test_a_killed_engine_while_loading_is_status_1_and_workers_load_on(start: Start) -> None:
    server = start(load=4, wait=False)
    until(lambda: len(server.workers) == 2)
    os.kill(server.engine, signal.SIGKILL)
    assert server.process.wait(5) == 1
    assert len(server.workers) == 2
    until(lambda: not server.members())


def test_hang_stop_leaves_nothing_but_kill(start: Start) -> None:
    server = start(fault="hang-stop")
    before = {pid: wakes(pid) for pid in (server.process.pid, server.engine, *server.workers)}
    for pid in before:
        os.kill(pid, signal.SIGTERM)
    until(lambda: woken(server, before), what="all have taken it")
    assert len(server.members()) == 5
    server.process.kill()
    os.kill(server.engine, signal.SIGKILL)
    assert stays(lambda: len(server.workers) == 2, WORKER_MARGIN)


def test_crash_on_load_and_no_ready(start: Start) -> None:
    crashed = start(fault="crash-on-load")
    assert crashed.process.wait(10) == 1
    assert "stand-in: crash-on-load" in crashed.log.read_text()
    hanging = start(fault="no-ready", load=0, wait=False)
    until(lambda: "100% Completed" in hanging.log.read_text())
    before = {pid: wakes(pid) for pid in hanging.workers}
    until(lambda: woken(hanging, before, times=2), what="the workers have looked whether they may go on")
    assert not hanging.healthy()
    hanging.set_fault("")
    until(hanging.healthy)


def test_stall_lets_health_answer_and_requests_wait(start: Start) -> None:
    server = start(fault="stall")
    assert server.healthy()
    with socket.create_connection(("127.0.0.1", server.port), 5) as client:
        client.sendall(COMPLETION)
        client.settimeout(1)
        with pytest.raises(TimeoutError):
            client.recv(1)
        server.set_fault("")
        client.settimeout(10)
        assert client.recv(12) == b"HTTP/1.1 200"


def counters(server: Server) -> dict[str, float]:
    """What /metrics says, by name without labels: read without a key, as from the real one."""
    status, page = server.ask("GET", "/metrics", key=None)
    assert status == 200
    rows = re.findall(r"^vllm:(\w+)\{.*\} (\S+)$", page.decode(), re.MULTILINE)
    return {name: float(value) for name, value in rows}


def test_metrics_have_the_names_of_the_real_ones_and_count_tokens_as_they_are_made(start: Start) -> None:
    server = start(token=0.02)
    before = counters(server)
    assert before["num_requests_running"] == before["generation_tokens_total"] == 0
    assert {"num_requests_waiting", "kv_cache_usage_perc", "prompt_tokens_total"} <= before.keys()
    assert {"request_success_total", "generation_tokens_created"} <= before.keys()
    body = json.dumps({"model": "m", "prompt": "a b", "max_tokens": 100000, "stream": True})
    head = f"POST /v1/completions HTTP/1.1\r\nAuthorization: Bearer {KEY}\r\nContent-Length: {len(body)}"
    with socket.create_connection(("127.0.0.1", server.port), 5) as client:
        client.sendall(f"{head}\r\n\r\n{body}".encode())
        until(lambda: counters(server)["generation_tokens_total"] > 3)
        moving = counters(server)
        assert (moving["num_requests_running"], moving["prompt_tokens_total"]) == (1, 2)
        server.set_fault("stall")

        def frozen() -> bool:
            first, second = counters(server), counters(server)
            return first == second and first["num_requests_running"] == 1

        until(frozen)
        stalled = counters(server)
        assert stays(lambda: counters(server) == stalled, 0.5)
        assert server.healthy()
        server.set_fault("")
        until(lambda: counters(server)["generation_tokens_total"] > stalled["generation_tokens_total"])


def test_an_engine_that_hangs_in_its_first_step_says_that_nothing_runs(start: Start) -> None:
    server = start()
    os.kill(server.workers[0], signal.SIGSTOP)
    with socket.create_connection(("127.0.0.1", server.port), 5) as client:
        client.sendall(COMPLETION)
        assert stays(lambda: counters(server)["num_requests_running"] == 0, 0.5)
        os.kill(server.workers[0], signal.SIGCONT)
        client.settimeout(10)
        assert client.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize(
    ("model", "tp", "message"),
    [
        ("/models/nowhere", 2, "HFValidationError"),
        ("nowhere/model", 2, "Can't load the configuration"),
        ("", 3, "must be divisible"),
    ],
)
def test_what_vllm_refuses(start: Start, model: str, tp: int, message: str) -> None:
    server = start(model=model, tp=tp)
    assert server.process.wait(10) == 1
    assert message in server.log.read_text()


def test_a_port_that_is_taken_is_an_error(start: Start, tmp_path: Path) -> None:
    first = start()
    second = start("--port", str(first.port), wait=False)
    assert second.process.wait(10) == 1
    assert "Address already in use" in second.log.read_text()
