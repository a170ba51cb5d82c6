"""A release: what it is called, where it comes from, what it consists of."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from klops.source.manifest.entry import Entry, from_json

#: Of the text form; a newer one is refused, not guessed.
SCHEMA = 1
#: Hex digits of commit and digest in a release's name.
NAMED = 12
_NAME = re.compile(r"[0-9a-f]{12}(\.dirty)?-[0-9a-f]{12}(-b[0-9a-f]{8})?\Z")
_MARK = b"klops release 1\n"


class Release(NamedTuple):
    """A source tree as it lies on a host.

    ``name``: ``COMMIT-DIGEST``, ``COMMIT.dirty-DIGEST`` for a snapshot of a changed working tree; ``built``
    ones have ``-bRECIPE`` after it. ``digest``: of the entries alone (:func:`digest`). ``about``: what else
    is known of it: ``commit``, ``ref``, ``author``, ``committed`` (seconds since 1970), ``subject``,
    ``dirty`` (bool), ``normalised`` (how many files got other line endings), ``repo``.
    """

    name: str
    digest: str
    about: dict[str, Any]
    entries: tuple[Entry, ...]

    def dumps(self) -> bytes:
        """As lines of ASCII JSON: a head, then one line an entry."""
        head = {"schema": SCHEMA, "name": self.name, "digest": self.digest, "about": self.about}
        lines = [json.dumps({**head, "entries": len(self.entries)})]
        lines += [json.dumps(entry.as_json()) for entry in self.entries]
        return "\n".join(lines).encode("ascii") + b"\n"


def loads(data: bytes) -> Release:
    """The reverse of :meth:`Release.dumps`.

    Raises ValueError when it is of a newer schema, cut, no manifest at all, has a name that no release has,
    or the digest isn't that of the entries.
    """
    head, *lines = data.decode("ascii").split("\n")
    known = json.loads(head)
    schema = known.get("schema") if isinstance(known, dict) else None
    if schema != SCHEMA:
        raise ValueError(f"a manifest of schema {schema}; this klops knows {SCHEMA}")
    name, about = known.get("name"), known.get("about")
    if not (isinstance(name, str) and is_name(name) and isinstance(about, dict)):
        raise ValueError(f"no release is called {name!r}")
    if lines[-1:] != [""] or len(lines) - 1 != known.get("entries"):
        raise ValueError(f"the manifest has {len(lines) - 1} of {known.get('entries')} entries")
    # all at once, which takes half as long as line by line
    entries = tuple(map(from_json, json.loads(f"[{','.join(lines[:-1])}]")))
    if digest(entries) != known.get("digest"):
        raise ValueError("the manifest's digest is not that of its entries")
    return Release(name, str(known["digest"]), about, entries)


def digest(entries: Iterable[Entry]) -> str:
    """sha256, as 64 hex digits, over kind, mode, size, sha256 and path of each, in the order of paths."""
    summed = hashlib.sha256(_MARK)
    for entry in ordered(entries):
        summed.update(b"%s %o %d %s " % (entry.kind.encode(), entry.mode, entry.size, entry.sha256.encode()))
        summed.update(entry.raw + b"\0")
    return summed.hexdigest()


def ordered(entries: Iterable[Entry]) -> list[Entry]:
    """By the bytes of their paths."""
    return sorted(entries, key=lambda entry: entry.raw)


def is_name(text: str) -> bool:
    """Whether a release may be called so: such a name is safe as that of a folder."""
    return _NAME.match(text) is not None


def named(commit: str, digest_: str, dirty: bool = False) -> str:
    """The name of a release that wasn't built; ``commit`` may be any object id of git."""
    return f"{commit[:NAMED]}{'.dirty' if dirty else ''}-{digest_[:NAMED]}"


def built(name: str, recipe: Sequence[str]) -> str:
    """The name of the release that a build makes of another; ``recipe``: all that decides about it."""
    return f"{name}-b{hashlib.sha256(json.dumps(list(recipe)).encode('ascii')).hexdigest()[:8]}"
