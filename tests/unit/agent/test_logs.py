"""Logs: rotation under a writer, following over it, progress and the first error."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from klops.agent.units import logs


@pytest.mark.parametrize(
    ("text", "line", "percent"),
    [
        ("", "", None),
        ("one\ntwo\n", "two", None),
        (
            "Loading:   0%|   | 0/4\rLoading:  25%|#  | 1/4\rLoading:  50%|## | 2/4",
            "Loading:  50%|## | 2/4",
            50.0,
        ),
        ("\x1b[32mCapturing 100%\x1b[0m\n\n", "Capturing 100%", 100.0),
        ("memory use 900% of 45.5 %\n", "memory use 900% of 45.5 %", 45.5),
        (b"\xff\xfe bytes\n".decode("latin-1"), "\xff\xfe bytes", None),
    ],
)
def test_last_line_and_percentage(tmp_path: Path, text: str, line: str, percent: float | None) -> None:
    path = tmp_path / "log"
    path.write_text(text, encoding="utf-8")
    assert logs.progress(str(path)) == (line, percent)


CHAIN = """W failed to start: ERROR
W Traceback (most recent call last):
W   File x
W OSError: [2] xpu
W
W The above exception was the direct cause of the following exception:
W
W Traceback (most recent call last):
W   File y
W RuntimeError: can't open xpu
W
E Exception: initialization failed
"""
TRACE = "(EngineCore pid=9) ERROR 11-29 [core.py:1]"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("INFO fine\n", ""),
        ("WARNING 11-29 ulimit is low, which can cause OSError\nERROR no model\n", "ERROR no model"),
        (CHAIN, "RuntimeError: can't open xpu"),
        ("INFO a\nERROR first thing\nRuntimeError: second\n", "ERROR first thing"),
        (
            f"{TRACE} Traceback (most recent call last):\n{TRACE}   File x\n{TRACE} ValueError: no model\n",
            "ValueError: no model",
        ),
        (
            "Traceback (most recent call last):\n  File x\n    raise y\nOSError: [28]\nlater\n",
            "OSError: [28]",
        ),
    ],
)
def test_first_error(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "log"
    path.write_text("old ERROR\n" + text)
    assert logs.first_failure(str(path), len("old ERROR\n"), 5)[0] == error


def test_the_lines_that_show_the_first_error_end_with_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    loading = "".join(f"INFO {number}\n" for number in range(9))
    path.write_text(f"{loading}{CHAIN}{loading}ERROR EngineDeadError\n")
    error, lines = logs.first_failure(str(path), 0, 7)
    assert error == "RuntimeError: can't open xpu"
    assert (len(lines), lines[-1], lines[0]) == (7, "W RuntimeError: can't open xpu", "W OSError: [2] xpu")
    path.write_text(loading)
    assert logs.first_failure(str(path), 0, 2) == ("", ["INFO 7", "INFO 8"])


def test_a_follower_gets_every_byte_over_rotations(tmp_path: Path) -> None:
    path = str(tmp_path / "llm.log")
    writer = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    follower = logs.Follower(path, 0)
    got = b""
    for number in range(6):
        os.write(writer, b"line %d\n" % number)
        if number % 2:
            got += follower.new()
            os.write(writer, b"unread %d\n" % number)
            logs.mark(path, 1000.0 + number)
            logs.rotate(path, keep=2)
            assert os.fstat(writer).st_size == 0
    got += follower.new()
    os.close(writer)
    assert got.decode() == "".join(f"line {n}\n" + (f"unread {n}\n" if n % 2 else "") for n in range(6))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [
        "llm.log",
        "llm.log.1",
        "llm.log.1.marks",
        "llm.log.2",
        "llm.log.2.marks",
    ]
    assert (tmp_path / "llm.log.1").stat().st_mode & 0o777 == 0o600


def test_a_rotation_without_room_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "llm.log"
    path.write_bytes(b"x" * 5000)
    (tmp_path / "llm.log.1").write_text("older")
    before = {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            logs.rotate(str(path), 3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == before


def printed(path: str, lines: int, since: float | None = None) -> bytes:
    """What is printed without following."""
    out = bytearray()

    def write(data: bytes) -> bool:
        out.extend(data)
        return True

    logs.print_log(path, lines, since, follow=False, stop=None, write=write)
    return bytes(out)


def test_the_last_lines_and_since(tmp_path: Path) -> None:
    path = str(tmp_path / "llm.log")
    with Path(path).open("wb") as file:
        for number in range(20000):
            file.write(b"line %d\n" % number)
            if number % 1000 == 0:
                file.flush()
                logs.mark(path, 5000.0 + number)
    assert printed(path, 3) == b"line 19997\nline 19998\nline 19999\n"
    assert printed(path, 10**6).count(b"\n") == 20000
    assert printed(path, 0) == b""
    assert printed(path, 3, since=5000.0 + 18500).startswith(b"line 18001\n")
    assert printed(path, 3, since=1.0).count(b"\n") == 20000
    logs.rotate(path, 2)
    assert printed(path, 3, since=5000.0 + 18500).startswith(b"line 18001\n")


def test_a_log_of_more_than_one_piece_is_printed_to_its_end(tmp_path: Path) -> None:
    path = str(tmp_path / "llm.log")
    lines = [b"%07d %s\n" % (number, b"x" * 91) for number in range(90000)]  # 9 MB
    logs.mark(path, 1000.0)
    Path(path).write_bytes(b"".join(lines))
    logs.mark(path, 2000.0)
    assert printed(path, 3, since=1500.0) == b"".join(lines)
    assert printed(path, 80000) == b"".join(lines[-80000:])
    logs.rotate(path, 2)
    Path(path).write_bytes(b"".join(reversed(lines)))
    assert printed(path, 3, since=1500.0) == b"".join([*lines, *reversed(lines)])


def test_what_is_written_while_a_log_is_printed_does_not_make_it_endless(tmp_path: Path) -> None:
    path = tmp_path / "llm.log"
    path.write_bytes(b"x" * (5 << 20))
    pieces = []

    def write(data: bytes) -> bool:
        pieces.append(data)
        with path.open("ab") as file:
            file.write(b"y" * (3 << 20))
        return True

    logs.print_log(str(path), 10, 0.0, follow=False, stop=None, write=write)
    assert len(pieces) == 2
    assert b"".join(pieces).startswith(b"x" * (5 << 20))


def test_nothing_more_is_read_for_nobody(tmp_path: Path) -> None:
    path = tmp_path / "llm.log"
    path.write_bytes(b"x" * (9 << 20))
    pieces: list[bytes] = []
    logs.print_log(str(path), 10, 0.0, follow=True, stop=None, write=pieces.append)
    assert len(pieces) == 1
