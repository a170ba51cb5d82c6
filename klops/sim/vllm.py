#!/usr/bin/env python3
"""A stand-in for ``vllm serve``: processes, titles, signals and leftovers of the real one, without a model.

What it imitates was measured on vLLM 0.32 with tensor parallelism (TP) 2. The tree is::

    vllm serve MODEL ...            API server; keeps its argv
    |-- resource_tracker            multiprocessing's own: ignores TERM, removes psm_* and sem.* last
    `-- VLLM::EngineCore            outlives a killed API server for ever
        |-- VLLM::Worker_TP0        each holds the card node of its rank; ends 3 s after its engine
        `-- VLLM::Worker_TP1

All share one session and process group; titles wipe ``/proc/PID/environ`` as setproctitle does. It reads
``KLOPS_SIM_DEVICE_DIR`` (where card nodes are; "" = open none), ``KLOPS_SIM_LOAD_SECONDS``,
``KLOPS_SIM_TOKEN_SECONDS`` and ``KLOPS_SIM_FAULTS`` (a faults.json of klops.sim.faults); and rankfaults.py,
beside it, what that needs to tell which faults its cards have in collectives.

One file above the usual length, and Python 3.8 with nothing but its standard library: it is copied into a
rehearsal host's folder and run there by whatever Python the container has.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import hmac
import json
import mmap
import os
import secrets
import select
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context, resource_tracker, shared_memory
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

# run as a program it has rankfaults.py beside it, as part of klops in its package
if TYPE_CHECKING or __package__:
    from klops.sim import rankfaults
else:
    import rankfaults

VERSION = "0.32.0+standin"
# Seconds, as measured (the two grace times are shorter here: they depend on the machine, not on the design).
WORKER_NOTICES = 3.2  # a worker ends so long after its engine's pipe closed
API_GIVES_UP = 3.9  # the API server ends so long after its engine died
API_GIVES_UP_LOADING = 1.8  # the same while loading
WORKER_LOST = 5.0  # so long the engine keeps a worker that was killed while loading as a zombie
LEAVING = 1.0  # an orderly exit of engine and workers
SECOND_TERM = 5.0  # grace after the second TERM while loading
PR_SET_NAME = 15


def write(who: str, text: str, end: str = "\n") -> None:
    """One piece of log, in one write, prefixed as vLLM prefixes it."""
    os.write(1, f"({who} pid={os.getpid()}) {text}{end}".encode())


def info(who: str, where: str, text: str) -> None:
    """A line of vLLM's own logger."""
    write(who, f"INFO {time.strftime('%m-%d %H:%M:%S')} [{where}] {text}")


def error(who: str, text: str) -> None:
    """An error, each of its lines marked as vLLM marks them."""
    stamp = time.strftime("%m-%d %H:%M:%S")
    for line in text.splitlines():
        write(who, f"ERROR {stamp} [core.py:1100] {line}")


def fault() -> str:
    """The fault of vllm that is set right now, "" for none; the file may change while this runs."""
    path = os.environ.get("KLOPS_SIM_FAULTS", "")
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8")).get("vllm") if path else ""
    except (OSError, ValueError):  # not there, or being replaced: no fault
        return ""
    return str(found or "")


