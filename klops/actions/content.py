"""A file of known content on the host: what copy and template share."""

from __future__ import annotations

import hashlib
import posixpath
from typing import Any

from pydantic import field_validator

from klops.actions.base import Plan, Seen, Step
from klops.actions.ownership import Owned, reads, steps
from klops.actions.steps import WriteFile, as_text
from klops.commands.listing import Entry, parse
from klops.errors import TaskFailed
from klops.remote.reads import DigestRead, FileRead, ListRead, Read

#: bytes of a file up to which a diff is shown
DIFF_LIMIT = 64 * 1024
#: mode of a new file when none is given
NEW_FILE_MODE = 0o644


class DestinationParams(Owned):
    """A file on the host; ``dest`` ending in ``/`` is a folder, which gets the file under its own name."""

    dest: str

    @field_validator("dest")
    @classmethod
    def _absolute(cls, dest: str) -> str:
        if not dest.startswith("/"):
            raise ValueError(f"{dest!r} is not an absolute path")
        return dest


def destination(dest: str, src: str | None) -> str:
    """The whole path of the file."""
    if not dest.endswith("/"):
        return dest
    if not src:
        raise TaskFailed(
            f"{dest} is a folder, and content has no name of its own", hint="name the file in dest"
        )
    return dest + posixpath.basename(src)


def content_reads(params: DestinationParams, path: str) -> tuple[Read, ...]:
    """What is there: kind and mode, digest, and enough of the content for a diff."""
    return (
        ListRead("entry", (path,), follow=True),
        DigestRead("digest", path),
        FileRead("content", path, DIFF_LIMIT + 1),
        *reads(params),
    )


def content_plan(params: DestinationParams, path: str, content: bytes, seen: Seen) -> Plan:
    """Steps to make ``path`` hold ``content``, with the attributes that are wanted."""
    entry = parse(seen.replies["entry"].text).get(path)
    if entry is not None and entry.type == "directory":
        raise TaskFailed(
            f"{path} is a folder", hint="write the whole name of the file, or end dest with a slash"
        )
    wanted = hashlib.sha256(content).hexdigest()
    made: list[Step] = []
    if entry is None or seen.replies["digest"].text.strip() != wanted:
        made = [_write(params, path, content, entry, seen)]
    attributes = steps(params, path, entry, seen, mode_is_set=bool(made))
    result: dict[str, Any] = {"dest": path, "checksum": wanted, "size": len(content)}
    return Plan((*made, *attributes), result=result)


def _write(
    params: DestinationParams, path: str, content: bytes, entry: Entry | None, seen: Seen
) -> WriteFile:
    mode = params.mode if params.mode is not None else (entry.mode if entry else NEW_FILE_MODE)
    had = seen.replies["content"]
    before = "" if entry is None else as_text(had.stdout) if len(had.stdout) <= DIFF_LIMIT else None
    after = as_text(content) if len(content) <= DIFF_LIMIT else None
    if before is None or after is None:
        before = after = None
    return WriteFile(path, content, mode, before, after, (entry.uid, entry.gid) if entry else None)
