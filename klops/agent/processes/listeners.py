"""Who listens on a TCP port, from /proc/net."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Iterable, Iterator, NamedTuple

from klops.agent.processes import accounts, openfiles, procs

_LISTEN = b"0A"
#: Characters of a stranger's command line that are shown, and words that say that a secret follows.
_SHOWN = 120
_TELLING = re.compile(r"\S*(key|token|secret|pass)\S*(=|\s|$)", re.IGNORECASE)


class Listener(NamedTuple):
    """A listening socket: the address to reach it at from here, its inode, and whose it is."""

    address: str
    inode: int
    #: of whoever made it, as this user namespace counts
    uid: int


def _address(field: bytes) -> str:
    """A local address of /proc/net/tcp{,6} as one to connect to: "any" becomes loopback."""
    import socket

    text = field.decode("ascii")
    words = [bytes.fromhex(text[i : i + 8])[::-1] for i in range(0, len(text), 8)]
    packed = b"".join(words)
    if len(packed) == 4:
        return "127.0.0.1" if packed == b"\0" * 4 else socket.inet_ntop(socket.AF_INET, packed)
    if packed == b"\0" * 16:
        return "::1"
    if packed.startswith(b"\0" * 10 + b"\xff\xff"):
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return socket.inet_ntop(socket.AF_INET6, packed)


def on_port(port: int) -> list[Listener]:
    """All sockets that listen on a port in this network namespace."""
    wanted = b"%04X" % port
    found = []
    for name in ("tcp", "tcp6"):
        for line in procs.slurp(f"/proc/self/net/{name}").splitlines()[1:]:
            fields = line.split()
            address, _, number = fields[1].partition(b":")
            if number == wanted and fields[3] == _LISTEN:
                found.append(Listener(_address(address), int(fields[9]), int(fields[7])))
    return found


def owner(inode: int, pids: Iterable[int]) -> int | None:
    """Which of these processes has the socket open; None when none of them does, or none can be seen to."""
    link = f"socket:[{inode}]"
    return next((pid for pid in pids if link in _links(pid)), None)


def _links(pid: int) -> Iterator[str]:
    """What the descriptors of a process lead to; nothing when it is gone or not ours to look at."""
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                yield os.readlink(f"/proc/{pid}/fd/{fd}")


def describe_owner(listener: Listener) -> str:
    """Who it is, in words: a process of this container, or nobody that can be seen from here.

    The command line of one that is stuck is left out: whoever reads it may wait with it.
    """
    user = accounts.name(listener.uid)
    pid = owner(listener.inode, procs.pids())
    if pid is None:
        return (
            f"somebody whose process is not visible from here, user {user}:"
            " it runs outside this container, or may not be looked at"
        )
    process = procs.read(pid)
    command = procs.title(pid) if process and openfiles.settled(process, 0.0) else ""
    found = _TELLING.search(command)
    if found:
        command = command[: found.start()] + "..."
    shown = command if len(command) <= _SHOWN else command[:_SHOWN] + "..."
    return f"pid {pid} ({process.name if process else 'gone'}) of user {user}{': ' if shown else ''}{shown}"
