"""One entry of a tree: a file or a symbolic link. Folders are those that entries are in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

FILE = "file"
LINK = "link"
#: The modes that git knows of a file; a link has none of its own.
PLAIN, EXECUTABLE, LINK_MODE = 0o644, 0o755, 0o777
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


class Entry(NamedTuple):
    """``path``: relative, with slashes; any bytes, those that are no UTF-8 as surrogates
    (``surrogateescape``).

    ``mode``: permission bits that git knows, 0o644 or 0o755 for a file. ``size`` in bytes and ``sha256`` (64
    hex digits) are of what lies on the host: of a file its content, of a link the bytes of what it points to.
    """

    path: str
    kind: str
    mode: int
    size: int
    sha256: str

    @property
    def raw(self) -> bytes:
        """The path's bytes."""
        return self.path.encode("utf-8", "surrogateescape")

    def as_json(self) -> list[Any]:
        """As a list, in the order of the fields."""
        return list(self)


def from_json(value: Sequence[Any]) -> Entry:
    """The reverse of :meth:`Entry.as_json`. Raises ValueError for anything else."""
    if not isinstance(value, list) or len(value) != len(Entry._fields):
        raise ValueError(f"no entry: {value!r}")
    path, kind, mode, size, sha256 = value
    if not (isinstance(path, str) and isinstance(sha256, str) and kind in (FILE, LINK)):
        raise ValueError(f"no entry: {value!r}")
    if not (type(mode) is int and type(size) is int and size >= 0 and _SHA256.match(sha256)):
        raise ValueError(f"no entry: {value!r}")
    if mode not in ((LINK_MODE,) if kind == LINK else (PLAIN, EXECUTABLE)):
        raise ValueError(f"mode {mode:o} of {path!r}")
    entry = Entry(path, kind, mode, size, sha256)
    if not path.isascii() and entry.raw.decode("utf-8", "surrogateescape") != path:
        raise ValueError(f"the path {path!r} isn't written as klops does")  # two texts for the same bytes
    return entry
