"""Who may change a host: one file on it, made with noclobber, renewed while its owner lives.

``ROOT/lock`` is one line of JSON: ``{"schema": 1, "who", "from", "run", "boot_id", "expires", "taken"}``.
``expires`` is in seconds of host uptime, so no clock needs to be right; after a reboot the boot id differs.
Expired, or of another boot, is dead: taken over, with a line in ``ROOT/audit.jsonl``. So are noted there the
beginning and the end of the run that holds it, by the commands that take it and give it back. Taking,
renewing and losing it guard one state: they are one class, and the longest part of the module.
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from klops.commands.hostpass.passscript import RUN as RUN_OF_PASS
from klops.errors import CommandFailed, KlopsError, LockHeld
from klops.log import get_logger
from klops.remote import audit, lockscripts, whoami
from klops.remote.base import Remote, Reply

SCHEMA = 1
#: Seconds a lock lives without renewal, and seconds between two renewals.
LIFETIME = 60
RENEWAL = 20.0
#: Seconds that a command on the lock may take once it has begun.
ANSWER = 20.0
#: Tries, a moment apart, where somebody is after the lock just now.
TRIES = 3
MOMENT = 0.2
#: Seconds to wait for the scheduled pass of a host, which has its lock for a moment, or for long where docker
#: doesn't answer; and between two looks.
PASS_PATIENCE = 30.0
PASS_PAUSE = 1.0
#: Seconds to connect to a host that may be down, to give its lock back.
SHORT_TRY = 2.0
#: What commands say when there is no room, for this user or for anybody.
_FULL = ("No space left on device", "Disk quota exceeded")


@dataclass(frozen=True)
class LockOwner:
    """Who takes a lock: user, machine, and the run (unique; the lock belongs to it alone)."""

    who: str
    origin: str
    run: str

    @classmethod
    def here(cls, run: str = "") -> LockOwner:
        """This user on this machine."""
        return cls(whoami.user(), socket.gethostname(), run or secrets.token_hex(8))

    def as_json(self) -> dict[str, str]:
        """As it stands in a lock and in the lines of an audit log."""
        return {"who": self.who, "from": self.origin, "run": self.run}


@dataclass(frozen=True)
class LockInfo:
    """A lock as read. ``expires`` is host uptime, ``taken`` seconds since the epoch by the host's clock."""

    who: str
    origin: str
    run: str
    boot_id: str
    expires: float
    taken: float

    def is_dead(self, boot_id: str, uptime: float) -> bool:
        """Whether it may be taken over, for a host that booted as ``boot_id`` ``uptime`` seconds ago."""
        return self.boot_id != boot_id or self.expires <= uptime

    def as_json(self) -> dict[str, Any]:
        """The shape of the contract."""
        return {
            "schema": SCHEMA,
            "who": self.who,
            "from": self.origin,
            "run": self.run,
            "boot_id": self.boot_id,
            "expires": self.expires,
            "taken": self.taken,
        }


def parse_lock(text: str) -> LockInfo | None:
    """A lock from the content of its file; None when it is none (a file that is just being written)."""
    try:
        data = json.loads(text)
        if data["schema"] > SCHEMA:
            raise KlopsError(
                f"the lock has schema {data['schema']}, newer than {SCHEMA}, which this klops knows",
                hint="use the newer klops",
                code="schema",
            )
        return LockInfo(
            str(data["who"]),
            str(data["from"]),
            str(data["run"]),
            str(data["boot_id"]),
            float(data["expires"]),
            float(data["taken"]),
        )
    except (ValueError, TypeError, KeyError):
        return None


def read_lock(reply: Reply) -> LockInfo | None:
    """The lock from the reply to a ``FileRead`` of ``ROOT/lock``; None when there is none."""
    return parse_lock(reply.text) if reply.ok else None


class _HeldByPass(LockHeld):
    """The host's own scheduled pass has the lock: it won't be for long."""


