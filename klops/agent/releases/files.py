"""Files of releases as the system sees them: hashed, copied, exchanged, flushed, removed. Paths are bytes.

A name in a tree may be any bytes, whatever this process takes for the encoding of names.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
from typing import Iterator, Sequence

#: Bytes that are read or written at once.
PIECE = 1 << 20
#: Of ioctl: the content of another file becomes that of this one, without a copy where the file system can.
_FICLONE = 0x40049409
#: Of renameat2, by machine where the C library has no wrapper.
_EXCHANGE = 2
_RENAMEAT2 = {"x86_64": 316, "aarch64": 276}
_AT_FDCWD = -100
#: What a file system answers that can't do what was asked.
UNABLE = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.ENOTTY, errno.EXDEV, errno.EMLINK)
#: Files up to which each is flushed by itself: 100 took 60 ms here, one flush of all that the file system
#: has takes as long as others have written to it.
_SINGLY = 100


def open_file(path: bytes) -> tuple[int, os.stat_result]:
    """A descriptor of a regular file, and what it is; ``OSError`` for all else, which isn't waited for."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return fd, status


def sha256(path: bytes) -> str:
    """Of a regular file's content, 64 hex digits. Raises ``OSError``."""
    fd, status = open_file(path)
    try:
        return sha256_of(fd, status.st_size)
    finally:
        os.close(fd)


def sha256_of(fd: int, size: int) -> str:
    """The same of a descriptor; ``size`` is what ``fstat`` says: most files are one read."""
    part = os.read(fd, min(size + 1, PIECE))
    if len(part) == size < PIECE:
        return hashlib.sha256(part).hexdigest()
    summed = hashlib.sha256()
    while part:
        summed.update(part)
        part = os.read(fd, PIECE)
    return summed.hexdigest()


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Raises ``OSError`` when not all of it can be written."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def copy(source: bytes, target: bytes, mode: int) -> None:
    """Copy a regular file's content into a new file, which shares its blocks where the file system can."""
    read, _ = open_file(source)
    try:
        made = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.ioctl(made, _FICLONE, read)
            except OSError as error:
                if error.errno not in UNABLE:
                    raise
                while True:
                    part = os.read(read, PIECE)
                    if not part:
                        break
                    write_all(made, part)
            os.fchmod(made, mode)
        finally:
            os.close(made)
    finally:
        os.close(read)


def exchange(one: bytes, other: bytes) -> bool:
    """Two paths change places, at once; False where the system can't. Raises ``OSError``."""
    import ctypes
    import platform

    libc = ctypes.CDLL(None, use_errno=True)
    args = (
        ctypes.c_int(_AT_FDCWD),
        ctypes.c_char_p(one),
        ctypes.c_int(_AT_FDCWD),
        ctypes.c_char_p(other),
        ctypes.c_uint(_EXCHANGE),
    )
    if hasattr(libc, "renameat2"):
        result = libc.renameat2(*args)
    elif platform.machine() in _RENAMEAT2:
        result = libc.syscall(ctypes.c_long(_RENAMEAT2[platform.machine()]), *args)
    else:
        return False
    if result == 0:
        return True
    code = ctypes.get_errno()
    if code in UNABLE:
        return False
    raise OSError(code, os.strerror(code), one)


def move_folder(source: bytes, target: bytes) -> None:
    """Rename a folder that may be read-only: who isn't root may not move one that he can't write to."""
    try:
        os.rename(source, target)
    except PermissionError:
        mode = _open_up(source)
        os.rename(source, target)
        os.chmod(target, mode)


def exchange_folders(one: bytes, other: bytes) -> bool:
    """:func:`exchange` for folders that may be read-only."""
    try:
        return exchange(one, other)
    except PermissionError:
        mode, other_mode = _open_up(one), _open_up(other)
        done = exchange(one, other)
        os.chmod(one, other_mode if done else mode)
        os.chmod(other, mode if done else other_mode)
        return done


def _open_up(folder: bytes) -> int:
    """Have a folder writable; the mode that it had."""
    mode = stat.S_IMODE(os.stat(folder).st_mode)
    os.chmod(folder, mode | stat.S_IWUSR)
    return mode


def remove(path: bytes) -> None:
    """Remove whatever is there, read-only folders too; nothing is no error. Links are not followed."""
    try:
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode):
            os.unlink(path)
            return
        if status.st_mode & 0o700 != 0o700:
            os.chmod(path, 0o700)
        with os.scandir(path) as scanned:
            entries = list(scanned)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                remove(entry.path)
            else:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(entry.path)
        os.rmdir(path)
    except FileNotFoundError:
        return


def folders(path: bytes) -> Iterator[bytes]:
    """All folders of a tree, those within before the one they are in, itself last."""
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from folders(entry.path)
    yield path


def flush(tree: bytes, paths: Sequence[bytes]) -> None:
    """Have the disk keep these files and folders; ``tree`` is in the same file system."""
    if len(paths) > _SINGLY:
        _flush_all(tree)
        return
    for path in paths:
        flush_one(path)


def flush_one(path: bytes) -> None:
    """The same of one file or folder."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _flush_all(path: bytes) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.syncfs(ctypes.c_int(fd)) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), path)
    finally:
        os.close(fd)