def set_title(title: str) -> None:
    """Put ``title`` over argv and wipe the environment behind it, as setproctitle does; os.environ stays."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    arg_start, arg_end, _, env_end = (int(x) for x in fields[45:49])
    raw = title.encode()[: arg_end - arg_start - 1]
    ctypes.memset(arg_start, 0, env_end - arg_start)
    ctypes.memmove(arg_start, raw, len(raw))
    ctypes.CDLL(None).prctl(PR_SET_NAME, title.encode(), 0, 0, 0)


class Inbox:
    """Waits for sockets and caught TERM / INT at once. Made anew after each fork."""

    def __init__(self) -> None:
        self._read, write_end = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)

    def wait(
        self, socks: list[socket.socket], seconds: float | None
    ) -> tuple[list[socket.socket], list[int]]:
        """Sockets that have something, and signals that came; both empty after ``seconds``."""
        numbers = [self._read, *(s.fileno() for s in socks)]
        ready, _, _ = select.select(numbers, [], [], seconds)
        signals = list(os.read(self._read, 64)) if self._read in ready else []
        return [s for s in socks if s.fileno() in ready], signals

    def sleep(self, seconds: float) -> list[int]:
        """Sleep; ends early, with the signals, when one comes."""
        return self.wait([], seconds)[1]


def send(sock: socket.socket, line: str) -> bool:
    """Send a line; False when nobody is there to read it."""
    try:
        sock.sendall(line.encode() + b"\n")
    except OSError:
        return False
    return True


def receive(sock: socket.socket) -> list[str]:
    """The lines that have come; [] at the end of the stream."""
    try:
        return sock.recv(65536).decode().splitlines()
    except OSError:
        return []


# --- workers ------------------------------------------------------------------------------------------------


def card_nodes() -> list[str] | None:
    """Nodes of the visible cards in order of rank; None when no cards are simulated at all."""
    return rankfaults.visible_nodes() if rankfaults.device_dir() else None


def open_cards(rank: int, nodes: list[str] | None) -> None:
    """Open the card of this rank, and keep it open."""
    if nodes is None:
        return
    try:
        rankfaults.take(nodes, rank)
    except OSError as exc:
        raise RuntimeError(f"XPU error: can't open device {exc.filename}: {exc.strerror}") from exc


def meet(rank: int, size: int, inbox: Inbox, nodes: list[str] | None) -> None:
    """Form the group of all ranks and run its first collective: what befalls their cards there.

    A group that can't be formed raises. A card that hangs keeps its worker for ever; the others wait for it
    as long, and leave on a signal.
    """
    if nodes is None or size == 1:
        return
    cards = [rankfaults.card_of(node) for node in nodes[:size]]
    stages = (rankfaults.INIT, rankfaults.COLLECTIVE)
    stuck = [card for card in cards if any(rankfaults.hangs(cards, card, stage) for stage in stages)]
    rankfaults.Group(cards, cards[rank]).form()
    if cards[rank] in stuck:
        rankfaults.hang()
    while stuck:
        if inbox.sleep(3600):
            os._exit(0)


def load(rank: int, inbox: Inbox) -> None:
    """Pretend to read four shards; rank 0 draws vLLM's bar. Leaves on a signal, fails when told to."""
    who, shards = f"Worker_TP{rank}", 4
    seconds = float(os.environ.get("KLOPS_SIM_LOAD_SECONDS") or 1)
    for done in range(shards + 1):
        if rank == 0:
            bar = f"{100 * done // shards:3d}% Completed | {done}/{shards}"
            end = "\n" if done == shards else "\r"
            write(who, f"Loading safetensors checkpoint shards: {bar}", end=end)
        if fault() == "crash-on-load" and done == shards // 2:
            raise RuntimeError("stand-in: crash-on-load")
        if done < shards and inbox.sleep(seconds / shards):
            os._exit(0)
    while fault() == "no-ready":
        if inbox.sleep(0.5):
            os._exit(0)


def worker(rank: int, size: int, engine: socket.socket, nodes: list[str] | None, group: str) -> NoReturn:
    """A worker's life: cards, load, answer the engine, and leave when the engine has gone."""
    inbox = Inbox()
    set_title("VLLM::Worker")
    set_title(f"VLLM::Worker_TP{rank}")
    who = f"Worker_TP{rank}"
    try:
        open_cards(rank, nodes)
        meet(rank, size, inbox, nodes)
        info(who, "gpu_model_runner.py:3200", "Starting to load model...")
        load(rank, inbox)
    except (RuntimeError, ValueError):
        error(who, "WorkerProc failed to start.\n" + traceback.format_exc())
        os._exit(1)
    ranks = "-".join(str(r) for r in range(size))
    shm = Path("/dev/shm") / f"vllm_dist_{group}-tp:0-[{ranks}]-cpushm_{rank}"  # noqa: S108 - where vLLM puts it
    with shm.open("w+b") as file:
        file.truncate(4 << 20)  # sparse: costs nothing
        shared = mmap.mmap(file.fileno(), 4 << 20)
    patience = WORKER_NOTICES
    if send(engine, "loaded"):
        while True:
            ready, signals = inbox.wait([engine], None)
            if signals and fault() != "hang-stop":
                patience = 0
                break
            lines = receive(engine) if ready else ["-"]
            if not lines or "stop" in lines:
                patience = LEAVING if lines else WORKER_NOTICES
                break
            for line in lines:
                if ready:
                    send(engine, line)
    else:
        patience = 0
    while fault() == "hang-stop":  # as in a driver's teardown: nothing but KILL ends it
        inbox.sleep(3600)
    time.sleep(patience)
    shared.close()
    shm.unlink()
    os._exit(0)


