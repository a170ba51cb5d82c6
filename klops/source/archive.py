"""What ``git archive`` says a tree consists of, and the content of each part of it as committed.

Its tar is read here: git writes a small part of that format (ustar, with pax headers for what is too long),
and a reader of all of it takes longer than git and everything else that is done with the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, NamedTuple

from klops.commands import git as calls
from klops.errors import TaskFailed
from klops.source.git.isolated import Isolated

#: Attributes over those of the tree: the archive then has the line endings of the commit.
AS_COMMITTED = "* !eol\n"
#: Bytes of a file that are read at once.
CHUNK = 1 << 20
#: Bytes that everything in a tar is a multiple of.
_BLOCK = 512
_END = bytes(_BLOCK)
#: Types of headers: about what follows all, about the next one, a link, a file (either).
_GLOBAL, _EXTENDED, _LINK, _FILE = b"g", b"x", b"2", (b"0", b"\0")


class ArchiveCut(TaskFailed):
    """The archive ended before its end."""

    code = "git-failed"


class Content:
    """Of a file, read once from its beginning to its end."""

    def __init__(self, out: IO[bytes], size: int) -> None:
        self._out = out
        self._left = size
        self._padding = -size % _BLOCK

    def read(self, most: int) -> bytes:
        """Up to so many bytes, b"" at the end. Raises ArchiveCut when it ends before that."""
        data = _exactly(self._out, min(most, self._left))
        self._left -= len(data)
        return data

    def end(self) -> None:
        """Pass over what wasn't read."""
        while self.read(CHUNK):
            pass
        _exactly(self._out, self._padding)


class Member(NamedTuple):
    """``path`` within the repository. ``file`` is of a file only, and is read before the next member is asked
    for.

    ``target``: what a link points to. Neither: a folder, or the place of a submodule.
    """

    path: str
    size: int = 0
    file: Content | None = None
    target: str | None = None


def members(git: Isolated, treeish: str, paths: Sequence[str] = ()) -> Iterator[Member]:
    """In the order of the bytes of their paths, but for folders. ``paths``: only these, and what is below
    them.

    What export-ignore names isn't there. Placeholders of export-subst are filled in when ``treeish`` is a
    commit.
    """
    cut: ArchiveCut | None = None
    with git.stream(calls.archive(treeish, paths)) as out:
        try:
            yield from _members(out)
        except ArchiveCut as error:
            # what git says of it, on the way out, is the better reason
            cut = error
    if cut is not None:
        raise cut


def _members(out: IO[bytes]) -> Iterator[Member]:
    more: dict[bytes, bytes] = {}
    while (header := _exactly(out, _BLOCK)) != _END:
        kind = header[156:157]
        size = int(more[b"size"]) if b"size" in more else int(header[124:135], 8)
        content = Content(out, size)
        if kind in (_GLOBAL, _EXTENDED):
            said = _records(content.read(size))
            content.end()
            if kind == _EXTENDED:
                more = said
            continue
        path = more.get(b"path") or _path(header)
        if kind in _FILE:
            yield Member(_text(path), size, content)
        elif kind == _LINK:
            yield Member(_text(path), target=_text(more.get(b"linkpath") or _until_zero(header[157:257])))
        else:
            yield Member(_text(path.rstrip(b"/")))
        content.end()
        more = {}


def _path(header: bytes) -> bytes:
    name, prefix = _until_zero(header[:100]), _until_zero(header[345:500])
    return prefix + b"/" + name if prefix else name


def _records(data: bytes) -> dict[bytes, bytes]:
    """Of a pax header: ``LENGTH KEY=VALUE`` and a line end, the length being that of all of it."""
    found, at = {}, 0
    while at < len(data):
        length = int(data[at : data.index(b" ", at)])
        key, _, value = data[at : at + length - 1].partition(b" ")[2].partition(b"=")
        found[key] = value
        at += length
    return found


def _exactly(out: IO[bytes], size: int) -> bytes:
    data = out.read(size)
    if len(data) != size:
        raise ArchiveCut("git archive ended early", hint="run it again")
    return data


def _until_zero(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
