"""Processes that look like a unit's and aren't: whatever is killed around them, none may notice.

Each is watched through a pidfd. Those of our own writing catch every signal that can be caught and write it
down; a STOP is seen by its state.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from klops.agent.processes import procs
from klops.sim import rankfaults, vllm
from klops.sim.engine import Engine
from klops.sim.vllms import write_standin_model
from tests.shortpaths import short_folder
from tests.waiting import until

#: A user with no name and nothing to lose.
STRANGER = 64_500
#: Writes down signals and holds what it is told to; until its standard input ends. First word: what it says.
_WITNESS = """
import os, signal, sys
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGPIPE}:
    if number < 32:
        signal.signal(number, lambda n, _: os.write(2, b"signal %d\\n" % n))
for path in sys.argv[2:]:
    if path.startswith("/dev/") or "/dev/xpu" in path:
        os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
os.write(1, b"here %d\\n" % os.getpid())
while os.read(0, 1):
    pass
"""


@dataclass
class Bystander:
    """One of them, by identity and pidfd."""

    what: str
    pid: int
    start: int
    handle: int
    #: where it writes down its signals
    heard: Path | None = None

    def harm(self) -> str:
        """What happened to it; "" for nothing."""
        if select.select([self.handle], [], [], 0)[0]:
            return f"{self.what} (pid {self.pid}) is gone"
        process = procs.read(self.pid)
        if process is None or process.start != self.start or not process.alive:
            return f"{self.what} (pid {self.pid}) is gone"
        if process.state in procs.HALTED:
            return f"{self.what} (pid {self.pid}) was stopped"
        heard = self.heard.read_text() if self.heard else ""
        return f"{self.what} (pid {self.pid}) got {heard.split()}" if heard else ""


@dataclass
class Bystanders:
    """All of them; :meth:`harmed` says what became of whom."""

    #: of those that write something down
    folder: Path = Path()
    all: list[Bystander] = field(default_factory=list)

    def harmed(self) -> list[str]:
        """What happened to any of them, in words."""
        return [harm for one in self.all if (harm := one.harm())]

    def watch(self, what: str, pid: int, heard: Path | None = None) -> None:
        """Take one in that runs."""
        process = procs.read(pid)
        assert process is not None, f"{what} did not start"
        self.all.append(Bystander(what, pid, process.start, os.pidfd_open(pid), heard))

    def close(self) -> None:
        for one in self.all:
            os.close(one.handle)


@contextmanager
def bystanders(nodes: Path, engine: Engine, image: str) -> Iterator[Bystanders]:
    """An editor, a web server, a shell, a second user's service with two cards, a container with another.

    ``nodes`` is a rehearsal host's folder of card nodes; they take xpu4 to xpu6 of it. ``image`` is one of
    the engine's, with no Python of its own: this one is mounted.
    """
    with short_folder() as folder, ExitStack() as stack:
        folder.chmod(0o755)
        found = Bystanders(folder)
        stack.callback(found.close)
        # edits a file of that name; its whole command line is what a pattern looks for
        stack.enter_context(_witness(found, "vim", [f"{folder}/VLLM::EngineCore.py"]))
        stack.enter_context(_witness(found, "VLLM::EngineCore", []))
        stack.enter_context(_web_server(found))
        stack.enter_context(_shell(found))
        stack.enter_context(_second_user(found, nodes))
        stack.enter_context(_other_container(found, nodes, engine, image))
        yield found


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """End our own child, whatever it is, by its pid while it is unreaped."""
    with process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def _witness(found: Bystanders, title: str, words: list[str]) -> Iterator[None]:
    heard = found.folder / f"heard-{len(found.all)}"
    argv = [title, "-ISc", _WITNESS, title, *words]
    pipe = subprocess.PIPE
    with (
        heard.open("w") as said,
        _ended(
            subprocess.Popen(
                argv, executable=sys.executable, stdin=pipe, stdout=pipe, stderr=said, start_new_session=True
            )
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"here")
        found.watch(f"{title} {' '.join(words)}", process.pid, heard)
        yield


class Visitor:
    """Somebody at work in a unit's container by ``docker exec``, with an engine's title and another card."""

    def __init__(self, engine: Engine, container: str, python: str) -> None:
        at = ["-H", engine.host] if engine.host else []
        argv = [
            "docker",
            *at,
            "exec",
            "-i",
            container,
            python,
            "-ISc",
            _WITNESS,
            "VLLM::EngineCore",
            "/dev/xpu7",
        ]
        self._log = tempfile.NamedTemporaryFile("w")  # noqa: SIM115 - closed by close()
        pipe = subprocess.PIPE
        self._client = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=self._log)
        assert self._client.stdout is not None
        #: its number in the container
        self.pid = int(self._client.stdout.readline().split()[1])

    def harm(self) -> str:
        """What happened to it; "" for nothing."""
        heard = Path(self._log.name).read_text().split()
        if self._client.poll() is not None:
            return f"who works in the container is gone: {self._client.returncode} {heard}"
        return f"who works in the container got {heard}" if heard else ""

    def close(self) -> None:
        """Its standard input ends, so it does."""
        with self._client, self._log:
            pass


@contextmanager
def _web_server(found: Bystanders) -> Iterator[None]:
    """``python -m http.server``, as anybody starts it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    argv = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    quiet = subprocess.DEVNULL
    with _ended(subprocess.Popen(argv, cwd=found.folder, stdout=quiet, stderr=quiet)) as process:
        until(lambda: _answers(port), what="the web server listens")
        found.watch(f"python -m http.server {port}", process.pid)
        yield


