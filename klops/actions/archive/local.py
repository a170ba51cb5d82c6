"""unarchive of an archive of the control node: compared member by member, and only what differs is sent."""

from __future__ import annotations

import posixpath
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from klops.actions.archive.archiveparts import There, chosen, differing
from klops.actions.archive.archives import Kind, Member, handler, members
from klops.actions.archive.archivetar import packed
from klops.actions.archive.parameters import UnarchiveParams, result, shown, text, unreadable
from klops.actions.base import Change, Context, Plan, Seen, Step, View
from klops.actions.files import ownership
from klops.actions.files.modes import applied
from klops.actions.touched import Touched
from klops.errors import TaskFailed
from klops.remote.base import Reply

#: the kind of folder that archives are looked for in
FILES = "files"


@dataclass(frozen=True)
class Unpack(Step):
    """Send members of an archive of the control node, as a tar, and unpack them."""

    src: str
    dest: str
    content: bytes
    wanted: tuple[Member, ...]
    whole: tuple[Member, ...]
    owners: bool

    def touches(self) -> tuple[Touched, ...]:
        """The members."""
        return tuple(
            Touched(posixpath.join(self.dest, member.name), below=member.kind == "link")
            for member in self.wanted
        )

    def change(self) -> Change:
        """``unpack SRC into DEST (N of M): NAME, ...``."""
        count = f"{len(self.wanted)} of {len(self.whole)}"
        names = shown([member.shown for member in self.wanted])
        return Change(f"unpack {self.src} into {self.dest} ({count}): {names}")

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """The host's tar: modes as in the archive whatever the umask, owners for root only."""
        data = packed(self.content, self.wanted, self.whole)
        flags = "-xpf" if self.owners else "-xpof"
        ctx.remote.run(["tar", flags, "-", "-C", self.dest], stdin=data, timeout=None)
        return None


def content(params: UnarchiveParams, view: View) -> bytes:
    """The archive, for its members' names. Raises :class:`TaskFailed`."""
    path = view.find_local(FILES, params.src)
    try:
        return path.read_bytes()
    except OSError as error:
        raise TaskFailed(f"{path}: {error.strerror}", code="local-file") from error


def wanted(params: UnarchiveParams, content: bytes) -> tuple[Member, ...]:
    """Members that are to be unpacked. Raises :class:`TaskFailed` for an archive that is refused."""
    return chosen(members(content), params.include, params.exclude, params.strip)


def plan(params: UnarchiveParams, dest: Mapping[str, Any], seen: Seen) -> Plan:
    """Send what differs; ``dest`` is what stat says of the folder."""
    archive = seen.files["src"]
    root = seen.replies["me"].text.strip() == "0"
    if not root and (params.owner or params.group):
        raise TaskFailed("only root can give files to others", hint="become: true", code="not-allowed")
    kind = handler(archive)
    # a zip knows nothing of owners, and of times only without their zone
    is_zip = kind == "ZipArchive"
    plain = wanted(params, archive)
    owned = _owned(params, seen, plain, nobodys=is_zip)
    owners = root and (not is_zip or bool(params.owner or params.group))
    reply = seen.replies["there"]
    if not reply.ok:
        raise unreadable(params, reply)
    missing = differing(owned, manifest(reply), owners=owners, times=not is_zip, keep_newer=params.keep_newer)
    registered = result(params, dest, kind, [member.shown for member in plain])
    if not missing:
        return Plan(result=registered)
    step = Unpack(params.src, dest["path"], archive, missing, owned, owners)
    return Plan((step,), result=registered)


def _owned(
    params: UnarchiveParams, seen: Seen, found: Sequence[Member], *, nobodys: bool
) -> tuple[Member, ...]:
    """Members with the owner, group and mode that they are to have; a name counts for more than a number.

    ``nobodys``: the archive knows no owners, and what it holds becomes root's.
    """
    users, groups = _ids(seen.replies["users"]), _ids(seen.replies["groups"])
    uid, gid = ownership.numbers(params, seen)
    made = []
    for member in found:
        own = (users.get(member.user, member.uid), groups.get(member.group, member.gid))
        if nobodys:
            own = (0, 0)
        mode = member.mode
        if params.mode is not None and member.kind != "link":
            mode = applied(params.mode, mode, is_dir=member.kind == "directory")
        made.append(
            replace(
                member,
                mode=mode,
                uid=own[0] if uid is None else uid,
                gid=own[1] if gid is None else gid,
            )
        )
    return tuple(made)


def _ids(reply: Reply) -> dict[str, int]:
    """Names and numbers of ``/etc/passwd`` or ``/etc/group``."""
    rows = (line.split(":") for line in reply.text.splitlines())
    return {row[0]: int(row[2]) for row in rows if len(row) > 2 and row[2].isdecimal()}


def manifest(reply: Reply) -> dict[str, There]:
    """What is there by name, from the answer to a :class:`~klops.remote.archivereads.ManifestRead`."""
    listed, hashed, linked = reply.stdout.split(b"\0\0")[:3] if reply.stdout.count(b"\0\0") >= 3 else _odd()
    digests = dict(map(_digest, filter(None, text(hashed).split("\n"))))
    pairs = text(linked).split("\0")
    targets = dict(zip(pairs[::2], pairs[1::2], strict=False))
    found = {}
    for line in filter(None, text(listed).split("\n")):
        raw, uid, gid, size, mtime, name = line.split(" ", 5)
        mode = int(raw, 16)
        found[name.removeprefix("./")] = There(
            _kind(mode),
            stat.S_IMODE(mode),
            int(uid),
            int(gid),
            int(size),
            int(mtime),
            digests.get(name, ""),
            targets.get(name, ""),
        )
    return found


def _odd() -> list[bytes]:
    raise TaskFailed("the host's answer about the archive's members is incomplete", code="archive")


def _digest(line: str) -> tuple[str, str]:
    """``(NAME, SHA256)``; a backslash before the digest says that those in the name are doubled."""
    digest, _, name = line.partition("  ")
    if digest.startswith("\\"):
        return name.replace("\\\\", "\\"), digest[1:]
    return name, digest


def _kind(mode: int) -> Kind | Literal["other"]:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "other"
