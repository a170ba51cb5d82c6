"""What ``file`` does to the kind of a path: folders, files, links, nothing."""

from __future__ import annotations

import posixpath
from dataclasses import replace
from typing import TYPE_CHECKING

from klops.actions.base import Seen, Step
from klops.actions.files.attributes import Found, found
from klops.actions.files.filesteps import MakeLink
from klops.actions.files.ownership import NEW_FOLDER_MODE, bits, numbers, steps
from klops.actions.steps import MakeDirectory, Remove, SetOwner, owner_text
from klops.errors import TaskFailed

if TYPE_CHECKING:
    from klops.actions.files.file import FileParams

_REMOVE = "remove it first, with a task of its own: state: absent"


def absent(path: str, there: Found) -> tuple[Step, ...]:
    """Remove what is there."""
    return (Remove(path, there.own.type),) if there.own else ()


def directory(params: FileParams, path: str, there: Found, seen: Seen) -> list[Step]:
    """Make the folder, if there is none."""
    if there.own is None:
        mode = bits(params.mode, None, is_dir=True)
        owner = owner_text(*numbers(params, seen))
        return [MakeDirectory(path, NEW_FOLDER_MODE if mode is None else mode, owner)]
    if there.own.type != "directory":
        raise TaskFailed(f"{path} is a {there.own.type}, not a folder", hint=_REMOVE)
    return []


def expect_file(path: str, there: Found) -> None:
    """``state: file`` makes nothing. Raises :class:`TaskFailed` unless a file is there."""
    if there.own is None:
        hint = "state: touch makes an empty file; copy and template make one with content"
        values = {"path": path, "state": "absent"}
        raise TaskFailed(f"{path} does not exist", hint=hint, code="absent", values=values)
    if there.state not in ("file", "hard"):
        raise TaskFailed(f"{path} is a {there.own.type}, not a file", hint=_REMOVE)


def link(params: FileParams, there: Found, seen: Seen) -> tuple[list[Step], str | None]:
    """Make the symbolic link, and what it leads to; without ``src`` one that is there stays."""
    path, src = params.path, params.src
    if src is None:
        if there.own is None or there.own.type != "link":
            raise TaskFailed("a new link needs src", hint="src: what it leads to", code="parameters")
        return [], there.own.target
    if not params.force and seen.replies["src"].rc and found(seen.replies["src"]).target is None:
        raise TaskFailed(
            f"{_source(params)} is not there, and the link would lead nowhere",
            hint="force: true makes it all the same",
            code="absent",
        )
    if there.own is None:
        return [MakeLink(path, src)], src
    if there.own.type == "link":
        return ([] if there.own.target == src else [MakeLink(path, src, there.own.target)]), src
    if not params.force:
        raise TaskFailed(f"{path} is a {there.own.type}, not a link", hint=f"{_REMOVE}; or force: true")
    return [MakeLink(path, src, there.own.type, folder=there.own.type == "directory")], src


def hard(params: FileParams, there: Found, seen: Seen) -> tuple[list[Step], str | None]:
    """Make the hard link."""
    path, src = params.path, params.src
    if src is None:
        if there.state != "hard":
            raise TaskFailed(
                "a new hard link needs src", hint="src: the file it is another name of", code="parameters"
            )
        return [], None
    source = found(seen.replies["src"])
    if source.target is None:
        raise TaskFailed(f"{src} is not there", hint="a hard link is a second name of a file", code="absent")
    if there.own is None:
        return [MakeLink(path, src, hard=True)], src
    if seen.replies["same"].ok and there.state == "hard":
        return [], src
    if there.own.type == "directory":
        raise TaskFailed(f"{path} is a folder, not a file", hint=_REMOVE)
    if not params.force and there.own.type != "link":
        raise TaskFailed(f"{path} is another file than {src}", hint=f"{_REMOVE}; or force: true")
    return [MakeLink(path, src, there.own.type, hard=True)], src


def of_the_link(
    params: FileParams, state: str, there: Found, made: list[Step], seen: Seen
) -> tuple[list[Step], tuple[str, ...]]:
    """Attributes of what a link leads to (``follow``), or of the link itself; and warnings."""
    if state == "hard":
        entry = found(seen.replies["src"]).target if made else there.own
        return steps(params, params.mode, params.path, entry, seen), ()
    if not params.follow:
        if made:
            uid, gid = numbers(params, seen)
            return [SetOwner(params.path, uid, gid)] if (uid, gid) != (None, None) else [], ()
        return steps(params, None, params.path, there.own, seen), ()
    target = there.target
    path = seen.replies["real"].text.removesuffix("\n") or params.path
    if made:
        target, path = found(seen.replies["src"]).target if "src" in seen.replies else None, params.path
    if target is None:
        return [], (
            f"{params.path} leads nowhere: nothing there has attributes to set (follow: false for its own)",
        )
    wanted = steps(params, params.mode, path, target, seen, is_dir=target.type == "directory")
    # where a link leads that is only being made, the host can't say yet
    return [replace(s, follows=bool(made)) if isinstance(s, SetOwner) else s for s in wanted], ()


def _source(params: FileParams) -> str:
    return posixpath.join(posixpath.dirname(params.path), params.src or "")
