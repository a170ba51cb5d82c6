"""Names of users, as this container has them, or as who lives elsewhere has."""

from __future__ import annotations

import os
import stat

#: Bytes of a list of accounts, at most.
_LONGEST = 1 << 20


def name(uid: int) -> str:
    """What a user is called here; the number of one without a name."""
    import pwd  # not every verb needs it, and each of them starts anew

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def name_there(pid: int, uid: int) -> str:
    """What a user is called where a process lives: in another container the number is somebody else's.

    The number where that has no name there, or it can't be told. Not for one that is stuck.
    """
    try:
        root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return str(uid)
    try:
        here = os.path.samestat(os.fstat(root), os.stat("/"))
        return name(uid) if here else _listed(_accounts(root), uid)
    except OSError:
        return str(uid)
    finally:
        os.close(root)


def _accounts(root: int) -> bytes:
    """The list of accounts below a folder. Raises ``OSError``.

    A link is not followed, as it would lead to a file of this container's; nor is anything waited for: what
    is there is for others to choose.
    """
    folder = os.open("etc", os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        fd = os.open("passwd", flags, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        return os.read(fd, _LONGEST) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    finally:
        os.close(fd)


def _listed(accounts: bytes, uid: int) -> str:
    """The first name of a number.

    >>> _listed(b"root:x:0:0::/:/bin/sh\\nann:x:1000:1000::/:/bin/sh\\n", 1000)
    'ann'
    """
    for line in accounts.decode("utf-8", "replace").split("\n"):
        fields = line.split(":")
        if len(fields) > 2 and fields[0] and fields[2] == str(uid):
            return fields[0]
    return str(uid)
