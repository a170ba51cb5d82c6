"""Log files of units: rotation, the last line, progress, errors, and following over a rotation.

A unit writes straight to its file (O_APPEND), so that it lives on when the supervisor dies; rotation
therefore copies the file away and cuts it.
"""

from __future__ import annotations

import os
import re
from typing import Any

_PERCENT = re.compile(r"(?<![\d.])(\d{1,3}(?:\.\d+)?)\s?%")
#: Lines of a lower level may speak of errors ("... can cause errors like ...") without being one.
_HARMLESS = re.compile(r"\b(?:DEBUG|INFO|WARNING)\b")
_ERROR = re.compile(r"\b(?:ERROR|CRITICAL|Error|error:|\w+Error\b|Exception|\w+Exception\b|Traceback)")
_CHAINED = ("The above exception was the direct cause", "During handling of the above exception")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
#: Bytes at the end of a log that are looked at for its last line.
_TAIL = 16 * 1024
#: Bytes of one generation's log that are searched for its first error.
_SEARCHED = 4 * 1024 * 1024


def read_from(path: str, offset: int, limit: int) -> bytes:
    """At most ``limit`` bytes from an offset; b"" when there is no file or nothing there."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        parts = []
        while limit > 0:
            part = os.pread(fd, min(limit, 1 << 20), offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            limit -= len(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def size(path: str) -> int:
    """Bytes in a file, 0 when there is none."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def lines_of(data: bytes) -> list[str]:
    """Lines without colour; of a line redrawn by a carriage return, as progress bars do, the last form."""
    found = []
    for raw in data.decode("utf-8", "replace").split("\n"):
        shown = [part for part in _COLOUR.sub("", raw).split("\r") if part.strip()]
        if shown:
            found.append(shown[-1].rstrip())
    return found


def tail_lines(path: str, count: int, since: int = 0) -> list[str]:
    """The last lines of a log that stand behind an offset."""
    begin = max(since, size(path) - max(_TAIL, 200 * count))
    return lines_of(read_from(path, begin, 1 << 20))[-count:]


def progress(path: str, since: int = 0) -> tuple[str, float | None]:
    """The last line, and the percentage it shows if it shows one (0 to 100)."""
    last = tail_lines(path, 1, since)
    if not last:
        return "", None
    line = last[0][:400]
    found = [float(match) for match in _PERCENT.findall(line)]
    return line, next((value for value in reversed(found) if value <= 100.0), None)


def first_failure(path: str, since: int, count: int) -> tuple[str, list[str]]:
    """What went wrong, as the log says it, and at most ``count`` lines that show it; the last says it.

    It is the end of the first traceback that comes with the first error; without a traceback that error's own
    line; without an error "", and the last lines. A server's log goes on for long after its first error, with
    those of all who waited for the one that failed.
    """
    lines = lines_of(read_from(path, since, _SEARCHED))
    for number, line in enumerate(lines):
        if _ERROR.search(line) and not _HARMLESS.search(line):
            # "worker failed to start", and what it failed of in the lines after it
            for begin in range(number, min(number + 3, len(lines))):
                if "Traceback (" in lines[begin]:
                    text, place = _raised(lines, begin)
                    return (text or line).strip()[:400], lines[max(0, place + 1 - count) : place + 1]
            return line.strip()[:400], lines[max(0, number + 1 - count) : number + 1]
    return "", lines[-count:]


def _raised(lines: list[str], begin: int) -> tuple[str, int]:
    """The exception at the end of a traceback, or of the last of a chain of them, and its line's number."""
    prefix = lines[begin][: lines[begin].index("Traceback (")]
    raised, place = "", begin
    for number in range(begin + 1, len(lines)):
        if not lines[number].startswith(prefix.rstrip()):
            break
        text = lines[number][len(prefix) :]
        if text.startswith(_CHAINED):
            raised = ""
        elif raised and text.strip() and not text.startswith("Traceback ("):
            break
        elif text[:1].strip() and not text.startswith("Traceback ("):
            raised, place = (raised, place) if raised else (text, number)
    return raised, place


