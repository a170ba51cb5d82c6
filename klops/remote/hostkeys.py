"""known_hosts files: who is trusted, in OpenSSH's format. Pure but for what reads and writes the files."""

from __future__ import annotations

import base64
import binascii
import fnmatch
import functools
import hashlib
import hmac
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

#: Key type -> signature algorithms to ask for so that the host shows a key of that type (RFC 8332 for RSA).
_ALGORITHMS = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256", "ssh-rsa")}


@dataclass(frozen=True)
class HostKey:
    """A public key as a host shows it: its type (``ssh-ed25519``) and its wire form."""

    type: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """``SHA256:...`` as ssh-keygen prints it."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")

    def __str__(self) -> str:
        return f"{self.type} {self.fingerprint}"


@dataclass(frozen=True)
class Entry:
    """One line of a known_hosts file."""

    file: str
    line: int
    marker: str
    patterns: str
    key: HostKey


@dataclass(frozen=True)
class Verdict:
    """What known_hosts says of a key: ``entries`` are those recorded for the host."""

    kind: Literal["known", "unknown", "changed", "revoked"]
    entries: tuple[Entry, ...] = ()


def host_name(address: str, port: int) -> str:
    """A host as known_hosts names it: bare on port 22, else ``[address]:port``."""
    address = address.lower()
    return address if port == 22 else f"[{address}]:{port}"


@functools.lru_cache(maxsize=8)
def parse(text: str, file: str) -> tuple[Entry, ...]:
    """The entries of a file; what can't be read is passed over, as OpenSSH does.

    Kept for the next host of a run: a fleet's file has as many lines as there are hosts.
    """
    entries = []
    for number, raw in enumerate(text.splitlines(), 1):
        words = raw.split()
        if not words or words[0].startswith("#"):
            continue
        marker = words.pop(0) if words[0].startswith("@") else ""
        if len(words) < 3:
            continue
        try:
            blob = base64.b64decode(words[2], validate=True)
        except binascii.Error:
            continue
        entries.append(Entry(file, number, marker, words[0], HostKey(words[1], blob)))
    return tuple(entries)


def load(files: Iterable[str]) -> list[Entry]:
    """The entries of all files that are there."""
    entries: list[Entry] = []
    for file in files:
        path = Path(file)
        if path.is_file():
            entries += parse(path.read_text(encoding="utf-8", errors="replace"), file)
    return entries


def names_host(patterns: str, name: str) -> bool:
    """Whether the first field of a line stands for the host: plain, hashed, wildcards, exceptions."""
    if patterns.startswith("|1|"):
        try:
            salt, digest = (base64.b64decode(part, validate=True) for part in patterns.split("|")[2:4])
        except ValueError:
            return False
        return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)
    if "*" not in patterns and "?" not in patterns and "!" not in patterns:
        return name in patterns.lower().split(",")
    hit = False
    for pattern in patterns.lower().split(","):
        wanted = pattern.removeprefix("!")
        # [ is the start of "[address]:port" here, not of a set of characters
        if fnmatch.fnmatchcase(name, wanted.replace("[", "[[]")):
            if pattern.startswith("!"):
                return False
            hit = True
    return hit


def judge(entries: Iterable[Entry], name: str, key: HostKey) -> Verdict:
    """What the entries say of the key that the host shows."""
    ours = [e for e in entries if names_host(e.patterns, name)]
    if any(e.marker == "@revoked" and e.key == key for e in ours):
        return Verdict("revoked", tuple(e for e in ours if e.marker == "@revoked"))
    plain = tuple(e for e in ours if not e.marker)
    if not plain:
        return Verdict("unknown")
    return Verdict("known" if any(e.key == key for e in plain) else "changed", plain)


def preferred(entries: Iterable[Entry], name: str, offered: Sequence[str]) -> list[str]:
    """``offered`` algorithms with those first that show a key of a type recorded for the host.

    Otherwise a host whose ed25519 key is recorded would look changed because its RSA key was negotiated.
    """
    first: list[str] = []
    for entry in entries:
        if not entry.marker and names_host(entry.patterns, name):
            first += [a for a in _ALGORITHMS.get(entry.key.type, (entry.key.type,)) if a in offered]
    return list(dict.fromkeys([*first, *offered]))


def record(file: str, name: str, key: HostKey, *, replaced: Sequence[Entry] = ()) -> None:
    """Write the key for the host into the file; lines of ``replaced`` in it go. Written beside and renamed.

    A replaced line that stands for other hosts too loses only this one when it names them plainly.
    """
    lines = _without(file, name, replaced)
    _write(file, [*lines, f"{name} {key.type} {base64.b64encode(key.blob).decode()}"])


def remove(file: str, name: str, entries: Sequence[Entry]) -> None:
    """Take those of the entries that are in the file out of it; as in :func:`record`."""
    if any(e.file == file for e in entries):
        _write(file, _without(file, name, entries))


def _without(file: str, name: str, entries: Sequence[Entry]) -> list[str]:
    path = Path(file)
    text = path.read_text(encoding="utf-8", errors="surrogateescape") if path.exists() else ""
    gone = {e.line: e for e in entries if e.file == file}
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        if number not in gone:
            lines.append(line)
            continue
        patterns = gone[number].patterns.split(",")
        others = [p for p in patterns if p.lower() != name]
        if others and others != patterns:
            lines.append(line.replace(gone[number].patterns, ",".join(others), 1))
    return lines


def _write(file: str, lines: Sequence[str]) -> None:
    # a link (of a dotfile collection, say) stays a link
    path = Path(file).resolve()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        beside.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="surrogateescape")
        beside.chmod(mode)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