# --- engine -------------------------------------------------------------------------------------------------


class Engine:
    """EngineCore: starts the workers, relays requests to them, and never looks whether its parent lives."""

    def __init__(self, size: int, api: socket.socket, nodes: list[str] | None) -> None:
        self.inbox = Inbox()
        self.api = api
        self.workers: dict[socket.socket, int] = {}
        self.kept: list[Any] = []
        set_title("VLLM::EngineCore")
        self.share()
        group = f"{os.getpid()}_{secrets.token_hex(4)}"
        (Path(tempfile.gettempdir()) / f"vllm_dist_{group}").touch()
        for rank in range(size):
            ours, theirs = socket.socketpair()
            pid = os.fork()
            if not pid:
                for sock in (api, ours, *self.workers):
                    sock.close()
                worker(rank, size, theirs, nodes, group)
            theirs.close()
            self.workers[ours] = pid

    def share(self) -> None:
        """Two shared memory blocks and a semaphore: half of what vLLM has in /dev/shm when it is ready."""
        self.kept += [shared_memory.SharedMemory(create=True, size=4096) for _ in range(2)]
        self.kept.append(get_context("spawn").Lock())

    def run(self) -> NoReturn:
        """Load, then serve for ever."""
        loading = set(self.workers)
        while loading:
            ready, signals = self.inbox.wait(list(loading), None)
            if signals:
                self.leave(0, signal.SIGTERM, LEAVING)
            for sock in ready:
                if not receive(sock):
                    self.failed_start(self.workers[sock])
                loading.discard(sock)
        self.share()
        info(
            "EngineCore",
            "core.py:210",
            "init engine (profile, create kv cache, warmup model) took 0.10 seconds",
        )
        send(self.api, " ".join(["ready", *(str(pid) for pid in self.workers.values())]))
        self.serve()

    def failed_start(self, pid: int) -> NoReturn:
        """A worker is lost while loading. One that was killed stays a zombie for a while."""
        status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        if status is not None and status.si_code != os.CLD_EXITED:
            time.sleep(WORKER_LOST)
        error("EngineCore", "EngineCore failed to start.\nException: WorkerProc initialization failed.")
        self.leave(1, signal.SIGTERM, 0.3)

    def serve(self) -> NoReturn:
        """Relay requests: an answer needs every worker, so one that is stopped stalls them all."""
        waiting: dict[str, int] = {}
        watched = [self.api, *self.workers]
        while True:
            ready, signals = self.inbox.wait(watched, None)
            if signals and fault() != "hang-stop":
                self.leave(0, None, 10)
            for sock in ready:
                lines = receive(sock)
                if not lines and sock is self.api:
                    watched.remove(sock)  # the API server is gone: vLLM's engine doesn't mind, and lives on
                elif not lines:
                    error(
                        "EngineCore",
                        f"Worker proc died unexpectedly (pid {self.workers[sock]}), shutting down.",
                    )
                    send(self.api, "dead")
                    self.leave(1, signal.SIGTERM, WORKER_NOTICES)
                for line in lines:
                    if sock is self.api:
                        waiting[line] = len(self.workers)
                        for peer in self.workers:
                            send(peer, line)
                    elif line in waiting:
                        waiting[line] -= 1
                        if not waiting[line]:
                            del waiting[line]
                            send(self.api, line)

    def leave(self, rc: int, number: int | None, seconds: float) -> NoReturn:
        """End the workers, by ``number`` or by asking, wait for them at most ``seconds``, and exit."""
        for sock, pid in self.workers.items():
            if number is None:
                send(sock, "stop")
            else:
                os.kill(pid, number)
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.alive():
            time.sleep(0.05)
        if number is not None:
            time.sleep(max(0.0, end - time.monotonic()))
        os._exit(rc)

    def alive(self) -> bool:
        """Whether a worker still runs; the dead ones stay zombies until this process ends, as with vLLM."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return any(os.waitid(os.P_PID, pid, flags) is None for pid in self.workers.values())


# --- API server ---------------------------------------------------------------------------------------------


class Api:
    """The API server: one engine below it, and HTTP."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.names: list[str] = args.served_model_name or [args.model]
        env_key = os.environ.get("VLLM_API_KEY")
        self.keys: list[str] = args.api_key or ([env_key] if env_key else [])
        self.born = int(time.time())
        self.bound: list[socket.socket] = []
        self.dead = threading.Event()  # the engine is lost, or being ended
        self.lock = threading.Lock()
        self.answers: dict[str, threading.Event] = {}
        self.counters = dict.fromkeys(("running", "prompt", "generated", "success"), 0)
        self.worker_pids: list[int] = []

    def start(self, nodes: list[str] | None) -> int:
        """Start everything, serve, and return the exit status."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self.args.host, self.args.port))  # bound at once, as in vLLM; listens only when ready
        self.inbox = Inbox()
        resource_tracker.ensure_running()
        self.sockets(7)
        self.engine, theirs = socket.socketpair()
        self.engine_pid = os.fork()
        if not self.engine_pid:
            for sock in (listener, self.engine, *self.bound):
                sock.close()
            Engine(self.args.tensor_parallel_size, theirs, nodes).run()
        theirs.close()
        if not self.wait_for_engine():
            error("APIServer", "RuntimeError: Engine core initialization failed. See root cause above.")
            return 1
        self.sockets(4)
        server = ThreadingHTTPServer((self.args.host, 0), Handler, bind_and_activate=False)
        server.socket.close()
        server.socket = listener
        server.daemon_threads = True
        server.api = self  # type: ignore[attr-defined]  # how http.server hands things to its handlers
        server.server_activate()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        info("APIServer", "api_server.py:1400",
             f"Starting vLLM API server 0 on http://{self.args.host}:{self.args.port}")  # fmt: skip
        for text in (f"Started server process [{os.getpid()}]", "Waiting for application startup.",
                     "Application startup complete."):  # fmt: skip
            write("APIServer", f"INFO:     {text}")
        return self.watch()

    def sockets(self, count: int) -> None:
        """Unix sockets with a UUID for a name, which vLLM never removes."""
        for _ in range(count):
            made = socket.socket(socket.AF_UNIX)
            made.bind(str(Path(tempfile.gettempdir()) / str(uuid.uuid4())))
            made.listen()
            self.bound.append(made)

    def wait_for_engine(self) -> bool:
        """Wait until the engine is ready; False when it died. The first TERM is lost, and deafens as well."""
        terms, interrupted = 0, False
        while True:
            ready, signals = self.inbox.wait([] if terms == -1 else [self.engine], None)
            terms += signals.count(signal.SIGTERM)
            interrupted = interrupted or signal.SIGINT in signals
            if terms >= 2:
                time.sleep(SECOND_TERM)
                self.kill_tree()
                self.die_of_int()
            if ready:
                lines = receive(self.engine)
                if lines and lines[0].startswith("ready"):
                    self.worker_pids = [int(pid) for pid in lines[0].split()[1:]]
                    if interrupted:
                        self.kill_tree()
                        self.die_of_int()
                    return True
                if terms:  # it no longer watches the engine: hangs, with the engine as a zombie
                    while self.inbox.sleep(600).count(signal.SIGTERM) == 0:
                        pass
                    self.die_of_int()
                time.sleep(API_GIVES_UP_LOADING)
                return False

    def watch(self) -> int:
        """Hand on the engine's answers until it dies (0 after a while, as vLLM) or a signal comes (0)."""
        while True:
            ready, signals = self.inbox.wait([self.engine], None)
            if signals:
                return self.shut_down()
            for line in receive(self.engine) if ready else ["-"]:
                if line == "dead":
                    return self.give_up()
                answer = self.answers.pop(line, None)
                if answer:
                    answer.set()
            if ready and self.engine_gone():
                return self.give_up()

    def engine_gone(self) -> bool:
        """Whether the engine has ended; it stays a zombie until this process ends."""
        return os.waitid(os.P_PID, self.engine_pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def give_up(self) -> int:
        """The engine is lost: unhealthy at once, gone a little later, with status 0."""
        self.dead.set()
        error(
            "APIServer",
            "EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
        )
        time.sleep(API_GIVES_UP)
        write("APIServer", "INFO:     Shutting down")
        return 0

    def shut_down(self) -> int:
        """TERM or INT when ready. By default everything below is killed; --shutdown-timeout lets it leave."""
        write("APIServer", "INFO:     Shutting down")
        self.dead.set()
        while fault() == "hang-stop":
            self.inbox.sleep(3600)
        if self.args.shutdown_timeout:
            os.kill(self.engine_pid, signal.SIGTERM)
            end = time.monotonic() + self.args.shutdown_timeout
            while time.monotonic() < end and not self.engine_gone():
                time.sleep(0.05)
        time.sleep(0.2)
        self.kill_tree()
        write("APIServer", "INFO:     Application shutdown complete.")
        return 0

    def kill_tree(self) -> None:
        """KILL the engine and its workers while the engine lives (its children then can't be strangers)."""
        if not self.engine_gone():
            for pid in (*(self.worker_pids or children(self.engine_pid)), self.engine_pid):
                with contextlib.suppress(ProcessLookupError):  # it ended in this moment
                    os.kill(pid, signal.SIGKILL)
        os.waitpid(self.engine_pid, 0)

    def die_of_int(self) -> NoReturn:
        """End as Ctrl-C ends a program."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
        raise SystemExit(130)

    def ask_engine(self) -> bool:
        """One forward pass: through the engine, every worker, and back. False when the engine is lost."""
        name, answer = uuid.uuid4().hex, threading.Event()
        self.answers[name] = answer
        with self.lock:
            sent = send(self.engine, name)
        while sent and not self.dead.is_set():
            if answer.wait(0.1):
                return True
        return False

    def hold_on(self) -> None:
        """With the fault "stall" nothing goes on: requests run, /health is fine, no counter moves."""
        while fault() == "stall" and not self.dead.wait(0.2):
            pass

    def make_token(self, pause: float) -> bool:
        """One more token of one request, counted at once, as vLLM does; False when the engine is lost."""
        if self.dead.wait(pause):
            return False
        self.hold_on()
        self.count(generated=1)
        return True

    def count(self, **more: int) -> None:
        """Add to the counters of /metrics."""
        with self.lock:
            for name, value in more.items():
                self.counters[name] += value

    def metrics(self) -> str:
        """The few of vLLM's metrics that are watched most. Tokens are counted as they are made."""
        model = f'engine="0",model_name={json.dumps(self.names[0])}'
        with self.lock:
            now = dict(self.counters)
        rows = (
            ("num_requests_running", "gauge", "", now["running"]),
            ("num_requests_waiting", "gauge", "", 0),
            ("kv_cache_usage_perc", "gauge", "", 0),
            ("prompt_tokens", "counter", "_total", now["prompt"]),
            ("generation_tokens", "counter", "_total", now["generated"]),
            ("request_success", "counter", "_total", now["success"]),
        )
        text = ""
        for name, kind, suffix, value in rows:
            labels = f'{model},finished_reason="length"' if name == "request_success" else model
            text += f"# TYPE vllm:{name}{suffix} {kind}\nvllm:{name}{suffix}{{{labels}}} {float(value)}\n"
            if suffix:  # of each counter, when it was made
                created = f"vllm:{name}_created"
                text += f"# TYPE {created} gauge\n{created}{{{labels}}} {float(self.born)}\n"
        return text


def children(pid: int) -> list[int]:
    """Children of a process of one thread."""
    try:
        return [int(x) for x in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    except OSError:  # gone, or a kernel without that file
        return []


class Handler(BaseHTTPRequestHandler):
    """vLLM's routes, as far as operators use them."""

    protocol_version = "HTTP/1.1"
    server_version = "uvicorn"
    disable_nagle_algorithm = True

    @property
    def api(self) -> Api:
        found: Api = self.server.api  # type: ignore[attr-defined]  # set by Api.start
        return found

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name http.server uses
        """Nothing: :meth:`reply` writes uvicorn's line."""

    def reply(self, code: int, body: object = None, kind: str = "application/json") -> None:
        """Send a whole answer and write uvicorn's access line."""
        raw = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)
        self.access(code)

    def access(self, code: int) -> None:
        host, port = self.client_address[:2]
        reason = self.responses.get(code, ("",))[0]
        write("APIServer", f'INFO:     {host}:{port} - "{self.command} {self.path} HTTP/1.1" {code} {reason}')

    def refuse(self, code: int, message: str, kind: str) -> None:
        """An error in vLLM's form."""
        self.reply(code, {"error": {"message": message, "type": kind, "param": None, "code": code}})

    def allowed(self) -> bool:
        """Whether the key fits; only /v1 is behind it."""
        if not self.api.keys or not self.path.startswith("/v1"):
            return True
        given = self.headers.get("Authorization", "").encode("latin-1", "replace")
        if any(hmac.compare_digest(given, f"Bearer {key}".encode()) for key in self.api.keys):
            return True
        self.reply(401, {"error": "Unauthorized"})
        return False

    def do_GET(self) -> None:
        """/health, /ping, /version, /metrics, /v1/models."""
        api, path = self.api, self.path.partition("?")[0]
        if not self.allowed():
            return
        if path in ("/health", "/ping"):
            self.reply(503 if api.dead.is_set() else 200)
        elif path == "/version":
            self.reply(200, {"version": VERSION})
        elif path == "/metrics":
            self.reply(200, api.metrics(), "text/plain; version=0.0.4; charset=utf-8")
        elif path == "/v1/models":
            card = {"object": "model", "created": api.born, "owned_by": "vllm", "root": api.args.model}
            card["max_model_len"] = api.args.max_model_len
            self.reply(200, {"object": "list", "data": [{"id": name, **card} for name in api.names]})
        else:
            self.reply(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        """/v1/completions and /v1/chat/completions."""
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.allowed():
            return
        if self.path not in ("/v1/completions", "/v1/chat/completions"):
            self.reply(404, {"detail": "Not Found"})
            return
        try:
            asked = json.loads(raw)
            model = asked.get("model") or self.api.names[0]
            if "chat" in self.path:
                prompt = " ".join(str(m["content"]) for m in asked["messages"])
            else:
                prompt = str(asked["prompt"])
            limit = int(asked.get("max_completion_tokens") or asked.get("max_tokens") or 16)
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            self.refuse(400, f"{type(exc).__name__}: {exc}", "BadRequestError")
            return
        if model not in self.api.names:
            self.refuse(404, f"The model `{model}` does not exist.", "NotFoundError")
            return
        if not self.api.ask_engine():
            self.refuse(500, "EngineCore encountered an issue. See stack trace (above) for the root cause.",
                        "Internal Server Error")  # fmt: skip
            return
        # vLLM learns what runs from the results of a step: an engine that hangs in the first one says "none"
        self.api.count(running=1)
        try:
            self.complete(asked, model, prompt.split() or ["-"], limit)
        finally:
            self.api.count(running=-1)

    def complete(self, asked: dict[str, Any], model: str, words: list[str], limit: int) -> None:
        """Answer with the prompt's own words, over and over, one a token."""
        api, chat, stream = self.api, "chat" in self.path, bool(asked.get("stream"))
        name = ("chatcmpl-" if chat else "cmpl-") + uuid.uuid4().hex
        kind = "text_completion" if not chat else "chat.completion" + (".chunk" if stream else "")
        head = {"id": name, "object": kind, "created": int(time.time()), "model": model}
        usage = {"prompt_tokens": len(words), "completion_tokens": limit, "total_tokens": len(words) + limit}
        pause = float(os.environ.get("KLOPS_SIM_TOKEN_SECONDS") or 0.002)
        api.hold_on()
        api.count(prompt=len(words))
        tokens = [words[i % len(words)] for i in range(limit)]
        if stream:
            self.stream(
                head,
                tokens,
                pause,
                usage if (asked.get("stream_options") or {}).get("include_usage") else None,
            )
        else:
            for _ in tokens:
                if not api.make_token(pause):
                    break
            text = " ".join(tokens)
            body = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
            choice = {"index": 0, **body, "logprobs": None, "finish_reason": "length"}
            self.reply(200, {**head, "choices": [choice], "usage": usage})
        api.count(success=1)

    def stream(
        self, head: dict[str, Any], tokens: list[str], pause: float, usage: dict[str, int] | None
    ) -> None:
        """The same as server-sent events; the connection's end is the end of the answer."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        chat = "chat" in head["object"]
        for i, token in enumerate(tokens):
            if not self.api.make_token(pause):
                break
            body = {"delta": {"content": token + " "}} if chat else {"text": token + " "}
            choice = {"index": 0, **body, "finish_reason": "length" if i == len(tokens) - 1 else None}
            self.event({**head, "choices": [choice]})
        if usage:
            self.event({**head, "choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")
        self.access(200)

    def event(self, data: dict[str, Any]) -> None:
        self.wfile.write(f"data: {json.dumps(data)}\n\n".encode())
        self.wfile.flush()


# --- command line -------------------------------------------------------------------------------------------


def parse(argv: list[str]) -> argparse.Namespace:
    """The options that matter here; the many others of vLLM are taken and ignored."""
    parser = argparse.ArgumentParser(prog="vllm", allow_abbrev=False)
    parser.add_argument("-v", "--version", action="version", version=VERSION)
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", allow_abbrev=False)
    serve.add_argument("model")
    serve.add_argument("--served-model-name", nargs="+")
    serve.add_argument("--host", default="0.0.0.0")  # noqa: S104 - vLLM's own default
    serve.add_argument("--port", type=int, default=8000)
    serve.add_argument("--api-key", nargs="+")
    serve.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
    serve.add_argument("--max-model-len", type=int, default=4096)
    serve.add_argument("--shutdown-timeout", type=float, default=0)
    return parser.parse_known_args(argv)[0]


def mistake(args: argparse.Namespace, nodes: list[str] | None) -> str:
    """Why vLLM would refuse to start, "" when it wouldn't."""
    config = Path(args.model) / "config.json"
    if not config.is_file():
        if args.model.count("/") > 1 or args.model.startswith("/"):
            return (
                "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
                f"'namespace/repo_name': '{args.model}'. Use `repo_type` argument if needed."
            )
        return f"OSError: Can't load the configuration of '{args.model}'."
    size = args.tensor_parallel_size
    heads = json.loads(config.read_text(encoding="utf-8")).get("num_attention_heads", size)
    if heads % size:
        return f"ValueError: Total number of attention heads ({heads}) must be divisible by TP size ({size})."
    if nodes is not None and size > len(nodes):
        return f"ValueError: World size ({size}) is larger than the number of available XPUs ({len(nodes)})."
    return ""


def main(argv: list[str]) -> int:
    """``vllm serve ...``; returns the exit status."""
    args = parse(argv)
    ctypes.CDLL(None).prctl(PR_SET_NAME, b"vllm", 0, 0, 0)
    info("APIServer", "api_server.py:1272", f"vLLM API server version {VERSION}")
    given = {k: v for k, v in vars(args).items() if v is not None and k != "command"}
    info("APIServer", "utils.py:253", f"non-default args: {given}")  # with the key in it, as vLLM's
    nodes = card_nodes()
    refused = mistake(args, nodes)
    if refused:
        error("APIServer", refused)
        return 1
    try:
        return Api(args).start(nodes)
    except OSError:
        error("APIServer", traceback.format_exc())
        return 1


if __name__ == "__main__":
    # no interpreter shutdown: what is shared is left to the resource tracker, as after vLLM
    os._exit(main(sys.argv[1:]))
