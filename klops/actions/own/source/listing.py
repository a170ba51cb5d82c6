"""A release in lines, for a diff. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from klops.source.manifest import Entry

#: Hex digits of a digest that tell two contents apart for a reader.
_SHOWN = 12


def lines(entries: Iterable[Entry], normalised: Sequence[str] = ()) -> str:
    """One line an entry, mode, digest and path; then the files whose line endings are made LF."""
    listed = [f"{entry.mode:04o} {entry.sha256[:_SHOWN]} {shown(entry.path)}\n" for entry in entries]
    return "".join([*listed, *(f"line endings made LF: {shown(path)}\n" for path in normalised)])


def shown(path: str) -> str:
    """A path of any bytes in one line."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def differing(entries: Iterable[Entry], there: Iterable[Entry]) -> list[Entry]:
    """Entries whose content is in no file that is there: those that have to travel, each content once."""
    seen = {entry.sha256 for entry in there}
    found = []
    for entry in entries:
        if entry.sha256 not in seen:
            seen.add(entry.sha256)
            found.append(entry)
    return found


def amount(size: float) -> str:
    """Bytes in the unit that suits them."""
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
