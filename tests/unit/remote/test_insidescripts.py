"""The shell that ends with its input, under every shell a container may have: statuses, input, ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol, cast

import psutil
import pytest

from klops.remote import insidescripts, whoami
from klops.remote.insidescripts import PREPARE, TELL, guarded_command, launch_script
from klops.remote.script import Opening, eval_first
from tests.waiting import until

MARKER = "0123456789abcdef0123456789abcdef"
SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "bash-own": ["bash"], "busybox": ["busybox", "sh"]}


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> list[str]:
    words = SHELLS[request.param]
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    return words


class Running:
    """A guarded command under a shell, as docker exec starts it: session and pipes of its own."""

    def __init__(self, shell: list[str], argv: list[str], given: bytes = b"", audit_log: str = "") -> None:
        text = guarded_command(argv, MARKER, len(given), audit_log=audit_log)
        self.process = subprocess.Popen(
            [*shell, *eval_first(len(text))[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        streams = self.process.stdin, self.process.stdout, self.process.stderr
        assert all(streams)
        self.stdin, self.stdout, self.stderr = cast("tuple[IO[bytes], IO[bytes], IO[bytes]]", streams)
        self.opening = Opening(MARKER)
        self.stdin.write(text + given)
        self.stdin.flush()

    def end(self) -> tuple[int, bytes, bytes]:
        """Status and output, standard input staying open until then."""
        out = self.opening.feed(self.stdout.read())
        err = Opening(MARKER).feed(self.stderr.read())
        return self.process.wait(timeout=20), out, err

    def line(self) -> bytes:
        """The next line the command writes."""
        while True:
            found = self.opening.feed(self.stdout.readline())
            if found:
                return found

    def group(self) -> list[int]:
        """Living processes of the group."""
        return [pid for pid in psutil.pids() if _group(pid) == self.process.pid]

    def close(self) -> None:
        """End what a failed test left."""
        if self.process.poll() is None or self.group():
            os.killpg(self.process.pid, signal.SIGKILL)
        for stream in (self.stdin, self.stdout, self.stderr):
            stream.close()
        self.process.wait()


def _group(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 0 if fields[0] == "Z" else int(fields[2])


class Started(Protocol):
    """Starts a command under the shell of the test."""

    def __call__(self, *argv: str, given: bytes = b"", audit_log: str = "") -> Running: ...


@pytest.fixture
def run(shell: list[str]) -> Iterator[Started]:
    started: list[Running] = []

    def start(*argv: str, given: bytes = b"", audit_log: str = "") -> Running:
        started.append(Running(shell, list(argv), given, audit_log))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.mark.parametrize(
    ("text", "status"),
    [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("exec nothing-here", 127)],
)
def test_the_status_comes_through_and_nothing_is_left(run: Started, text: str, status: int) -> None:
    command = run("sh", "-c", text)
    assert command.end()[0] == status
    assert command.group() == []


def test_output_is_the_command_s_alone(run: Started) -> None:
    assert run("sh", "-c", "echo out; echo err >&2").end() == (0, b"out\n", b"err\n")


@pytest.mark.parametrize("given", [b"", b"one line, no end", b"\0\xff\n" * 13_000])
def test_the_input_is_what_was_given_then_its_end(run: Started, given: bytes) -> None:
    assert run("cat", given=given).end() == (0, given, b"")


def test_a_command_that_leaves_its_input_unread_ends_all_the_same(run: Started) -> None:
    command = run("true", given=b"x" * 60_000)
    assert command.end()[0] == 0


@pytest.mark.parametrize("kind", ["obeys", "ignores TERM", "has a child that ignores TERM"])
def test_the_end_of_the_input_ends_the_command_and_its_children(
    run: Started, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(insidescripts, "GRACE", 3)
    text = {
        "obeys": "echo on; sleep 300",
        "ignores TERM": "trap '' TERM; echo on; sleep 300; sleep 300",
        "has a child that ignores TERM": "(trap '' TERM; echo on; exec sleep 300) & exec sleep 300",
    }[kind]
    command = run("sh", "-c", text)
    assert command.line() == b"on\n"
    assert len(command.group()) > 3
    command.stdin.close()
    until(lambda: not command.group(), timeout=20, what="the group is gone")


def test_the_signals_to_a_command_whose_caller_has_gone_are_lines(
    run: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(insidescripts, "GRACE", 3)
    log = tmp_path / "it's a log"
    command = run("sh", "-c", "trap '' TERM; echo on; sleep 300; sleep 300", audit_log=str(log))
    assert command.line() == b"on\n"
    start = int(Path(f"/proc/{command.process.pid}/stat").read_text().rpartition(")")[2].split()[19])
    command.stdin.close()
    until(lambda: not command.group(), timeout=20, what="the group is gone")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["signal"], line["outcome"]) for line in lines] == [
        ("SIGTERM", "sent"),
        ("SIGKILL", "sending"),
    ]
    for line in lines:
        assert (line["event"], line["by"], line["who"]) == ("signal", "klops", whoami.user())
        assert (line["pid"], line["start"]) == (command.process.pid, start)
        assert line["group"] == command.process.pid
        assert line["boot"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert line["ns"] == Path("/proc/self/ns/pid").stat().st_ino
    assert log.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("log", ["no/such/folder/log", "."])
def test_a_log_that_can_t_be_written_keeps_nothing_from_its_end(
    run: Started, tmp_path: Path, log: str
) -> None:
    command = run("sh", "-c", "echo on; sleep 300", audit_log=str(tmp_path / log))
    assert command.line() == b"on\n"
    command.stdin.close()
    until(lambda: not command.group(), timeout=20, what="the group is gone")


def test_a_command_that_ends_by_itself_leaves_no_line(run: Started, tmp_path: Path) -> None:
    assert run("sh", "-c", "exit 3", audit_log=str(tmp_path / "log")).end()[0] == 3
    assert list(tmp_path.iterdir()) == []


def test_a_command_may_end_in_its_own_way_when_it_is_told_to(run: Started) -> None:
    command = run("sh", "-c", "trap 'echo bye; exit 3' TERM; echo on; while :; do sleep 0.05; done")
    assert command.line() == b"on\n"
    command.stdin.close()
    assert command.line() == b"bye\n"
    assert command.process.wait(timeout=20) == 3
    until(lambda: not command.group(), timeout=20, what="the group is gone")


def test_a_command_that_is_left_in_the_background_lives_on(run: Started) -> None:
    command = run("sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $!")
    rc, out, _ = command.end()
    assert rc == 0
    assert command.group() == [int(out)]


def test_what_is_launched_becomes_the_command_and_says_who_it_is(shell: list[str], tmp_path: Path) -> None:
    file, log = tmp_path / "it's a file", tmp_path / "a log"
    log.write_text("before\n")
    command = ["sh", "-c", 'echo "$A"; echo err >&2; exec sleep 300']
    text = launch_script(command, str(file), log=str(log), env={"A": "it's $1"})
    subprocess.run([*shell, "-c", PREPARE, "sh", "sh", str(log), str(file), "0"], input=text, check=True)
    with subprocess.Popen([*shell, str(file)], start_new_session=True) as process:
        try:
            told = subprocess.run(
                [*shell, "-c", TELL, "sh", str(file), "100"], capture_output=True, check=True
            )
            pid, group, start = map(int, told.stdout.split())
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            assert (pid, group, start) == (process.pid, process.pid, int(stat[19]))
            until(lambda: log.read_text() == "before\nit's $1\nerr\n", what="its output is in the log")
        finally:
            process.kill()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a log"]


def test_what_is_started_too_late_never_becomes_the_command(shell: list[str], tmp_path: Path) -> None:
    file, made = tmp_path / "file", tmp_path / "made"
    text = launch_script(["touch", str(made)], str(file), log=str(tmp_path / "log"))
    # as docker has it when it is busy: the shell has its script open, and then nobody waits any more
    late = [*shell, "-c", f"read -r go; {text.decode()}"]
    file.write_bytes(text)
    with subprocess.Popen(late, stdin=subprocess.PIPE, text=True) as process:
        told = subprocess.run([*shell, "-c", TELL, "sh", str(file), "1"], capture_output=True, check=False)
        assert (told.returncode, told.stderr) == (1, b"it was never begun\n")
        process.communicate("go\n", timeout=20)
        assert process.returncode == 1
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_got_long_makes_room(shell: list[str], tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("x" * 11)
    for longest in ("0", "11", "10"):
        assert not (tmp_path / "log.1").exists()
        prepare = [*shell, "-c", PREPARE, "sh", "sh", str(log), str(tmp_path / "file"), longest]
        subprocess.run(prepare, input=b"", check=True)
    assert (log.stat().st_size, (tmp_path / "log.1").stat().st_size) == (0, 11)


def test_the_newest_logs_stay(shell: list[str], tmp_path: Path) -> None:
    for name in ("exec-1.log", "exec-2.log", "exec-3.log", "launcher.log"):
        (tmp_path / name).touch()
    for folder in (tmp_path, tmp_path / "none"):
        subprocess.run([*shell, "-c", insidescripts.OLD_LOGS, "sh", str(folder), "2", "exec-"], check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exec-2.log", "exec-3.log", "launcher.log"]


def test_a_new_log_is_nobody_else_s(shell: list[str], tmp_path: Path) -> None:
    argv = [*shell, "-c", PREPARE, "sh", "sh", str(tmp_path / "log"), str(tmp_path / "file"), "0"]
    subprocess.run(argv, input=b"text", check=True)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    missing = [*shell, "-c", PREPARE, "sh", "no-such-program", str(tmp_path / "2"), str(tmp_path / "3"), "0"]
    refused = subprocess.run(missing, input=b"", capture_output=True, check=False)
    assert (refused.returncode, refused.stderr) == (127, b"no such program\n")
    assert len(list(tmp_path.iterdir())) == 2
