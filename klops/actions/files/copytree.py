"""``copy`` of a folder of the control node, with all that is in it."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from klops.actions.base import Plan, Seen, Step, View
from klops.actions.files.attributes import Found
from klops.actions.files.content import Source, unknown_validity, wanted_mode, write
from klops.actions.files.filesteps import MakeLink
from klops.actions.files.ownership import NEW_FOLDER_MODE, bits, numbers, reads, steps
from klops.actions.steps import MakeDirectory, owner_text
from klops.commands.listing import Entry, parse
from klops.errors import TaskFailed
from klops.remote.placing import NOTHING
from klops.remote.reads import FilesRead, PathRead, Read

if TYPE_CHECKING:
    from klops.actions.files.copy import CopyParams

_DIGEST = re.compile(r"([0-9a-f]{64}) [ *]\./(.+)")


@dataclass(frozen=True)
class Tree:
    """A folder of the control node; all paths relative to the destination, with ``/``.

    ``files`` by path, ``folders`` in the order in which they are made, ``links`` with their targets.
    """

    src: Path
    files: Mapping[str, Path]
    folders: tuple[str, ...]
    links: Mapping[str, str]

    @property
    def paths(self) -> tuple[str, ...]:
        """Everything in it."""
        return (*self.folders, *self.files, *self.links)


def walk(src: Path, given: str, follow: bool) -> Tree:
    """Look through ``src``; ``follow``: links count as what they lead to.

    ``given`` is how the playbook names it: without a slash at its end the folder itself is copied too.
    """
    top = "" if given.endswith("/") else src.name
    files: dict[str, Path] = {}
    links: dict[str, str] = {}
    folders = [top] if top else []
    for path, entry in _entries(src, top, follow):
        if entry.is_symlink() and not follow:
            links[path] = entry.readlink().as_posix()
        elif entry.is_dir():
            folders.append(path)
        elif entry.is_file():
            files[path] = entry
        elif entry.is_symlink():
            raise TaskFailed(
                f"{entry} leads nowhere",
                hint="remove it, or copy links as links: local_follow: false",
                code="local-file",
            )
    for path in (*files, *folders, *links):
        if not path.isprintable() or "\\" in path:
            raise TaskFailed(f"{path!r} is no name that can be compared on a host", code="local-file")
    return Tree(src, files, tuple(folders), links)


def _entries(
    folder: Path, below: str, follow: bool, above: tuple[Path, ...] = ()
) -> Iterator[tuple[str, Path]]:
    real = folder.resolve()
    if real in above:
        raise TaskFailed(
            f"{folder} leads to a folder that it is in", hint="local_follow: false", code="local-file"
        )
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise TaskFailed(f"{folder}: {error.strerror}", code="local-file") from error
    for entry in entries:
        path = posixpath.join(below, entry.name)
        yield path, entry
        if entry.is_dir() and (follow or not entry.is_symlink()):
            yield from _entries(entry, path, follow, (*above, real))


def wanted_reads(params: CopyParams, tree: Tree) -> tuple[Read, ...]:
    """The destination, and of every path below it what is there; one read, whatever their number."""
    folder = params.dest.rstrip("/") or "/"
    return (
        PathRead("entry", (folder,)),
        FilesRead("below", folder, tree.paths, tuple(tree.files)),
        *reads(params),
    )


def plan(params: CopyParams, tree: Tree, seen: Seen, view: View) -> Plan:
    """Make the folders that are missing, write the files that differ, and set attributes."""
    root = params.dest.rstrip("/") or "/"
    text = seen.replies["below"].text
    entries = {path.removeprefix("./"): entry for path, entry in parse(text).items()}
    digests = {match[2]: match[1] for match in map(_DIGEST.fullmatch, text.splitlines()) if match}
    made: list[Step] = []
    if seen.replies["below"].rc and (tree.files or tree.links or tree.folders):
        if seen.replies["entry"].ok:
            raise TaskFailed(f"{root} is no folder", hint="remove it first: file with state: absent")
        made.append(folder(params, root, seen))
    for path in tree.folders:
        made += _folder(params, posixpath.join(root, path), entries.get(path), seen)
    validity = ""
    for path, local in tree.files.items():
        steps_of_it = _file(
            params, posixpath.join(root, path), local, entries.get(path), digests.get(path, ""), seen
        )
        made += steps_of_it
        validity = validity or (unknown_validity(params, view) if steps_of_it else "")
    for path, target in tree.links.items():
        made += _link(params, posixpath.join(root, path), target, entries.get(path), seen)
    src = str(tree.src) + ("/" if params.src and params.src.endswith("/") else "")
    return Plan(tuple(made), result={"dest": f"{root}/", "src": src}, unknown=validity)


def _folder(params: CopyParams, path: str, entry: Entry | None, seen: Seen) -> list[Step]:
    if entry is not None and entry.type not in ("directory", "link"):
        raise TaskFailed(
            f"{path} is a {entry.type}, not a folder", hint="remove it first: file with state: absent"
        )
    if entry is not None and entry.type == "link":
        return []
    if entry is None:
        return [folder(params, path, seen)]
    return steps(params, params.directory_mode, path, entry, seen, is_dir=True)


def folder(params: CopyParams, path: str, seen: Seen) -> MakeDirectory:
    """The step that makes a folder of the destination."""
    mode = bits(params.directory_mode, None, is_dir=True)
    owner = owner_text(*numbers(params, seen))
    return MakeDirectory(path, NEW_FOLDER_MODE if mode is None else mode, owner)


def _file(
    params: CopyParams, path: str, local: Path, entry: Entry | None, digest: str, seen: Seen
) -> list[Step]:
    if entry is not None and entry.type == "directory":
        raise TaskFailed(f"{path} is a folder, not a file", hint="remove it first: file with state: absent")
    if entry is not None and not params.force:
        return []
    there = entry if entry is not None and entry.type != "link" else None
    try:
        data = local.read_bytes()
    except OSError as error:
        raise TaskFailed(f"{local}: {error.strerror}", code="local-file") from error
    mode = wanted_mode(params, local)
    made: list[Step] = []
    if there is None or hashlib.sha256(data).hexdigest() != digest:
        # what is there was compared by its digest and never read: there is no text for a diff
        had = None if there is None else b"\0"
        known = NOTHING if entry is None else digest if there is not None else ""
        step = write(params, Source(data, "", mode), path, had, Found(entry, entry), known)
        made = [replace(step, report=False)]
    return [*made, *steps(params, mode, path, there, seen, mode_is_set=bool(made))]


def _link(params: CopyParams, path: str, target: str, entry: Entry | None, seen: Seen) -> list[Step]:
    if entry is not None and entry.type == "link" and entry.target == target:
        return []
    if entry is not None and entry.type == "directory":
        raise TaskFailed(f"{path} is a folder, not a link", hint="remove it first: file with state: absent")
    had = "" if entry is None else entry.target or entry.type
    return [MakeLink(path, target, had), *steps(params, None, path, None, seen)]
