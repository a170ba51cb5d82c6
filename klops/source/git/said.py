"""Readers of what git prints. Paths are bytes to git: here text, what is no UTF-8 as surrogates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from klops.errors import TaskFailed

#: Modes of git's tree entries.
LINK, SUBMODULE = 0o120000, 0o160000
#: Parts of what a damaged or partial repository makes git say.
_LACKING = re.compile(
    r"unable to read|missing (?:blob|tree|commit|object)|bad object|could not fetch|bad tree|invalid object"
    r"|not a valid object|could not read|cannot read|promisor|unable to find|corrupt|error reading commit"
)
#: The end of the line of an author or committer: seconds since 1970, and the time zone. Other programs than
#: git may have left out the address before it.
_WHEN = re.compile(rb"(-?[0-9]+)(?: +[-+]?[0-9]+)?\s*\Z")
_OWNER = re.compile(r"safe\.directory (.+)$", re.MULTILINE)


class Listed(NamedTuple):
    """An entry of a tree: ``mode`` with its type, ``oid`` of its object."""

    mode: int
    oid: str
    path: str


@dataclass(frozen=True)
class Commit:
    """``author``: name and address; ``committed``: seconds since 1970; ``subject``: first paragraph of the
    message.
    """

    oid: str
    tree: str
    author: str
    committed: int
    subject: str


@dataclass(frozen=True)
class Status:
    """Paths that differ from HEAD. ``inside``: submodules with changes that no commit of theirs has, and
    untracked folders that are repositories of their own.
    """

    modified: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.modified or self.untracked)


def text(raw: bytes) -> str:
    """Of a path."""
    return raw.decode("utf-8", "surrogateescape")


def raw(path: str) -> bytes:
    """The bytes of a path."""
    return path.encode("utf-8", "surrogateescape")


def listing(out: bytes) -> tuple[Listed, ...]:
    """Of ``ls-tree -r -z``."""
    found = []
    for line in out.split(b"\0")[:-1]:
        head, _, path = line.partition(b"\t")
        mode, _, oid = head.decode("ascii").split(" ")
        found.append(Listed(int(mode, 8), oid, text(path)))
    return tuple(found)


def attributes(out: bytes) -> dict[str, dict[str, str]]:
    """Of ``check-attr -z``: name -> value by path, without those that aren't specified."""
    fields = text(out).split("\0")
    found: dict[str, dict[str, str]] = {}
    for path, name, value in zip(fields[0::3], fields[1::3], fields[2::3], strict=False):
        if value != "unspecified":
            found.setdefault(path, {})[name] = value
    return found


def status(out: bytes) -> Status:
    """Of ``status --porcelain=v2 -z --no-renames``."""
    modified, untracked, inside = [], [], []
    for line in text(out).split("\0")[:-1]:
        if line.startswith("# "):
            continue  # a header, about branch or stash
        if line.startswith("? "):
            untracked.append(line[2:])
            if line.endswith("/"):
                inside.append(line[2:-1])
            continue
        # "1 XY SUB mH mI mW hH hI PATH", and "u" with a mode and an id more
        fields = line.split(" ", 10 if line.startswith("u ") else 8)
        modified.append(fields[-1])
        if fields[2][2] == "M" or fields[2][3] == "U":
            inside.append(fields[-1])
    return Status(tuple(modified), tuple(untracked), tuple(inside))


def objects(out: bytes) -> Iterator[tuple[str, str, bytes] | None]:
    """Of ``cat-file --batch``: id, type and content of each; None for one that isn't there, or isn't one."""
    at = 0
    while at < len(out):
        end = out.index(b"\n", at)
        fields = out[at:end].decode("utf-8", "replace").rsplit(" ", 2)
        at = end + 1
        if len(fields) < 3 or not fields[2].isdecimal():
            yield None
            continue
        size = int(fields[2])
        yield fields[0], fields[1], out[at : at + size]
        at += size + 1


def commit(oid: str, content: bytes) -> Commit:
    """Of a commit's object. Raises TaskFailed (``object-missing``) for a damaged one."""
    head, _, message = content.partition(b"\n\n")
    known: dict[bytes, bytes] = {}
    for line in head.split(b"\n"):
        name, _, value = line.partition(b" ")
        known.setdefault(name, value)
    encoding = known.get(b"encoding", b"utf-8").decode("ascii", "replace")
    committed = _WHEN.search(known.get(b"committer", b""))
    if committed is None or b"tree" not in known:
        hint = "git fsck tells what else is: ship another commit, or a clone that has it whole"
        raise TaskFailed(f"commit {oid[:12]} is damaged", hint=hint, code="object-missing")
    return Commit(
        oid=oid,
        tree=known[b"tree"].decode("ascii"),
        author=_decoded(_WHEN.sub(b"", known.get(b"author", b"")).rstrip(), encoding),
        committed=int(committed[1]),
        subject=" ".join(_decoded(message, encoding).strip("\n").split("\n\n")[0].split()),
    )


def packed_tags(out: bytes) -> bytes:
    """Of :func:`klops.commands.git.tags`: the same as a file ``packed-refs``."""
    lines = [b"# pack-refs with: peeled fully-peeled sorted"]
    for line in out.splitlines():
        oid, name, peeled = line.split(b" ", 2)
        lines.append(oid + b" " + name)
        if peeled:
            lines.append(b"^" + peeled)
    return b"\n".join(lines) + b"\n"


def submodule_names(out: bytes) -> dict[str, str]:
    """Of ``config -z --list`` over a .gitmodules: names by path."""
    found = {}
    for setting in text(out).split("\0")[:-1]:
        key, _, value = setting.partition("\n")
        section, _, rest = key.partition(".")
        name, _, last = rest.rpartition(".")
        if section == "submodule" and last == "path" and name:
            found[value.rstrip("/")] = name
    return found


def refusal(said: str) -> tuple[str, str]:
    """Code and hint for what git says when it fails; ("", "") for what has none of its own."""
    if "dubious ownership" in said:
        owner = _OWNER.search(said)
        fix = f"git config --global --add safe.directory {owner[1] if owner else 'PATH'}"
        return "dubious-ownership", f"the repository belongs to another user; if you trust it: {fix}"
    if "not a git repository" in said:
        return "not-a-repository", "source.repo names the top folder of a clone on this machine"
    if _LACKING.search(said):
        fix = "git fetch --refetch, git fetch --unshallow, or clone it whole"
        return "object-missing", f"the clone is partial, shallow or damaged: {fix}"
    return "", ""


def _decoded(raw: bytes, encoding: str) -> str:
    try:
        return raw.decode(encoding, "replace")
    except LookupError:
        return raw.decode("utf-8", "replace")
