"""``copy`` with ``remote_src``: from one place of the host to another."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from klops.actions.base import Plan, Seen, Step
from klops.actions.files.attributes import found
from klops.actions.files.content import destinations
from klops.actions.files.filesteps import CopyOnHost
from klops.actions.files.ownership import NEW_FILE_MODE, bits, reads, steps
from klops.errors import TaskFailed
from klops.remote.reads import ChecksumsRead, PathRead, Read, SameContentRead

if TYPE_CHECKING:
    from klops.actions.files.copy import CopyParams


def wanted_reads(params: CopyParams, src: str) -> tuple[Read, ...]:
    """Source and destination, and whether they are equal."""
    asked: list[Read] = [PathRead("src", (src,)), ChecksumsRead("sums", src)]
    for prefix, path in zip(("", "in_"), destinations(params.dest, posixpath.basename(src)), strict=False):
        asked += [PathRead(f"{prefix}entry", (path,)), SameContentRead(f"{prefix}same", src, path)]
    return (*asked, *reads(params))


def plan(params: CopyParams, src: str, seen: Seen) -> Plan:
    """Copy when the contents differ, then the attributes."""
    source = found(seen.replies["src"])
    if source.target is None:
        raise TaskFailed(f"Source {src} not found on the host", code="absent")
    if source.is_dir:
        hint = "use command: cp -a, with creates; or archive and unarchive"
        raise TaskFailed(f"{src} is a folder: remote_src copies files only", hint=hint, code="not-supported")
    if params.validator is not None or params.follow:
        hint = "leave it out; write the file with template or copy without remote_src"
        raise TaskFailed("remote_src goes with neither validate nor follow", hint=hint, code="not-supported")
    paths = destinations(params.dest, posixpath.basename(src))
    path, prefix = paths[0], ""
    there = found(seen.replies["entry"])
    if there.is_dir and len(paths) == 2:
        path, prefix = paths[1], "in_"
        there = found(seen.replies["in_entry"])
    if there.is_dir:
        raise TaskFailed(f"{path} is a folder", hint="write the whole name of the file")
    result = {"dest": path, "src": src}
    if there.own is not None and not params.force:
        return Plan(result={**result, "msg": "file already exists"})
    entry = there.own if there.own is not None and there.own.type == "file" else None
    mode = source.target.mode if params.mode == "preserve" else params.mode
    made: list[Step] = []
    if entry is None or not seen.replies[f"{prefix}same"].ok:
        # as Ansible: what replaces a file has the source's permissions and belongs to whoever copies
        new = bits(mode, source.target, is_dir=False)
        if new is None:
            new = NEW_FILE_MODE if there.own is None else source.target.mode
        made = [CopyOnHost(src, path, new, params.backup and there.own is not None)]
        entry = None
    attributes = steps(params, mode, path, entry, seen, mode_is_set=bool(made))
    sums = dict(zip(("checksum", "md5sum"), seen.replies["sums"].text.split(), strict=False))
    return Plan((*made, *attributes), result={**result, **sums, **there.values})
