"""Mode, owner and group of a path: parameters that file, copy and template share, and the steps they need."""

from __future__ import annotations

from klops.actions.base import Params, Seen, Step
from klops.actions.fields import Mode
from klops.actions.steps import SetMode, SetOwner
from klops.commands.listing import Entry
from klops.errors import TaskFailed
from klops.remote.reads import CommandRead, FileRead, Read


class Owned(Params):
    """Attributes of a path; None leaves what is there. Owner and group by name or number."""

    mode: Mode = None
    owner: str | None = None
    group: str | None = None


def reads(params: Owned) -> tuple[Read, ...]:
    """What has to be asked to turn names into numbers."""
    found: list[Read] = []
    if params.owner is not None and not params.owner.isdecimal():
        found.append(CommandRead("owner", ("id", "-u", params.owner)))
    if params.group is not None and not params.group.isdecimal():
        found.append(FileRead("groups", "/etc/group"))
    return tuple(found)


def numbers(params: Owned, seen: Seen) -> tuple[int | None, int | None]:
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


def steps(
    params: Owned, path: str, entry: Entry | None, seen: Seen, *, mode_is_set: bool = False
) -> list[Step]:
    """Steps that give ``path`` the wanted attributes; ``entry`` is what is there, None when it is being made.

    ``mode_is_set``: what makes it sets the mode already.
    """
    found: list[Step] = []
    uid, gid = numbers(params, seen)
    have = (entry.uid, entry.gid) if entry else None
    differs = have is None or uid not in (None, have[0]) or gid not in (None, have[1])
    if (uid is not None or gid is not None) and differs:
        found.append(SetOwner(path, uid, gid, have))
    # after the owner: chown takes setuid and setgid away
    if params.mode is not None and not mode_is_set and (entry is None or entry.mode != params.mode):
        found.append(SetMode(path, entry.mode if entry else 0o644, params.mode))
    return found


def _group(text: str, name: str) -> str:
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) >= 3 and fields[0] == name and fields[2].isdecimal():
            return fields[2]
    return ""
