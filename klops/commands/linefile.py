"""Editing text files line by line, as ``lineinfile`` and ``blockinfile`` do: pure, from bytes to bytes.

A line ends with a newline, which belongs to it; what else is in it (a carriage return, bytes that are no
UTF-8) stays as it is. Regular expressions see bytes, and of every line its end too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_NEWLINE = b"\n"


class BackreferenceError(Exception):
    """The line refers to what its pattern doesn't have; the text says what."""


def lines_of(data: bytes) -> list[bytes]:
    """The lines with their ends.

    >>> lines_of(b"a\\r\\nb")
    [b'a\\r\\n', b'b']
    """
    return [line + _NEWLINE for line in data.split(_NEWLINE)[:-1]] + [
        last for last in data.split(_NEWLINE)[-1:] if last
    ]


def encoded(text: str) -> bytes:
    """Text of a parameter as bytes; what came in as other bytes goes out as them."""
    return text.encode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class Place:
    """Where something new belongs; at most one is given. ``EOF`` and ``BOF`` are the file's ends."""

    after: str | None = None
    before: str | None = None

    @property
    def pattern(self) -> re.Pattern[bytes] | None:
        """What the neighbouring line looks like; None for an end of the file."""
        for given, ends in ((self.after, ("EOF", "BOF")), (self.before, ("BOF",))):
            if given is not None and given not in ends:
                return re.compile(encoded(given))
        return None

    @property
    def at_start(self) -> bool:
        """The beginning of the file."""
        return "BOF" in (self.after, self.before)

    def of_neighbour(self, number: int) -> int:
        """Where in the list of lines it belongs, when line ``number`` is the neighbour."""
        return number + 1 if self.before is None else number


@dataclass(frozen=True)
class LineEdit:
    """One line to be there, and how what stands in for it is known: a pattern, or a text within the line."""

    line: bytes
    pattern: re.Pattern[bytes] | None = None
    text: bytes | None = None
    place: Place = Place()
    backrefs: bool = False
    first: bool = False

    @property
    def searches(self) -> bool:
        """Whether it looks for anything but the line itself."""
        return self.pattern is not None or self.text is not None

    def finds(self, line: bytes) -> bool:
        """Whether ``line`` is one that the edit is about."""
        if self.pattern is not None:
            return self.pattern.search(line) is not None
        if self.text is not None:
            return self.text in line
        return _bare(line) == self.line


def with_line(data: bytes, edit: LineEdit) -> tuple[bytes, str]:
    """``data`` with the line in it, and what was done: ``line added``, ``line replaced`` or "".

    A line that the edit finds is replaced (the last one; ``first``: the first one). Otherwise the line is put
    where its place is, unless it stands in the file already. Raises :class:`BackreferenceError`.
    """
    lines = lines_of(data)
    hits = [number for number, line in enumerate(lines) if edit.searches and edit.finds(line)]
    if hits:
        return _replaced(lines, hits[0] if edit.first else hits[-1], edit)
    neighbour = edit.place.pattern
    same, at = -1, -1
    for number, line in enumerate(lines):
        if _bare(line) == edit.line:
            same = number
        elif neighbour is not None and neighbour.search(line):
            at = edit.place.of_neighbour(number)
            if edit.first:
                break
    if same >= 0:
        return _replaced(lines, same, edit)
    if edit.backrefs:
        # without a match there is nothing that the line's references could mean
        return data, ""
    return _added(lines, at, edit)


def without_lines(data: bytes, edit: LineEdit) -> tuple[bytes, int]:
    """``data`` without the lines that the edit finds, and how many those were."""
    lines = lines_of(data)
    kept = [line for line in lines if not edit.finds(line)]
    return b"".join(kept), len(lines) - len(kept)


def _replaced(lines: list[bytes], number: int, edit: LineEdit) -> tuple[bytes, str]:
    new = edit.line
    if edit.backrefs and edit.pattern is not None and (match := edit.pattern.search(lines[number])):
        try:
            new = match.expand(edit.line)
        except (re.error, IndexError) as error:
            raise BackreferenceError(str(error)) from error
    if not new.endswith(_NEWLINE):
        new += _NEWLINE
    if lines[number] == new:
        return b"".join(lines), ""
    lines[number] = new
    return b"".join(lines), "line replaced"


def _added(lines: list[bytes], at: int, edit: LineEdit) -> tuple[bytes, str]:
    new = edit.line + _NEWLINE
    if edit.place.at_start:
        lines.insert(0, new)
    elif at < 0:
        if lines and not lines[-1].endswith((b"\n", b"\r")):
            lines.append(_NEWLINE)
        lines.append(new)
    elif edit.place.before is None and _bare(lines[min(at, len(lines) - 1)]) == edit.line:
        return b"".join(lines), ""
    else:
        if at == len(lines) and not lines[-1].endswith(_NEWLINE):
            lines[-1] += _NEWLINE
        lines.insert(at, new)
    return b"".join(lines), "line added"


def _bare(line: bytes) -> bytes:
    return line.rstrip(b"\r\n")


@dataclass(frozen=True)
class BlockEdit:
    """A block between two marker lines. An empty ``block`` has none: markers go too."""

    block: bytes
    begin: bytes
    end: bytes
    place: Place = Place()
    append_newline: bool = False
    prepend_newline: bool = False
    #: False: the block is to be gone
    present: bool = True


def with_block(data: bytes, edit: BlockEdit) -> bytes:
    """``data`` with the block: instead of the one with its markers, else where its place is."""
    lines = data.splitlines(keepends=True)
    begin, end = edit.begin + _NEWLINE, edit.end + _NEWLINE
    new: list[bytes] = []
    if edit.present and edit.block:
        block = edit.block if edit.block.endswith(_NEWLINE) else edit.block + _NEWLINE
        new = [begin, *block.splitlines(keepends=True), end]
    first, last = _last(lines, begin.__eq__), _last(lines, end.__eq__)
    if first >= 0 and last >= 0:
        at = min(first, last)
        del lines[at : max(first, last) + 1]
    else:
        at = _place(data, lines, edit.place)
    if at > 0 and not lines[at - 1].endswith(_NEWLINE):
        lines[at - 1] += _NEWLINE
    if edit.present and edit.prepend_newline and at > 0 and lines[at - 1] != _NEWLINE:
        lines.insert(at, _NEWLINE)
        at += 1
    lines[at:at] = new
    behind = at + len(new)
    if edit.present and edit.append_newline and behind < len(lines) and lines[behind] != _NEWLINE:
        lines.insert(behind, _NEWLINE)
    return b"".join(lines)


def _place(data: bytes, lines: list[bytes], place: Place) -> int:
    """Where a new block begins. A pattern with ``(?m)`` is searched in the whole text."""
    pattern = place.pattern
    if pattern is None:
        # insertafter: BOF is the end, as in Ansible, where it is a pattern that nothing matches
        return 0 if place.before == "BOF" else len(lines)
    if pattern.flags & re.MULTILINE:
        match = pattern.search(data)
        number = (
            -1
            if match is None
            else data.count(b"\n", 0, match.end() if place.before is None else match.start())
        )
    else:
        number = _last(lines, lambda line: pattern.search(line) is not None)
    return len(lines) if number < 0 else place.of_neighbour(number)


def _last(lines: list[bytes], wanted: Callable[[bytes], bool]) -> int:
    """The number of the last line that ``wanted`` is true of; -1 for none."""
    return max((number for number, line in enumerate(lines) if wanted(line)), default=-1)
