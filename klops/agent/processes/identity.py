"""Who a process is: boot id, pid namespace, pid and start time. A pid alone means nothing.

A signal goes through a pidfd that was checked against the identity. Where kernel or seccomp profile has no
pidfd the identity is checked again just before a plain ``kill``, and the outcome says so.
"""

from __future__ import annotations

import errno
import os
import signal
from typing import Any, NamedTuple

from klops.agent.processes import procs

#: Numbers of the system calls, the same on every architecture: builds of Python against an old C library, and
#: Python 3.8, have no wrapper for them.
_PIDFD_SEND_SIGNAL = 424
_PIDFD_OPEN = 434
#: What is answered where the call doesn't exist or is filtered.
_NO_PIDFD = (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.ENODEV)


class Identity(NamedTuple):
    """One process, never another: not after its end, not after a restart of the container or the host."""

    boot: str
    #: inode of the pid namespace
    ns: int
    pid: int
    start: int


_here: list[Any] = []


def here() -> tuple[str, int]:
    """Boot id and pid namespace of this process. Neither changes while it lives."""
    if not _here:
        boot = procs.slurp("/proc/sys/kernel/random/boot_id").decode("ascii").strip()
        _here.append((boot, os.stat("/proc/self/ns/pid").st_ino))
    boot, ns = _here[0]
    return boot, ns


def of(process: procs.Process) -> Identity:
    """The identity of a process of this namespace."""
    boot, ns = here()
    return Identity(boot, ns, process.pid, process.start)


def of_pid(pid: int) -> Identity | None:
    """The identity of whoever has this pid now."""
    process = procs.read(pid)
    return None if process is None else of(process)


def alive(identity: Identity) -> bool:
    """Whether this very process still runs; a zombie doesn't."""
    if (identity.boot, identity.ns) != here():
        return False
    process = procs.read(identity.pid)
    return process is not None and process.start == identity.start and process.alive


def _syscall(number: int, *args: int) -> int:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    result = int(libc.syscall(ctypes.c_long(number), *(ctypes.c_long(arg) for arg in args)))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _pidfd_open(pid: int) -> int:
    call = getattr(os, "pidfd_open", None)
    if call is not None:
        return int(call(pid))
    fd = _syscall(_PIDFD_OPEN, pid, 0)
    os.set_inheritable(fd, False)
    return fd


def _pidfd_send_signal(fd: int, number: int) -> None:
    call = getattr(signal, "pidfd_send_signal", None)
    if call is not None:
        call(fd, number)
    else:
        _syscall(_PIDFD_SEND_SIGNAL, fd, number, 0, 0)


class Handle:
    """A hold on one process: ``fd`` is a pidfd (readable once the process has ended), or -1 without pidfd."""

    def __init__(self, identity: Identity, fd: int) -> None:
        self.identity = identity
        self.fd = fd

    @property
    def how(self) -> str:
        """How signals are sent, for the audit line."""
        return "pidfd" if self.fd >= 0 else "kill: no pidfd here, identity checked just before"

    def send(self, number: int) -> str:
        """Send a signal. Returns what came of it: ``sent``, ``gone``, or ``refused: ...``."""
        if self.fd < 0 and not alive(self.identity):
            return "gone"
        try:
            if self.fd >= 0:
                _pidfd_send_signal(self.fd, number)
            else:
                os.kill(self.identity.pid, number)
        except ProcessLookupError:
            return "gone"
        except OSError as error:
            return f"refused: {os.strerror(error.errno or 0)}"
        return "sent"

    def close(self) -> None:
        """Let go."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def hold(identity: Identity) -> Handle | None:
    """A hold on exactly this process, or None when it is gone (or its pid belongs to another by now)."""
    if not alive(identity) or identity.pid <= 1:
        return None
    try:
        fd = _pidfd_open(identity.pid)
    except ProcessLookupError:
        return None
    except OSError as error:
        if error.errno in _NO_PIDFD:
            return Handle(identity, -1)
        raise
    # the pid may have been reused between the look and the open; the pidfd can't change any more
    if not alive(identity):
        os.close(fd)
        return None
    return Handle(identity, fd)
