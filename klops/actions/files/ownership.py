"""Mode, owner and group of a path: parameters that file modules share, and the steps they need."""

from __future__ import annotations

from collections.abc import Mapping

from klops.actions.base import Params, Seen, Step
from klops.actions.fields import Mode
from klops.actions.files.modes import SymbolicMode
from klops.actions.steps import SetMode, SetOwner
from klops.commands.listing import Entry
from klops.errors import TaskFailed
from klops.remote.reads import CommandRead, NamesRead, Read

#: modes of what is made when none is given
NEW_FILE_MODE = 0o644
NEW_FOLDER_MODE = 0o755

#: parameters of every file module that klops refuses
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        ("seuser", "serole", "setype", "selevel"),
        "klops sets no SELinux contexts: use command: chcon, or semanage and restorecon",
    ),
    **dict.fromkeys(("attributes", "attr"), "klops sets no attributes of file systems: use command: chattr"),
    "unsafe_writes": "klops only ever renames a whole file into place",
}


class Ownership(Params):
    """Owner and group of a path, by name or number; None leaves what is there."""

    owner: str | None = None
    group: str | None = None


class Owned(Ownership):
    """Attributes of a path; None leaves what is there."""

    mode: Mode = None


def reads(params: Ownership) -> tuple[Read, ...]:
    """What has to be asked to turn names into numbers."""
    found: list[Read] = []
    if params.owner is not None and not params.owner.isdecimal():
        found.append(CommandRead("owner", ("id", "-u", params.owner)))
    if params.group is not None and not params.group.isdecimal():
        found.append(NamesRead("groups", "group", (params.group,)))
    return tuple(found)


def numbers(params: Ownership, seen: Seen) -> tuple[int | None, int | None]:
    """Wanted user and group id. Raises :class:`TaskFailed` for a name that the host doesn't know."""
    uid = gid = None
    if params.owner is not None:
        text = params.owner if params.owner.isdecimal() else seen.replies["owner"].text.strip()
        if not text.isdecimal():
            raise TaskFailed(f"the host has no user {params.owner!r}", code="no-such-user")
        uid = int(text)
    if params.group is not None:
        text = params.group if params.group.isdecimal() else _group(seen.replies["groups"].text, params.group)
        if not text:
            raise TaskFailed(f"the host has no group {params.group!r}", code="no-such-group")
        gid = int(text)
    return uid, gid


def bits(mode: int | SymbolicMode | None, entry: Entry | None, *, is_dir: bool) -> int | None:
    """The permission bits that ``mode`` means for what is there (or is being made); None: as they are."""
    if mode is None or isinstance(mode, int):
        return mode
    new = NEW_FOLDER_MODE if is_dir else NEW_FILE_MODE
    return mode.applied(entry.mode if entry else new, is_dir)


def steps(
    params: Ownership,
    mode: int | SymbolicMode | None,
    path: str,
    entry: Entry | None,
    seen: Seen,
    *,
    mode_is_set: bool = False,
    is_dir: bool = False,
) -> list[Step]:
    """Steps that give ``path`` the wanted attributes; ``entry`` is what is there, None when it is being made.

    ``mode_is_set``: what makes it sets the mode already.
    """
    found: list[Step] = []
    uid, gid = numbers(params, seen)
    have = (entry.uid, entry.gid) if entry else None
    differs = have is None or uid not in (None, have[0]) or gid not in (None, have[1])
    link = entry is not None and entry.type == "link"
    chowned = (uid is not None or gid is not None) and differs
    if chowned:
        found.append(SetOwner(path, uid, gid, have))
    wanted = bits(mode, entry, is_dir=is_dir)
    if wanted is None or link:
        return found
    had = wanted if mode_is_set else entry.mode if entry else NEW_FILE_MODE
    # after the owner: chown takes setuid and setgid away
    if had != wanted or (entry is None and not mode_is_set) or (chowned and wanted & 0o6000):
        found.append(SetMode(path, had, wanted))
    return found


def _group(text: str, name: str) -> str:
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) >= 3 and fields[0] == name and fields[2].isdecimal():
            return fields[2]
    return ""
