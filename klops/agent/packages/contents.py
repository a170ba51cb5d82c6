"""Files by their content: hashed, kept once, and put in a place beside and renamed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from typing import IO, Iterator

from klops.agent.errors import VerbError

#: Begins the name of a file that isn't whole yet: one a place, so that the next run finds a killed one's.
BESIDE = ".klops-new-"
#: Bytes that a name may have on Linux's file systems (NAME_MAX).
_LONGEST = 255
_CHUNK = 1 << 20


def chunks(file: IO[bytes]) -> Iterator[bytes]:
    """A file's bytes from where it stands."""
    while True:
        data = file.read(_CHUNK)
        if not data:
            return
        yield data


def sha256(path: str) -> str:
    """A file's digest, 64 hex digits. Raises ``OSError``."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for data in chunks(file):
            digest.update(data)
    return digest.hexdigest()


def beside(path: str) -> str:
    """Where a file is written before it is renamed to its place."""
    folder, name = os.path.split(path)
    if len(os.fsencode(BESIDE + name)) > _LONGEST:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return f"{folder}/{BESIDE}{name}"


def put(
    path: str,
    source: IO[bytes],
    mode: int,
    owner: tuple[int, int],
    mtime: int | None = None,
    *,
    flush: bool = True,
) -> str:
    """Write a file beside its place and rename it; its sha256. ``owner``: uid and gid, ``mtime`` in ns;
    ``flush``: on the disk, too, before it has its name.

    What had the file open, or another name for it, keeps what was there. Raises ``OSError``.
    """
    new = beside(path)
    digest = hashlib.sha256()
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)  # of a run that was killed: never written into, it may be a link
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            for data in chunks(source):
                digest.update(data)
                file.write(data)
            file.flush()
            status = os.fstat(fd)
            if (status.st_uid, status.st_gid) != owner:
                os.fchown(fd, *owner)
            os.fchmod(fd, mode)
            if mtime is not None:
                os.utime(fd, ns=(mtime, mtime))
            if flush:
                os.fsync(fd)
        os.replace(new, path)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        raise
    return digest.hexdigest()


def keep(folder: str, source: str) -> str:
    """Keep a file's content in a folder under its sha256, which is returned; never twice, never another's.

    Raises ``OSError``; :class:`VerbError` when what is kept under that name isn't that content.
    """
    digest = sha256(source)
    place = f"{folder}/{digest}"
    if os.path.lexists(place):
        kept(folder, digest)
        return digest
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with open(source, "rb") as file:
        if put(place, file, 0o444, (os.geteuid(), os.getegid())) != digest:
            os.unlink(place)
            raise VerbError("changed-meanwhile", f"{source} was changed while it was read", "repeat it")
    return digest


def kept(folder: str, digest: str) -> str | None:
    """The path of a content that is kept; None when it isn't.

    Raises :class:`VerbError` when the file has another content by now: it is not used.
    """
    place = f"{folder}/{digest}"
    if not os.path.lexists(place):
        return None
    found = sha256(place)
    if found != digest:
        raise VerbError(
            "damaged", f"{place} has the content {found}", "somebody wrote into it: put the file there back"
        )
    return place


def owned(path: str) -> tuple[int, tuple[int, int]]:
    """A file's permission bits, and whose it is."""
    status = os.stat(path)
    return stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid)


def forget_compiled(path: str) -> None:
    """Remove what Python has compiled of a source file.

    It judges by time and size of the source, and wheels are known to give all their files one time.
    """
    if not path.endswith(".py"):
        return
    folder, name = os.path.split(path)
    cache = f"{folder}/__pycache__"
    try:
        entries = os.listdir(cache)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.startswith(name[:-2]) and entry.endswith(".pyc"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{cache}/{entry}")


def remove_empty(folder: str, up_to: str) -> None:
    """Remove a folder that is empty, and those above it that are then, but none of or above ``up_to``."""
    while folder != up_to and folder.startswith(up_to.rstrip("/") + "/"):
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            pass
        except OSError:
            return  # it holds something, or is no folder
        folder = os.path.dirname(folder)


def room(folder: str, needed: int) -> None:
    """Raises :class:`VerbError` when a file system has less room than so many bytes."""
    found = shutil.disk_usage(folder).free
    if found < needed:
        raise VerbError(
            "disk-full",
            f"{folder}: {needed} bytes are to be saved, {found} are free",
            "make room (df -h), then repeat it",
        )
