"""Which files are to be patched with what, and how they stand. Pure."""

from __future__ import annotations

import hashlib
import posixpath
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from klops.agent.errors import VerbError
from klops.agent.packages import diffing
from klops.errors import TaskFailed


@dataclass(frozen=True)
class Wanted:
    """A patch of one file: ``path`` on the control node is a whole file (``copy``), or a unified ``diff``."""

    file: str
    kind: Literal["copy", "diff"]
    path: str
    test: str | None = None


@dataclass(frozen=True)
class Kept:
    """Where the container has pristine copies, by their digests; and its site-packages."""

    folder: str
    site: str
    host: str

    def within(self, file: str) -> str:
        """A file as klops notes it: relative to site-packages."""
        path = posixpath.normpath(posixpath.join(self.site, file))
        return path.removeprefix(f"{self.site}/") if self.site else path

    def command(self, file: str, pristine: str) -> str:
        """What puts the pristine copy of a file in its place."""
        words = ["cp", f"{self.folder}/{pristine}", posixpath.join(self.site, file)]
        return f"klops exec {self.host} -- {shlex.join(words)}"


def standing(wanted: Wanted, data: bytes, there: Mapping[str, Any], kept: Kept) -> str:
    """Why the patch has to be applied; "" where it is. Raises TaskFailed for a file that is neither form."""
    digest, known = hashlib.sha256(data).hexdigest(), there.get("known")
    _check(wanted.file, there, kept)
    if known is None:
        return "it is as its distribution gave it" if there.get("record_sha256") else "it was never patched"
    if known.get("pending"):
        return "an earlier run was cut short"
    if there["sha256"] != known["patched"]:
        return "it is as its distribution gave it"
    return "" if known["patch"] == digest else "the patch is another one by now"


def reverting(file: str, there: Mapping[str, Any], kept: Kept) -> str:
    """Why the file has to be put back; "" where it is pristine and no note is left. Raises TaskFailed."""
    _check(file, there, kept)
    return "" if there.get("known") is None else "it is patched"


def _check(file: str, there: Mapping[str, Any], kept: Kept) -> None:
    """Raises TaskFailed for a file that isn't there, or that somebody has changed by hand."""
    digest, record, known = there["sha256"], there.get("record_sha256"), there.get("known")
    if digest is None:
        text = f"{file} is not in the container's site-packages"
        raise TaskFailed(text, code="no-file", hint="a patch is of a file that a distribution gave")
    if known is not None and known.get("stale"):
        known = None  # it is of another version: what klops made of that is as foreign here as anything
    if known is not None and known.get("pending"):
        return  # only the container knows what it was before
    forms = {record, *((known["pristine"], known["patched"]) if known is not None else ())} - {None}
    if not forms or digest in forms:
        return
    pristine = known["pristine"] if known is not None else record
    patched = known["patched"] if known is not None else "none by klops"
    hint = "put the file back, or install its distribution anew, then repeat it"
    if known is not None:
        command = kept.command(file, known["pristine"])
        hint = f"keep what it is now, if it is of use; {command} puts the pristine one back, then repeat it"
    raise TaskFailed(
        f"{file} has sha256 {digest}, which is neither form that is known (pristine {pristine}, "
        f"patched {patched})",
        code="patch-foreign",
        hint=hint,
    )


def sides(diff: bytes, file: str) -> tuple[str, str] | None:
    """The lines that the hunks for a file have before and after, so that they can be shown as one; None for a
    diff that the container will refuse. ``file``: relative to site-packages."""
    try:
        found = diffing.hunks(diff, file)
    except VerbError:
        return None
    return _text(hunk.old for hunk in found), _text(hunk.new for hunk in found)


def _text(parts: Iterable[Iterable[bytes]]) -> str:
    return b"".join(line + b"\n" for lines in parts for line in lines).decode("utf-8", "replace")