class HostLock:
    """The lock of one host for one run. A context manager; renewed by a thread while it is held.

    ``notes``: what is noted on the host when it is taken and when it is given back; None: nothing.
    ``on_lost`` is called, from that thread, when the lock is found to be somebody else's, or at the moment
    when it expires without having been renewed. ``cancelled``: whether nobody wants it any more.
    """

    def __init__(
        self,
        remote: Remote,
        root: str,
        *,
        who: LockOwner,
        notes: audit.RunNotes | None = None,
        on_lost: Callable[[KlopsError], None] | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        lifetime: int = LIFETIME,
        renewal: float = RENEWAL,
    ) -> None:
        self._remote = remote
        self._root = root
        self._who = who
        self._notes = notes
        #: a line could not be written, and that was said
        self._unnoted = False
        self._began = False
        self._on_lost = on_lost
        self._cancelled = cancelled
        self._lifetime = lifetime
        self._renewal = renewal
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._keeper: Remote | None = None
        #: when it expires unless it is renewed, by this machine's monotonic clock and never too late
        self._until = 0.0
        self._paused = False
        self.held = False
        #: why the lock was lost, None while it wasn't
        self.lost: KlopsError | None = None

    def acquire(self) -> None:
        """Take the lock. :class:`LockHeld` names who has it; :class:`CommandFailed` when it can't be made.

        One that this very run has, by another name of the same machine, is enough: it is that name's to renew
        and to give back, when the run ends. For the scheduled pass of the host it waits a while.
        """
        patience = time.monotonic() + PASS_PATIENCE
        told = False
        while True:
            try:
                return self._take()
            except _HeldByPass as held:
                if time.monotonic() >= patience or self._cancelled():
                    raise
                if not told:
                    told = True
                    get_logger(__name__).warning(
                        f"waiting up to {PASS_PATIENCE:g} s for the host's scheduled pass to end",
                        host=self._remote.name,
                        why=held.message,
                    )
            time.sleep(PASS_PAUSE)

    def _take(self) -> None:
        # again: a dead lock may change hands between the look and the take-over
        for _ in range(TRIES):
            began = time.monotonic()
            rc, said = self._script(lockscripts.ACQUIRE, str(self._lifetime), self._begin())
            if rc == 0:
                self._complain(said)
                break
            if self._is_our_run(said):
                if not self.held:
                    return
                # it was paused for a restart that did not come
                if self._renew(self._lifetime) == 0:
                    break
            elif self._judge(said):
                break
        else:
            raise LockHeld(
                f"{self._remote.name}: others are after the lock too: {lockscripts.guard(self._root)}",
                hint=f"try again in a moment; what a crash has left there counts {lockscripts.GUARDED} s",
            )
        self._until = began + self._lifetime
        self.held = self._began = True
        self._paused = False
        self._over.clear()
        self._keeper = self._remote.clone()
        self._thread = threading.Thread(
            target=self._keep, name=f"klops-lock-{self._remote.name}", daemon=True
        )
        self._thread.start()

    def release(self) -> None:
        """Give the lock back; somebody else's is left alone. Safe to call twice."""
        self._end_renewal()
        if self.held:
            self.held = False
            release = (self._root, self._who.run, self._end())
            if self._paused:
                # the host may be down, and whoever ends a run in the middle of that doesn't want to wait
                self._remote.renew(SHORT_TRY)
            rc, complaint = self._insist(lambda: self._run(lockscripts.RELEASE, *release))
            self._complain(complaint)
            if rc:
                get_logger(__name__).warning(
                    "the lock was lost before the run ended: somebody took it over, or broke it",
                    host=self._remote.name,
                )

    def _end_renewal(self) -> None:
        self._over.set()
        if self._thread is not None and self._keeper is not None:
            self._keeper.close()
            self._thread.join()
            self._thread = None

    def pause(self, seconds: float) -> None:
        """Before the host is restarted: renew the lock once for that long, and then leave the host alone.

        Raises :class:`LockHeld` when it is no longer ours.
        """
        if not self.held:
            return
        self._end_renewal()
        self._paused = True
        if self._renew(int(seconds) + self._lifetime):
            lost = self._taken()
            self._report(lost)
            raise lost

    def resume(self) -> None:
        """Take the lock again, which in another boot is dead. Raises what :meth:`acquire` does."""
        self.acquire()

    def __enter__(self) -> HostLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.release()
        except KlopsError:
            # what went wrong inside matters more, and a lock that can't be given back runs out by itself
            if kind is None:
                raise

    def _is_our_run(self, said: str) -> bool:
        head, _, content = said.partition("\n")
        boot_id, _, uptime = head.partition(" ")
        found = parse_lock(content.rstrip("\n"))
        return found is not None and found.run == self._who.run and not found.is_dead(boot_id, float(uptime))

    def _judge(self, said: str) -> bool:
        """Whether the lock that was found was dead and is ours now; False: look again; :class:`LockHeld`."""
        head, _, content = said.partition("\n")
        boot_id, _, uptime = head.partition(" ")
        content = content.rstrip("\n")
        found = parse_lock(content)
        if found is None and '"abandoned"' not in content and content:
            raise LockHeld(
                f"{self._remote.name}: {self._root}/lock is not a lock of klops: {content[:80]!r}",
                hint=f"look at the file; when nobody needs it: rm {self._root}/lock",
            )
        if found is None and not content:
            return self._pause()  # just being written
        if found is not None and not found.is_dead(boot_id, float(uptime)):
            left = found.expires - float(uptime)
            since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(found.taken))
            kind = _HeldByPass if found.run.startswith(RUN_OF_PASS) else LockHeld
            raise kind(
                f"{self._remote.name}: {found.who} on {found.origin} is changing this host since {since}"
                f" (run {found.run}, renewed; expires in {left:.0f} s unless renewed again)",
                hint="wait for that run to end; a lock whose owner died is free after a minute:"
                f" klops lock status {self._remote.name}",
            )
        reason = "unfinished" if found is None else "another boot" if found.boot_id != boot_id else "expired"
        taken = {"previous": found.as_json() if found else None, "reason": reason}
        line = audit.body("lock-taken-over", self._who.as_json(), taken)
        body = content if found else ""
        rc, complaint = self._script(lockscripts.TAKE_OVER, str(self._lifetime), body, line, self._begin())
        if rc == 0:
            self._complain(complaint, previous=taken["previous"])
        return rc == 0

    def _begin(self) -> str:
        """The line of the run's beginning; "" where it has begun already, as after a restart of the host."""
        if self._notes is None or self._began:
            return ""
        return audit.body("run-begun", self._who.as_json(), self._notes.begun)

    def _end(self) -> str:
        return audit.body("run-ended", self._who.as_json(), self._notes.ended()) if self._notes else ""

    def _complain(self, why: str, **more: Any) -> None:
        """Say, once, that nothing could be noted."""
        if why.strip() and not self._unnoted:
            self._unnoted = True
            get_logger(__name__).warning(
                "what is done there can't be noted",
                host=self._remote.name,
                file=audit.log_of(self._root),
                why=why.strip(),
                **more,
            )

    def _pause(self) -> bool:
        time.sleep(MOMENT)
        return False

    def _keep(self) -> None:
        """Renew, and tell of the loss when the lock expires, whatever a renewal waits for then."""
        wait = self._renewal
        while not self._over.wait(min(wait, self._until - time.monotonic())):
            outcome: list[int | KlopsError] = []
            one = threading.Thread(target=self._renew_beside, args=(outcome,), daemon=True)
            began = time.monotonic()
            one.start()
            one.join(max(0.0, self._until - began))
            rc = outcome[0] if outcome else None
            if self._over.is_set():
                return None
            if rc == 0:
                self._until = began + self._lifetime
                wait = self._renewal
                continue
            if rc == lockscripts.NOT_OURS:
                return self._report(
                    LockHeld(f"{self._remote.name}: somebody else took the lock over, or broke it")
                )
            if time.monotonic() >= self._until:
                why = rc.message if isinstance(rc, KlopsError) else "no answer before it expired"
                return self._report(LockHeld(f"{self._remote.name}: the lock could not be renewed: {why}"))
            wait = min(2.0, self._renewal)
        return None

    def _renew_beside(self, outcome: list[int | KlopsError]) -> None:
        left = self._until - time.monotonic()
        try:
            rc, _ = self._renew_once(self._lifetime, remote=self._keeper, timeout=max(0.1, min(ANSWER, left)))
            outcome.append(rc)
        except KlopsError as e:
            outcome.append(e)

    def _renew(self, seconds: int) -> int:
        return self._insist(lambda: self._renew_once(seconds))[0]

    def _renew_once(
        self, seconds: int, *, remote: Remote | None = None, timeout: float = ANSWER
    ) -> tuple[int, str]:
        return self._script(lockscripts.RENEW, str(seconds), self._who.run, remote=remote, timeout=timeout)

    def _insist(self, what: Callable[[], tuple[int, str]]) -> tuple[int, str]:
        """Again while somebody is after the lock, who leaves it alone or has it then."""
        for _ in range(TRIES - 1):
            done = what()
            if done[0] != lockscripts.HELD:
                return done
            time.sleep(MOMENT)
        return what()

    def _taken(self) -> LockHeld:
        name = self._remote.name
        return LockHeld(
            f"{name}: somebody else took the lock over, or broke it",
            hint=f"klops lock status {name} shows who has it; the next run completes what this one began",
        )

    def _report(self, why: KlopsError) -> None:
        self.held = False
        self.lost = why
        if self._on_lost is not None:
            self._on_lost(why)

    def _script(
        self, text: str, *args: str, remote: Remote | None = None, timeout: float = ANSWER
    ) -> tuple[int, str]:
        head = {"schema": SCHEMA, **self._who.as_json()}
        return self._run(text, self._root, json.dumps(head)[:-1], *args, remote=remote, timeout=timeout)

    def _run(
        self, text: str, *args: str, remote: Remote | None = None, timeout: float = ANSWER
    ) -> tuple[int, str]:
        argv = ["sh", "-c", text, "klops-lock", *args]
        done = (remote or self._remote).run(argv, timeout=timeout, check=False)
        if done.rc in (0, lockscripts.HELD, lockscripts.NOT_OURS):
            return done.rc, done.text
        full = any(text in done.error_text for text in _FULL)
        raise CommandFailed(
            f"{self._remote.name}: {self._root}/lock can't be written: {done.error_text.strip() or done.rc}",
            rc=done.rc,
            stderr=done.error_text,
            hint=f"make room on the disk that {self._root} is on"
            if full
            else "klops.root must be a folder that this user may write",
            code="lock",
        )
