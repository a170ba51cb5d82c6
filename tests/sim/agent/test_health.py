"""Checks of a server that is ready: made-up servers that answer wrongly."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from klops.agent.units import health, unit
from klops.agent.units.health import Target


@contextmanager
def server(key: str, model: str, metrics: str | None = None) -> Iterator[int]:
    """Answers /health to all and /v1/models to the holder of a key; yields its port.

    /metrics asks for the key too, as a proxy may, and says ``metrics`` (None: there is no such page).
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = self.path == "/health" or self.headers["Authorization"] == f"Bearer {key}"
            missing = self.path == "/metrics" and metrics is None
            self.send_response(404 if missing else 200 if allowed else 401)
            self.end_headers()
            if allowed and self.path == "/metrics":
                self.wfile.write((metrics or "").encode())
            if allowed and self.path == "/v1/models":
                self.wfile.write(json.dumps({"data": [{"id": model}]}).encode())

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made.server_address[1]
        made.shutdown()
        thread.join(10)


def target(port: int, *, listing: bool) -> Target:
    """A unit that was ready, served by this very process."""
    return Target(port, "llm", "right", 5.0, [os.getpid()], was_ready=True, listing=listing, smoke=False)


@pytest.mark.parametrize(
    ("key", "model", "kind", "message"),
    [
        ("right", "llm", unit.OK, "the model is listed"),
        ("other", "llm", unit.LOST, "/v1/models refuses the key (status 401)"),
        ("right", "other", unit.LOST, "/v1/models lists other, not llm"),
    ],
)
def test_model_and_key_are_looked_at_again_when_it_is_time(
    key: str, model: str, kind: str, message: str
) -> None:
    with server(key, model) as port:
        usual = health.check(target(port, listing=False))
        assert (usual.kind, usual.listed) == (unit.OK, False)
        now_and_then = health.check(target(port, listing=True))
        assert (now_and_then.kind, now_and_then.message) == (kind, message)
        assert now_and_then.listed == (kind == unit.OK)


@pytest.mark.parametrize(
    ("metrics", "counters", "why"),
    [
        ("vllm:num_requests_running 2\nvllm:generation_tokens_total 7\n", (2, 0, 7), ""),
        ("", None, "/metrics has no counters of vLLM"),
        (None, None, "/metrics answers 404"),
        ("#\n" * (1 << 20), None, "/metrics is longer than 1 MiB"),
    ],
    ids=["vllm", "empty", "missing", "long"],
)
@pytest.mark.parametrize("listing", [True, False])
def test_a_check_that_goes_well_has_the_counters_or_says_why_not(
    metrics: str | None, counters: tuple[float, ...] | None, why: str, listing: bool
) -> None:
    with server("right", "llm", metrics) as port:
        found = health.check(target(port, listing=listing))
    assert (found.kind, found.unmeasured) == (unit.OK, why)
    assert (found.counters and found.counters[:3]) == counters


def test_a_listener_born_after_the_last_look_at_the_lineage_is_no_stranger() -> None:
    with server("right", "llm") as port:
        parent = target(port, listing=True)._replace(pids=[os.getppid()])
        assert health.check(parent).kind == unit.OK
        stranger = target(port, listing=True)._replace(pids=[2])
        assert "is not this unit's" in health.check(stranger).message


#: Answers everything on an address, by a port that may be shared, which it says.
_ANSWERING = """
import socket, socketserver, sys
from http.server import BaseHTTPRequestHandler

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

class Server(socketserver.TCPServer):
    address_family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET

    def server_bind(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # as vLLM does
        super().server_bind()

with Server((sys.argv[1], 0), Handler) as made:
    print(made.server_address[1], flush=True)
    made.serve_forever()
"""


@pytest.mark.parametrize(
    ("unit_at", "stranger_at", "kind"),
    [
        ("127.0.0.1", "::1", unit.OK),
        ("::1", "127.0.0.1", unit.OK),
        ("127.0.0.1", "127.0.0.1", unit.LOST),
    ],
)
def test_a_stranger_on_the_port_matters_only_where_it_might_answer_in_the_units_place(
    unit_at: str, stranger_at: str, kind: str
) -> None:
    argv = [sys.executable, "-c", _ANSWERING, unit_at]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(argv, **pipes) as serving:  # type: ignore[call-overload]  # of dicts
        port = int(serving.stdout.readline())
        with socket.socket(socket.AF_INET6 if ":" in stranger_at else socket.AF_INET) as stranger:
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            stranger.bind((stranger_at, port))
            stranger.listen()
            found = health.check(target(port, listing=False)._replace(pids=[serving.pid]))
        serving.kill()
    assert found.kind == kind
    assert (f"pid {os.getpid()} " in found.message) == (kind == unit.LOST)
