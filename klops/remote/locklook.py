"""Looking at the lock of a host from outside a run, and breaking it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from klops.errors import ChangedMeanwhile, CommandFailed, TaskFailed
from klops.remote import audit, lockscripts
from klops.remote.base import Remote, Reply
from klops.remote.lock import LockInfo, LockOwner, parse_lock
from klops.remote.reads import ABSENT, CommandRead, FileRead, Read


@dataclass(frozen=True)
class FoundLock:
    """The lock of a host as it was found; ``info`` is None for a file that is empty.

    ``boot_id`` and ``uptime`` (seconds) are the host's at that moment.
    """

    info: LockInfo | None
    boot_id: str
    uptime: float

    @property
    def left(self) -> float | None:
        """Seconds until it expires, negative since it has; None where no clock tells."""
        if self.info is None or self.info.boot_id != self.boot_id:
            return None
        return round(self.info.expires - self.uptime, 1)

    @property
    def alive(self) -> bool:
        """Whether its owner still has it."""
        return self.info is not None and not self.info.is_dead(self.boot_id, self.uptime)

    @property
    def why(self) -> str:
        """Why it counts as dead or alive."""
        if self.info is None:
            return "the file is empty: it is being written, or its writer died"
        if self.left is None:
            return "of another boot of the host"
        if self.left > 0:
            return f"expires in {self.left:.0f} s unless it is renewed"
        return f"expired {-self.left:.0f} s ago"

    def as_json(self) -> dict[str, Any]:
        """The lock's own fields (none for an empty file), and ``alive``, ``expires_in``, ``why``."""
        own: Mapping[str, Any] = self.info.as_json() if self.info else {}
        return {**own, "alive": self.alive, "expires_in": self.left, "why": self.why}


def reads(root: str) -> tuple[Read, ...]:
    """What :func:`found` needs."""
    return (
        FileRead("lock", f"{root}/lock"),
        CommandRead("uptime", ("cat", "/proc/uptime")),
        CommandRead("boot", ("cat", "/proc/sys/kernel/random/boot_id")),
    )


def look(remote: Remote, root: str) -> FoundLock | None:
    """The lock of a host; None when it is free. Raises :class:`TaskFailed` where that can't be told."""
    replies = remote.read(list(reads(root)))
    lock, uptime, boot = (replies[key] for key in ("lock", "uptime", "boot"))
    if lock.rc == ABSENT:
        return None
    for reply in (lock, uptime, boot):
        if not reply.ok:
            raise _unreadable(remote.name, root, reply)
    info = parse_lock(lock.text)
    if info is None and lock.text.strip():
        raise TaskFailed(
            f"{remote.name}: {root}/lock is not a lock of klops: {lock.text[:80]!r}",
            hint=f"look at the file; when nobody needs it: rm {root}/lock",
            code="lock",
        )
    return FoundLock(info, boot.text.strip(), float(uptime.text.split()[0]))


def break_lock(remote: Remote, root: str, found: FoundLock, who: LockOwner) -> str:
    """Remove the lock that was found, whoever has it, with a line in the audit log.

    Returns why that line could not be written, "" when it was. Raises :class:`ChangedMeanwhile` when another
    lock, or none, is there by now, :class:`CommandFailed` when it can't be removed.
    """
    run = found.info.run if found.info else ""
    line = audit.body("lock-broken", who.as_json(), {"previous": found.as_json()})
    argv = ["sh", "-c", lockscripts.BREAK, "klops-lock", root, run, line]
    done = remote.run(argv, timeout=20, check=False)
    if done.rc == lockscripts.HELD:
        raise ChangedMeanwhile(
            f"{remote.name}: somebody is after the lock just now ({lockscripts.guard(root)});"
            " nothing was removed",
            hint=f"try again in a moment; what a crash has left there counts {lockscripts.GUARDED} s",
        )
    if done.rc == lockscripts.NOT_OURS:
        raise ChangedMeanwhile(
            f"{remote.name}: the lock changed hands just now; nothing was removed",
            hint=f"klops lock status {remote.name}",
        )
    if done.rc:
        raise CommandFailed(
            f"{remote.name}: {root}/lock can't be removed: {done.error_text.strip() or done.rc}",
            rc=done.rc,
            stderr=done.error_text,
            hint="whoever may write klops.root can remove it; as root: -e ansible_become=true",
            code="lock",
        )
    return done.text.strip()


def _unreadable(name: str, root: str, reply: Reply) -> TaskFailed:
    why = reply.error_text.strip() or f"exit status {reply.rc}"
    return TaskFailed(
        f"{name}: whether {root} is locked can't be told: {why}",
        hint="whoever may read klops.root can tell; as root: -e ansible_become=true",
        code="lock",
    )
