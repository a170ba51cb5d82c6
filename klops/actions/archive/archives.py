"""What is in an archive of the control node. Pure, from bytes to members; what means harm is refused."""

from __future__ import annotations

import hashlib
import io
import lzma
import posixpath
import stat
import tarfile
import zipfile
import zlib
from calendar import timegm
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Literal

from klops.errors import TaskFailed

#: Bytes that the members of an archive may have together.
UNPACKED_LIMIT = 2 * 1024**3
_PIECE = 1024 * 1024
Kind = Literal["file", "directory", "link", "hard"]
#: beginnings of files, and Ansible's names for what they are
_MAGIC: Sequence[tuple[bytes, str]] = (
    (b"PK", "ZipArchive"),
    (b"\x1f\x8b", "TgzArchive"),
    (b"BZh", "TarBzipArchive"),
    (b"\xfd7zXZ\0", "TarXzArchive"),
    (b"\x28\xb5\x2f\xfd", "TarZstdArchive"),
)


#: what the libraries raise for archives that are broken, or of a kind that they don't know
_UNREADABLE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    EOFError,
    OSError,
    lzma.LZMAError,
    zlib.error,
    ValueError,
    NotImplementedError,
)


@dataclass(frozen=True)
class Member:
    """One thing in an archive. ``name`` has no ``./`` before it and no slash at its end.

    ``target`` is what a link holds, or the member that a hard link is another name of. ``user`` and ``group``
    are names, "" where the archive knows none.
    """

    name: str
    kind: Kind
    mode: int
    mtime: int = 0
    size: int = 0
    sha256: str = ""
    target: str = ""
    uid: int = 0
    gid: int = 0
    user: str = ""
    group: str = ""
    #: the name in the archive
    stored: str = ""

    @property
    def shown(self) -> str:
        """The name as tar lists it."""
        return f"{self.name}/" if self.kind == "directory" else self.name


def handler(beginning: bytes) -> str:
    """Ansible's name for the kind of archive that begins so."""
    return next((name for magic, name in _MAGIC if beginning.startswith(magic)), "TarArchive")


#: members of the archives read last, by the digest of the archive: a key that keeps no archive in memory
_KNOWN: dict[bytes, tuple[Member, ...]] = {}
_MOST_KNOWN = 8


def members(content: bytes) -> tuple[Member, ...]:
    """The members of an archive in its order, a name's last one only; the same archive is read once.

    Raises :class:`TaskFailed` (code ``archive``) for what is no archive, and for members that would get out
    of the folder they are unpacked into.
    """
    digest = hashlib.sha256(content).digest()
    known = _KNOWN.get(digest)
    if known is None:
        known = _read(content)
        for oldest in list(_KNOWN)[: max(0, len(_KNOWN) - _MOST_KNOWN + 1)]:
            _KNOWN.pop(oldest, None)
        _KNOWN[digest] = known
    return known


def _read(content: bytes) -> tuple[Member, ...]:
    kind = handler(content)
    try:
        found = _zip_members(content) if kind == "ZipArchive" else _tar_members(content)
        named = {member.name: member for member in _counted(found) if member.name}
    except _UNREADABLE as error:
        hint = "zst needs remote_src: true; repack it as gz or xz" if kind == "TarZstdArchive" else ""
        first = str(error).splitlines()[:1]
        raise refused(f"not an archive that can be read: {first[0] if first else kind}", hint) from error
    _check(named)
    return tuple(
        replace(member, size=named[member.target].size, sha256=named[member.target].sha256)
        if member.kind == "hard"
        else member
        for member in named.values()
    )


# -- reading -------------------------------------------------------------------------------------------------


def _tar_members(content: bytes) -> Iterator[Member]:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        for info in tar:
            member = Member(
                name=_clean(info.name),
                kind=_tar_kind(info),
                mode=info.mode & 0o7777,
                mtime=int(info.mtime),
                target=_clean(info.linkname) if info.islnk() else info.linkname,
                uid=info.uid,
                gid=info.gid,
                user=info.uname,
                group=info.gname,
                stored=info.name,
            )
            if info.isreg():
                data = tar.extractfile(info)
                assert data is not None  # noqa: S101 - it is a file
                member = _hashed(member, data)
            yield member


def _tar_kind(info: tarfile.TarInfo) -> Kind:
    if info.isreg():
        return "file"
    if info.isdir():
        return "directory"
    if info.issym():
        return "link"
    if info.islnk():
        return "hard"
    raise refused(f"{info.name} is a device or a pipe, which is not unpacked")


def _zip_members(content: bytes) -> Iterator[Member]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for info in archive.infolist():
            if info.flag_bits & 1:
                raise refused(f"{info.filename} is encrypted", "unpack it with a command of your own")
            unix = info.external_attr >> 16
            mode = stat.S_IMODE(unix) or (0o755 if info.is_dir() else 0o644)
            # a zip tells the time without its zone
            member = Member(
                _clean(info.filename),
                "directory" if info.is_dir() else "file",
                mode,
                _moment(info),
                stored=info.filename,
            )
            if stat.S_ISLNK(unix):
                target = archive.read(info).decode("utf-8", "surrogateescape")
                member = replace(member, kind="link", target=target)
            elif not info.is_dir():
                with archive.open(info) as data:
                    member = _hashed(member, data)
            yield member


def _moment(info: zipfile.ZipInfo) -> int:
    """Seconds since 1970; a zip without a date says month 0 and day 0."""
    year, month, day, *clock = info.date_time
    return timegm((year, max(month, 1), max(day, 1), *clock, 0, 0, 0))


def _hashed(member: Member, data: IO[bytes]) -> Member:
    digest, size = hashlib.sha256(), 0
    while piece := data.read(_PIECE):
        digest.update(piece)
        size += len(piece)
        _check_size(size)
    return replace(member, size=size, sha256=digest.hexdigest())


def _counted(found: Iterator[Member]) -> Iterator[Member]:
    total = 0
    for member in found:
        total += member.size
        _check_size(total)
        yield member


def _check_size(size: int) -> None:
    if size > UNPACKED_LIMIT:
        raise refused(
            f"there are more than {UNPACKED_LIMIT // 1024**3} GiB in it",
            "bring it to the host by other means and use remote_src: true",
        )


def _clean(name: str) -> str:
    """A member's name without ``./`` and a slash at the end. Refuses what leads out."""
    if name.startswith("/") or ".." in name.split("/"):
        raise refused(f"{name} would get out of dest")
    if "\n" in name or "\0" in name:
        raise refused(f"{name!r} has a line break in its name")
    cleaned = posixpath.normpath(name)
    return "" if cleaned == "." else cleaned


def _check(named: Mapping[str, Member]) -> None:
    """Links must stay inside, and nothing may be unpacked through one."""
    links = {member.name for member in named.values() if member.kind == "link"}
    for member in named.values():
        above = posixpath.dirname(member.name)
        while above:
            if above in links:
                raise refused(f"{member.name} would be unpacked through the link {above}")
            above = posixpath.dirname(above)
        if member.kind == "link":
            end = posixpath.normpath(posixpath.join(posixpath.dirname(member.name), member.target))
            if member.target.startswith("/") or end.split("/")[0] == "..":
                raise refused(f"the link {member.name} -> {member.target} leads out of dest")
        if member.kind == "hard" and (member.target not in named or named[member.target].kind != "file"):
            raise refused(f"{member.name} is a hard link to {member.target}, which is no file in the archive")


def refused(why: str, hint: str = "") -> TaskFailed:
    """An archive that is not unpacked, and why."""
    return TaskFailed(why, hint=hint or "unpack it with a command of your own", code="archive")
