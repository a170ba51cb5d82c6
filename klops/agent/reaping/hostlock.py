"""The lock of the host, by the rule that runs of klops and the pass have.

``ROOT/lock`` is made only if there is none. It is one line of JSON: schema, who, from, run, boot_id, expires
(seconds of host uptime), taken. One that is expired, of another boot, or left empty by a crash is dead: taken
over, behind a link that only one can make.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import Any, Callable

from klops.agent import store
from klops.agent.audit import Audit
from klops.agent.errors import VerbError
from klops.agent.processes import identity, procs
from klops.agent.trouble import reason

LOCKED = "host-locked"
#: Seconds it is taken for, anew before each round of signals: longer than any of them.
LIFETIME = 90
#: Seconds that a guard counts, and seconds of its lifetime a lock must have left to be touched without one.
GUARDED = 60
NEAR = 20
#: Seconds after which a lock without content counts as left by a crash.
EMPTY = 120
#: How the runs of scheduled passes begin: a run of klops waits for them a while.
RUN = "pass-reap-"


class _Lock:
    """What stands in the file."""

    def __init__(self, text: str, age: float) -> None:
        self.text = text
        self._age = age
        try:
            found = json.loads(text)
            self.run = str(found["run"])
            self.who = f"{found['who']} on {found['from']} (run {self.run})"
            self._boot, self._expires = str(found["boot_id"]), float(found["expires"])
            self.sound = True
        except (ValueError, TypeError, KeyError, RecursionError):
            self.run, self.who, self._boot, self._expires = "", "somebody", "", 0.0
            self.sound = False

    def left(self) -> float:
        """Seconds it still lives; 0 or less: dead."""
        if not self.text:
            return EMPTY - self._age
        if not self.sound:
            return float(LIFETIME)  # not one of klops: nobody's to remove
        return self._expires - _uptime() if self._boot == identity.here()[0] else 0.0


class HostLock:
    """The lock for one clean-up: a run's that has it already, or one of its own."""

    def __init__(self, root: str, run: str, audit: Audit) -> None:
        """``run`` is the run that has the lock; "": this clean-up takes it itself."""
        self._path = root + "/lock"
        self._guard = self._path + ".takeover"
        self._audit = audit
        self._own = not run
        self.run = run or f"{RUN}{os.getpid()}-{os.urandom(4).hex()}"

    def __enter__(self) -> HostLock:
        if self._own:
            try:
                self._take()
            except OSError as error:
                raise VerbError(
                    "lock-failed",
                    f"{self._path} can't be made: {reason(error)}",
                    "make room on the host, or run it as the user who owns that folder",
                ) from error
        self.confirm()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._own:
            with contextlib.suppress(OSError):  # it runs out by itself
                self._touch(lambda: os.unlink(self._path))

    def confirm(self) -> None:
        """Before signals: it still is this run's; our own is renewed. Raises :class:`VerbError`."""
        if self._own:
            try:
                if self._touch(self._place):
                    return
            except OSError as error:
                if self._is_ours():
                    return  # no room for a new one; what is left of its time must do
                raise VerbError(LOCKED, f"{self._path} can't be renewed: {reason(error)}") from error
        elif self._is_ours():
            return
        raise _locked(self._read(), self.run)

    def _take(self) -> None:
        if self._make():
            return
        found = self._read()
        if found is None or found.left() > 0 or not self._enter():
            raise _locked(found, self.run)
        try:
            again = self._read()
            if again is None or again.text != found.text:
                raise _locked(again, self.run)
            self._place()
        finally:
            store.remove(self._guard)
        self._audit.note("lock-taken-over", "", run=self.run, previous=found.text.strip()[:400])

    def _make(self) -> bool:
        try:
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            return False
        try:
            os.fchmod(fd, 0o644)
            os.write(fd, self._document().encode("utf-8"))
        except OSError:
            os.unlink(self._path)
            raise
        finally:
            os.close(fd)
        return True

    def _place(self) -> None:
        """The lock becomes ours, whole, by way of a new file."""
        store.write_text(self._path, self._document(), 0o644)

    def _document(self) -> str:
        # in this order: scripts find the boot id with the expiry behind it
        return (
            json.dumps(
                {
                    "schema": store.SCHEMA,
                    "who": _user(),
                    "from": os.uname().nodename,
                    "run": self.run,
                    "boot_id": identity.here()[0],
                    "expires": round(_uptime() + LIFETIME, 2),
                    "taken": int(time.time()),
                }
            )
            + "\n"
        )

    def _read(self) -> _Lock | None:
        try:
            age = time.time() - os.stat(self._path).st_mtime
        except FileNotFoundError:
            return None
        return _Lock(procs.slurp(self._path).decode("utf-8", "replace"), age)

    def _is_ours(self, least: float = 0.0) -> bool:
        found = self._read()
        return found is not None and found.run == self.run and found.left() > least

    def _touch(self, what: Callable[[], object]) -> bool:
        """Do something to our own lock, where others may be after it behind the guard. False: not ours."""
        if self._is_ours(NEAR):
            what()
            return True
        found = self._read()
        if found is None or found.run != self.run or not self._enter():
            return False
        try:
            found = self._read()
            if found is None or found.run != self.run:
                return False
            what()
        finally:
            store.remove(self._guard)
        return True

    def _enter(self) -> bool:
        """Make the link that only one can make; it points to boot id and uptime. False: somebody has it."""
        boot, now = identity.here()[0], int(_uptime())
        try:
            found = os.readlink(self._guard)
            there, _, since = found.rpartition(".")
            if there == boot and since.isdecimal() and int(since) <= now <= int(since) + GUARDED:
                return False
            if not self._put_away(found):
                return False
        except FileNotFoundError:
            pass
        try:
            os.symlink(f"{boot}.{now}", self._guard)
        except FileExistsError:
            return False
        return True

    def _put_away(self, stale: str) -> bool:
        """Remove a guard left by a crash, by way of a name of our own. False: it was another by then.

        Of two that find a stale one the second would else remove the link that the first has just made.
        """
        own = f"{self._guard}.{os.getpid()}"
        os.rename(self._guard, own)
        was = os.readlink(own)
        if was != stale:
            with contextlib.suppress(FileExistsError):
                os.symlink(was, self._guard)
        os.unlink(own)
        return was == stale


def _locked(found: _Lock | None, run: str) -> VerbError:
    if found is None:
        return VerbError(LOCKED, f"the host's lock is not run {run}'s: there is none", "repeat it")
    what = f"{found.who} has the host's lock" if found.text else "somebody is taking the host's lock"
    return VerbError(LOCKED, what, "wait for that run to end; klops lock status shows it")


def _uptime() -> float:
    return float(procs.slurp("/proc/uptime").split()[0])


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
