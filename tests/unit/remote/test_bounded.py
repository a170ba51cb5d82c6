"""Reads with a deadline of their own, in real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from klops.remote.bounded import LATE, BoundedRead
from klops.remote.reads import FileRead, FirstRead, Read
from klops.remote.script import batch_replies, batch_script

SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]


class Says(Read):
    """A script as a test writes it."""

    def __init__(self, script: str) -> None:
        super().__init__("says")
        object.__setattr__(self, "text", script)

    @property
    def script(self) -> str:
        return str(vars(self)["text"])


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> list[str]:
    return ["busybox", "sh"] if request.param == "busybox" else [request.param]


def run(shell: list[str], read: Read) -> tuple[int, str, str]:
    done = subprocess.run(
        [*shell, "-c", read.script], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    return done.returncode, done.stdout, done.stderr


def test_an_answer_in_time_is_what_it_would_be_without(shell: list[str]) -> None:
    said = Says("echo 'a  b'; echo; echo warned >&2; echo \"it's\"; exit 3")
    assert run(shell, BoundedRead("k", said, 10)) == (3, "a  b\n\nit's\n", "warned\n")


def test_what_it_says_on_one_stream_alone(shell: list[str]) -> None:
    assert run(shell, BoundedRead("k", Says("echo 0"), 10)) == (0, "0\n", "")
    assert run(shell, BoundedRead("k", Says("echo no >&2; exit 1"), 10)) == (1, "", "no\n")


def test_a_file_that_is_not_there(shell: list[str], tmp_path: Path) -> None:
    assert run(shell, BoundedRead("k", FileRead("f", str(tmp_path / "none")), 10))[0] == 44


def test_the_first_line_of_several_tries_stays_the_first(shell: list[str]) -> None:
    first = FirstRead("k", (Says("echo loud >&2; echo answer"),))
    assert run(shell, BoundedRead("k", first, 10)) == (0, "says\nanswer\n", "loud\n")


def test_what_hangs_is_ended_and_says_so(shell: list[str], tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    began = time.monotonic()
    rc, out, error = run(shell, BoundedRead("k", Says(f"echo $$ >{mark}; trap '' TERM; exec sleep 60"), 1))
    assert (rc, out, error) == (LATE, "", "no answer within 1 s\n")
    assert time.monotonic() - began < 30
    while _alive(int(mark.read_text())):  # it was sent its end before that was said
        assert time.monotonic() - began < 30


def test_the_reads_after_one_whose_end_nobody_can_bring_about_are_answered(tmp_path: Path) -> None:
    """A process out of reach, as one that sits in the driver is: it left the group, and holds what it got."""
    mark = tmp_path / "pid"
    stuck = Says(f"setsid sh -c 'echo $$ >{mark}; exec sleep 60'; true")
    script = batch_script([[BoundedRead("k", stuck, 1).script, "echo after"]], "m")
    done = subprocess.run(["sh"], input=script, capture_output=True, check=True, timeout=30)
    try:
        out, error = (text[text.index(b"\n@@m B") + 1 :] for text in (done.stdout, done.stderr))
        out, error = out.partition(b"\n")[2], error.partition(b"\n")[2]
        late, after = batch_replies(b"\n" + out, b"\n" + error, "m", 2)
        assert (late.rc, late.error_text) == (LATE, "no answer within 1 s\n")
        assert (after.rc, after.text) == (0, "after\n")
        assert _alive(int(mark.read_text()))  # else this has shown nothing
    finally:
        os.kill(int(mark.read_text()), 9)


def test_it_is_as_slow_as_it_is_allowed_to_be_and_looks_where_the_other_looks() -> None:
    read = BoundedRead("k", FileRead("f", "/a"), 5)
    assert (read.slow, read.looks, read.engine) == (True, ("/a",), ())


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
