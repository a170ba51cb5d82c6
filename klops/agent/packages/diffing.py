"""Unified diffs applied to a file, strictly: each hunk at the one place where all its lines are. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple, Sequence

from klops.agent.errors import VerbError

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NO_NEWLINE = b"\\"


class Hunk(NamedTuple):
    """``number`` from 1; ``start``: the first of the old lines, from 1. Lines have no end but whether the
    last of the old and of the new lacks one."""

    number: int
    start: int
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]
    old_open: bool
    new_open: bool


class Patched(NamedTuple):
    """The content, and where a hunk was not at its line: ``(number, lines further down)``."""

    content: bytes
    offsets: tuple[tuple[int, int], ...]


def apply(content: bytes, diff: bytes, file: str) -> Patched:
    """A file's content with a diff applied. ``file``: its path; of a diff of several files its part counts.

    A file whose lines all end in CRLF keeps them. Raises :class:`VerbError`: ``bad-diff`` for what is none,
    or has nothing for the file; ``patch-conflict`` when a hunk has no place, or more than one.
    """
    crlf = _is_crlf(content)
    found = hunks(diff, file)
    if crlf:
        found = [hunk._replace(old=_bare(hunk.old), new=_bare(hunk.new)) for hunk in found]
        content = content.replace(b"\r\n", b"\n")
    lines = content.split(b"\n")
    open_end = lines[-1] != b""  # the last line has no end
    if not open_end:
        lines.pop()
    made: list[bytes] = []
    offsets = []
    done, shift = 0, 0
    for hunk in found:
        stated = hunk.start - 1 if hunk.old else hunk.start
        at = _place(lines, hunk, stated + shift, done, open_end)
        if at != stated:
            offsets.append((hunk.number, at - stated))
        shift = at - stated
        made += lines[done:at]
        made += hunk.new
        done = at + len(hunk.old)
        if done == len(lines) and (hunk.old or hunk.new):
            open_end = hunk.new_open if hunk.new else False
    made += lines[done:]
    ending = b"\r\n" if crlf else b"\n"
    return Patched(ending.join(made) + (b"" if open_end or not made else ending), tuple(offsets))


def _place(lines: Sequence[bytes], hunk: Hunk, stated: int, done: int, open_end: bool) -> int:
    """The line (from 0) that a hunk begins at: the stated one, or else the only one where it fits."""
    count = len(hunk.old)

    def fits(at: int) -> bool:
        if at < done or at + count > len(lines) or tuple(lines[at : at + count]) != hunk.old:
            return False
        at_end = count > 0 and at + count == len(lines)
        return hunk.old_open == (open_end and at_end)

    if fits(stated):
        return stated
    others = [at for at in range(done, len(lines) - count + 1) if fits(at)] if hunk.old else []
    if len(others) == 1:
        return others[0]
    why = "its lines are nowhere in the file" if not others else f"its lines are in {len(others)} places"
    raise VerbError(
        "patch-conflict",
        f"hunk {hunk.number} (line {hunk.start}) doesn't fit: {why}",
        "make the diff anew against the file as its distribution has it",
    )


def hunks(diff: bytes, file: str) -> list[Hunk]:
    """The hunks of a diff for a file. Raises :class:`VerbError`, code ``bad-diff``."""
    # one whose own lines all end in CRLF, its heads too, was written out that way: no line of it means a CR
    if _is_crlf(diff):
        diff = diff.replace(b"\r\n", b"\n")
    parts: list[tuple[str, list[Hunk]]] = []
    lines = diff.split(b"\n")
    if lines[-1] == b"":
        lines.pop()  # what split makes of the last end of line
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith(b"--- ") and at + 1 < len(lines) and lines[at + 1].startswith(b"+++ "):
            parts.append((_name(lines[at + 1][4:], line[4:]), []))
            at += 2
            continue
        if line.startswith(b"@@ "):
            if not parts:
                raise _bad(at, "a hunk before the names of its file")
            hunk, at = _hunk(lines, at, len(parts[-1][1]) + 1)
            parts[-1][1].append(hunk)
            continue
        if line.startswith((b"GIT binary patch", b"Binary files ")):
            raise _bad(at, "a binary file")
        at += 1  # what git and others write between files
    fitting = [found for name, found in parts if _is(name, file)]
    if len(parts) == 1 and not fitting:
        fitting = [parts[0][1]]  # made of copies with other names
    if len(fitting) != 1 or not fitting[0]:
        named = ", ".join(name for name, _ in parts) or "no file"
        raise VerbError(
            "bad-diff", f"the diff is of {named}, not of {file}", "give a unified diff of that file"
        )
    return fitting[0]


def _is(name: str, file: str) -> bool:
    """Whether a name in a diff means the file: a/pkg/x.py does, and src/pkg/x.py, for pkg/x.py."""
    return name == file or name.endswith("/" + file)


def _name(new: bytes, old: bytes) -> str:
    """The name of a file, without what diff writes after a tab; of a removed one its old name."""
    chosen = old if new.strip() == b"/dev/null" else new
    return chosen.split(b"\t")[0].strip().decode("utf-8", "surrogateescape")


def _hunk(lines: Sequence[bytes], at: int, number: int) -> tuple[Hunk, int]:
    """A hunk, and the line after it."""
    match = _HUNK.match(lines[at])
    if match is None:
        raise _bad(at, "no head of a hunk")
    start = int(match[1])
    left_old, left_new = (1 if count is None else int(count) for count in (match[2], match[4]))
    old: list[bytes] = []
    new: list[bytes] = []
    old_open = new_open = False
    last = b""
    at += 1
    while left_old or left_new or (at < len(lines) and lines[at].startswith(_NO_NEWLINE)):
        if at >= len(lines):
            raise _bad(at - 1, "the hunk ends too soon")
        kind, text = lines[at][:1], lines[at][1:]
        if kind == _NO_NEWLINE:
            old_open = old_open or last in (b" ", b"-")
            new_open = new_open or last in (b" ", b"+")
        elif kind in (b" ", b"") and left_old and left_new:  # mailers take the blank of an empty line
            old.append(text)
            new.append(text)
            left_old, left_new = left_old - 1, left_new - 1
        elif kind == b"-" and left_old:
            old.append(text)
            left_old -= 1
        elif kind == b"+" and left_new:
            new.append(text)
            left_new -= 1
        else:
            raise _bad(at, "not a line of a hunk, or more of them than its head says")
        last = kind or b" "
        at += 1
    return Hunk(number, start, tuple(old), tuple(new), old_open, new_open), at


def _is_crlf(text: bytes) -> bool:
    return b"\n" in text and text.count(b"\r\n") == text.count(b"\n")


def _bare(lines: Sequence[bytes]) -> tuple[bytes, ...]:
    return tuple(line[:-1] if line.endswith(b"\r") else line for line in lines)


def _bad(at: int, why: str) -> VerbError:
    return VerbError(
        "bad-diff", f"line {at + 1} of the diff: {why}", "give a unified diff (diff -u, git diff)"
    )