@contextmanager
def _shell(found: Bystanders) -> Iterator[None]:
    """A shell as klops starts them, with all that is looked for in its command line."""
    script = "read word # klops reap vllm serve VLLM::EngineCore VLLM::Worker_TP0"
    with _ended(subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE)) as process:
        found.watch("sh -c ...VLLM::EngineCore", process.pid)
        yield


@contextmanager
def _second_user(found: Bystanders, nodes: Path) -> Iterator[None]:
    """Another user's service with the same titles, on two cards of the same host."""
    home = found.folder / "home"
    write_standin_model(home / "model")
    (home / "cards").mkdir()
    for place, name in enumerate(("xpu4", "xpu5")):
        os.mknod(home / "cards" / f"xpu{place}", 0o020666, (nodes / name).stat().st_rdev)
        (home / "cards" / f"xpu{place}").chmod(0o666)
    (home / "cards" / "xpuctrl").symlink_to("xpu0")
    shutil.copy(Path(vllm.__file__), home / "vllm")
    shutil.copy(Path(rankfaults.__file__), home)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    argv = [_python_of(STRANGER), str(home / "vllm"), "serve", str(home / "model"), "--port", str(port)]
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(found.folder), "KLOPS_SIM_LOAD_SECONDS": "0.1"}
    environment["KLOPS_SIM_DEVICE_DIR"] = str(home / "cards")
    found.folder.chmod(0o1777)
    log = found.folder / "second-user"
    with (
        log.open("w") as said,
        _ended(
            subprocess.Popen(
                [*argv, "--host", "127.0.0.1", "--tensor-parallel-size", "2"],
                env=environment,
                stdout=said,
                stderr=said,
                user=STRANGER,
                group=STRANGER,
                extra_groups=[],
                start_new_session=True,
            )
        ) as process,
    ):
        until(lambda: _answers(port) or process.poll() is not None, what=f"a second user's service: {log}")
        assert process.poll() is None, log.read_text()
        first = len(found.all)
        for member in procs.table().values():
            if member.session == process.pid and member.alive:
                found.watch(f"a second user's {member.name}", member.pid)
        try:
            yield
        finally:
            for one in found.all[first:]:  # they are ours, and held by pidfd since they were alive
                _kill(one.handle)


@contextmanager
def _other_container(found: Bystanders, nodes: Path, engine: Engine, image: str) -> Iterator[None]:
    """A container that somebody made, in which a process with a worker's title holds a card."""
    python = Path(sys.executable).resolve()
    home = python.parent.parent
    flags = ["--interactive", "--detach", "--network=none", f"--device={nodes}/xpu6:/dev/xpu0"]
    flags += [f"--volume={home}:{home}:ro", "--volume=/usr:/usr:ro", "--volume=/etc:/etc:ro"]
    words = [str(python), "-ISc", _WITNESS, "VLLM::Worker_TP0", "/dev/xpu0"]
    made = engine.docker("run", *flags, image, *words)
    try:
        until(lambda: "here" in engine.docker("logs", made), what="the other container's process is there")
        pid = int(engine.docker("inspect", "--format", "{{.State.Pid}}", made))
        found.watch("another container's VLLM::Worker_TP0", pid)
        yield
    finally:
        engine.docker("rm", "--force", made)


def _kill(handle: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, signal.SIGKILL)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _python_of(uid: int) -> str:
    """A Python that this user may run; this one, where its folders let it."""
    candidates = [
        str(Path(sys.executable).resolve()),
        *filter(None, (shutil.which("python3", path=_SYSTEM),)),
    ]
    for python in candidates:
        try:
            done = subprocess.run([python, "-c", "pass"], user=uid, group=uid, extra_groups=[], check=False)
        except PermissionError:
            continue
        if done.returncode == 0:
            return python
    raise AssertionError(f"user {uid} can run none of {', '.join(candidates)}")


_SYSTEM = "/usr/bin:/usr/local/bin:/bin"