def marks_path(path: str) -> str:
    """Where it is noted how long a log was at which time."""
    return path + ".marks"


def mark(path: str, clock: float) -> None:
    """Note how long the log is now: lines of a server carry no time that could be relied on."""
    fd = os.open(marks_path(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, b"%d %d\n" % (int(clock), size(path)))
    finally:
        os.close(fd)


def offset_at(path: str, clock: float) -> int:
    """Where the log stood at a time (epoch seconds), a few seconds early rather than late."""
    offset = 0
    for line in read_from(marks_path(path), 0, 1 << 24).splitlines():
        at, _, place = line.partition(b" ")
        if not place.isdigit() or float(at) > clock:
            break
        offset = int(place)
    return offset


def rotate(path: str, keep: int) -> None:
    """Copy the log to ``.1`` (older ones move up, the oldest goes) and cut it.

    Raises ``OSError`` when there is no room for the copy; everything is as it was then.
    """
    beside = path + ".1.new"
    source = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        _copy(source, beside)
        for number in range(keep - 1, 0, -1):
            for old in (f"{path}.{number}", marks_path(f"{path}.{number}")):
                if os.path.exists(old):
                    os.replace(old, old.replace(f"{path}.{number}", f"{path}.{number + 1}", 1))
        os.replace(beside, path + ".1")
        # between the last read and here a line may be lost: the price of a unit that needs no living
        # supervisor
        os.ftruncate(source, 0)
    finally:
        os.close(source)
    if os.path.exists(marks_path(path)):
        os.replace(marks_path(path), marks_path(path + ".1"))


def _copy(source: int, target: str) -> None:
    try:
        with open(target, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            while True:
                part = os.read(source, 1 << 20)
                if not part:
                    break
                file.write(part)
    except OSError:
        if os.path.exists(target):
            os.unlink(target)
        raise


class Follower:
    """Reads what is new in a log, over rotations."""

    def __init__(self, path: str, offset: int) -> None:
        self.path = path
        self.offset = offset
        self._rotated = self._older()

    def _older(self) -> int:
        try:
            return os.stat(self.path + ".1").st_ino
        except FileNotFoundError:
            return 0

    def new(self) -> bytes:
        """What came since the last call, at most 4 MiB."""
        data = b""
        older = self._older()
        if older != self._rotated:
            self._rotated = older
            data = read_from(self.path + ".1", self.offset, size(self.path + ".1"))
            self.offset = 0
        more = read_from(self.path, self.offset, 1 << 22)
        self.offset += len(more)
        return data + more


def print_log(path: str, lines: int, since: float | None, follow: bool, stop: Any, write: Any) -> None:
    """Raw bytes of a log: the last lines, or from a time on, up to what it holds when this begins.

    With ``follow`` also what comes then, until ``stop(seconds)`` is true.
    ``write`` takes bytes and says whether somebody read them; nothing is followed for nobody.
    """
    end = size(path)
    if since is not None:
        begin = offset_at(path, since)
        older = marks_path(path + ".1")
        if begin == 0 and os.path.exists(older):
            write(read_from(path + ".1", offset_at(path + ".1", since), 1 << 28))
    else:
        begin = end
        wanted = lines + 1
        window = 65536
        while begin > 0:
            begin = max(0, end - window)
            if read_from(path, begin, end - begin).count(b"\n") >= wanted:
                break
            window *= 4
        data = read_from(path, begin, end - begin).splitlines(keepends=True)
        begin = end - sum(len(line) for line in data[len(data) - lines :]) if lines < len(data) else begin
    follower = Follower(path, begin)
    left, read = end - begin, True
    while left > 0 and read:
        piece = follower.new()
        if not piece:
            break  # it was cut meanwhile
        left -= len(piece)
        read = write(piece)
    follow = follow and read
    while follow:
        ended = stop(0.25)
        follow = write(follower.new()) and not ended
