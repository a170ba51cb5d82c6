"""Installed distributions, by what their metadata says. Reads only."""

from __future__ import annotations

import base64
import binascii
import csv
import hashlib
import io
import json
import os
import re
from typing import Any, Iterable, Iterator, NamedTuple

from klops.agent.packages import names
from klops.agent.packages.sites import Site, below

_DIST_INFO = re.compile(r"(?P<name>.+?)-[^-]+\.dist-info\Z")
_EGG_INFO = re.compile(r"(?P<name>[^-]+)(?:-.+)?\.egg-info\Z")


class Distribution(NamedTuple):
    """``name`` as compared, ``version`` as its metadata has it; ``folder``: of its metadata, ``base``: what
    the paths of its RECORD are relative to. ``record``: sha256 of RECORD (64 hex digits), None without one:
    then nobody knows which files are its own. ``editable``: its code lies elsewhere."""

    name: str
    version: str
    folder: str
    base: str
    record: str | None
    editable: bool

    def identity(self) -> dict[str, Any]:
        """``{"version", "record"}``."""
        return {"version": self.version, "record": self.record}


class File(NamedTuple):
    """A line of RECORD: ``path`` as written there, ``sha256`` in hex digits or None."""

    path: str
    sha256: str | None


def installed(site: Site, wanted: Iterable[str] | None = None) -> dict[str, Distribution]:
    """Distributions by name, those of these names or all. The first on the path counts, as for an import."""
    only = None if wanted is None else {names.normal(name) for name in wanted}
    found: dict[str, Distribution] = {}
    for folder, name in _folders(site):
        if name not in found and (only is None or name in only):
            distribution = _read(folder, name)
            if distribution is not None:
                found[name] = distribution
    return found


def every(site: Site, name: str) -> list[Distribution]:
    """All that is installed under a name: two, when an installer was cut off at replacing one."""
    read = (_read(folder, name) for folder in metadata(site, name))
    return [distribution for distribution in read if distribution is not None]


def _folders(site: Site) -> Iterator[tuple[str, str]]:
    """Metadata (a folder, of old installers a file), and the name as compared."""
    for folder in site.path:
        if folder.endswith(".egg"):
            yield folder + "/EGG-INFO", names.normal(os.path.basename(folder).split("-", 1)[0])
            continue
        try:
            entries = sorted(os.listdir(folder))
        except OSError:
            continue  # a folder of the path that isn't there holds nothing
        for entry in entries:
            name = named(entry)
            if name is not None:
                yield f"{folder}/{entry}", name


def named(entry: str) -> str | None:
    """The distribution whose metadata a folder, or file, of site-packages is by its name; None for none."""
    match = _DIST_INFO.match(entry) or _EGG_INFO.match(entry)
    return None if match is None else names.normal(match.group("name"))


def metadata(site: Site, name: str) -> list[str]:
    """All folders of metadata under a name, whatever an installer that was ended has left in them."""
    return [folder for folder, of in _folders(site) if of == name]


def _read(folder: str, name: str) -> Distribution | None:
    """None when there is no version in it: what an installer left that was ended at its work."""
    old = not folder.endswith(".dist-info")
    file = folder if os.path.isfile(folder) else f"{folder}/{'PKG-INFO' if old else 'METADATA'}"
    version = _header(_bytes(file) or b"", b"version")
    if not version:
        return None
    record = None if old else _bytes(f"{folder}/RECORD")
    base = os.path.dirname(folder)
    return Distribution(
        name,
        version,
        folder,
        base,
        None if record is None else hashlib.sha256(record).hexdigest(),
        _is_source(folder, base) if old else _is_editable(f"{folder}/direct_url.json"),
    )


def _is_source(folder: str, base: str) -> bool:
    """Whether old metadata lies beside its source, as ``setup.py develop`` leaves it."""
    return folder.endswith(".egg-info") and os.path.basename(base) not in ("site-packages", "dist-packages")


def _is_editable(path: str) -> bool:
    try:
        known = json.loads(_bytes(path) or b"{}")
        return bool(known.get("dir_info", {}).get("editable"))
    except (ValueError, AttributeError):
        return False


def _bytes(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _header(metadata: bytes, wanted: bytes) -> str:
    """A header's value, of those before the first empty line."""
    for line in metadata.splitlines():
        if not line.strip():
            break
        key, _, value = line.partition(b":")
        if key.strip().lower() == wanted:
            return value.strip().decode("utf-8", "replace")
    return ""


def files(distribution: Distribution) -> list[File]:
    """What RECORD lists; nothing without one. Raises ``OSError``."""
    if distribution.record is None:
        return []
    with open(f"{distribution.folder}/RECORD", "rb") as file:
        return parse(file.read())


def parse(record: bytes) -> list[File]:
    """The lines of a RECORD."""
    text = io.StringIO(record.decode("utf-8", "surrogateescape"), newline="")
    return [
        File(row[0], _hex(row[1]) if len(row) > 1 else None) for row in csv.reader(text) if row and row[0]
    ]


def _hex(written: str) -> str | None:
    """``sha256=`` and base64 without padding, as hex digits; None for another digest, or none."""
    kind, _, value = written.partition("=")
    if kind != "sha256":
        return None
    try:
        digest = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).hex()
    except (binascii.Error, ValueError):
        return None
    return digest if len(digest) == 64 else None


def place(distribution: Distribution, path: str) -> str:
    """Where a file of RECORD lies."""
    return os.path.normpath(os.path.join(distribution.base, path))


def owner(site: Site, path: str) -> tuple[Distribution, str | None] | None:
    """Of which distribution a file is, and the digest it has in RECORD; None when no RECORD lists it."""
    sought = [folder for folder in site.path if below(path, folder)]
    base = max(sought, key=len, default=None)
    if base is None:
        return None
    inside = path[len(base.rstrip("/")) + 1 :]
    first = names.normal(inside.split("/", 1)[0])
    # mostly the distribution is called as the package is: then one RECORD is read
    for folder, name in sorted(_folders(site), key=lambda one: one[1] != first):
        record = None if os.path.dirname(folder) != base else _bytes(f"{folder}/RECORD")
        if record is None or inside.encode("utf-8", "surrogateescape") not in record:
            continue
        digest = {file.path: file.sha256 for file in parse(record)}
        if inside in digest:
            distribution = _read(folder, name)
            if distribution is not None:
                return distribution, digest[inside]
    return None
