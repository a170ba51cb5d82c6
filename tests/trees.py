"""Trees as a look at a repository gives them, of files that a test writes down."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from klops.source.manifest import FILE, Entry, Release, digest
from klops.source.manifest.release import named, ordered
from klops.source.survey import Source
from klops.source.tree import Report, Request, Tree

COMMIT = "c0ffee0000000000000000000000000000000000"


@dataclass(frozen=True)
class WrittenTree(Tree):
    """A tree whose contents are known; ``asked`` notes which of them were read."""

    data: Mapping[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list, compare=False)

    def contents(self, paths: Collection[str]) -> Iterator[tuple[Entry, Iterator[bytes]]]:
        """In chunks of three bytes, in the order of the entries."""
        for entry in self.release.entries:
            if entry.path in paths:
                self.asked.append(entry.path)
                whole = self.data[entry.path]
                yield entry, (whole[at : at + 3] for at in range(0, len(whole), 3))


def entries_of(files: Mapping[str, str]) -> tuple[Entry, ...]:
    """Entries of plain files."""
    found = (
        Entry(path, FILE, 0o644, len(text.encode()), hashlib.sha256(text.encode()).hexdigest())
        for path, text in files.items()
    )
    return tuple(ordered(found))


def written(files: Mapping[str, str], *, dirty: bool = False, **noted: Any) -> WrittenTree:
    """A tree of text files; ``noted``: fields of its report."""
    entries = entries_of(files)
    summed = digest(entries)
    about = {"commit": COMMIT, "ref": "HEAD", "dirty": dirty}
    release = Release(named(COMMIT, summed, dirty), summed, about, entries)
    fields: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in noted.items()}
    data = {path: text.encode() for path, text in files.items()}
    return WrittenTree(Request(Path("/repo")), release, Report(**fields), cast("Source", None), data=data)
