"""``reboot``: restart the host, and wait until it has really been started anew.

.. code-block:: yaml

    - reboot:
    - reboot: {reboot_timeout: 1200, test_command: systemctl is-active docker}
    - reboot: {reboot_command: ipmitool chassis power cycle}
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import Field

from klops.actions.base import Action, Change, Context, Params, Plan, Probe, Progress, Seen, Step, View
from klops.errors import CommandFailed, CommandTimeout, ConnectionLost, HostUnreachable, TaskFailed
from klops.remote.base import Completed, Remote
from klops.remote.reads import FileRead

BOOT_ID = "/proc/sys/kernel/random/boot_id"
#: Seconds that the command of the restart, and each run of the test command, may take.
COMMAND_TIMEOUT = 60.0
#: Seconds to connect in one try, where the task says nothing: an interrupt has to wait for its end.
CONNECT_TIMEOUT = 5.0
#: Seconds between two looks, at first and at most.
PAUSES = (0.5, 5.0)
#: Seconds in which a host whose restart command failed must be gone: then it failed because of going down.
GOING_DOWN = 5.0
_TICK = 0.2
#: shutdown takes minutes and a message wherever there is one; busybox has a reboot that takes seconds
_RESTART = r"""
if command -v shutdown >/dev/null 2>&1; then exec shutdown -r "+$1" "$2"; fi
[ "$1" = 0 ] && exec reboot
exec reboot -d "$(($1 * 60))"
"""
_PATH = "PATH=/sbin:/bin:/usr/sbin:/usr/bin:/usr/local/sbin:$PATH\n"


class RebootParams(Params):
    """Times in seconds. ``reboot_timeout`` begins when the restart is due.

    ``pre_reboot_delay`` is given to ``shutdown`` in whole minutes. With a ``reboot_command`` neither that nor
    ``msg`` is used.
    """

    pre_reboot_delay: int = Field(default=0, ge=0)
    post_reboot_delay: int = Field(default=0, ge=0)
    reboot_timeout: int = Field(default=600, gt=0)
    connect_timeout: int | None = Field(default=None, gt=0)
    test_command: str = Field(default="whoami", min_length=1)
    msg: str = "Reboot initiated by klops"
    reboot_command: str | None = Field(default=None, min_length=1)

    @property
    def minutes(self) -> int:
        """How long ``shutdown`` is to wait."""
        return 0 if self.reboot_command is not None else self.pre_reboot_delay // 60


@dataclass
class Wait:
    """What the looks at a host that restarts have shown so far."""

    before: str
    began: float
    #: why the last look didn't find it ready: it can't be reached, or it isn't what it should be
    error: HostUnreachable | TaskFailed | None = None
    #: whether it was seen in another boot
    anew: bool = False
    pauses: Iterator[float] = field(default_factory=lambda: _pauses())

    @property
    def values(self) -> dict[str, Any]:
        """What is registered."""
        return {"rebooted": self.anew, "elapsed": int(time.monotonic() - self.began)}


@dataclass(frozen=True)
class Restart(Step):
    """Restart the host, and wait for it."""

    params: RebootParams

    def change(self) -> Change:
        """``reboot``, with the delay."""
        minutes = self.params.minutes
        return Change("restart the host" + (f" in {minutes} min" if minutes else ""))

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Send the command, and wait until another boot answers and passes the test."""
        params, remote = self.params, ctx.remote
        if remote.here:
            raise TaskFailed(
                "this would restart the control node itself, on which klops runs",
                hint="reboot works on hosts that are reached over ssh",
                code="control-node",
                values={"rebooted": False, "elapsed": 0},
            )
        delay = 60.0 * params.minutes
        with ctx.restarting(delay + params.post_reboot_delay + params.reboot_timeout):
            # read now: what was read for the plan may be of an earlier boot
            wait = Wait(_boot_id(remote), time.monotonic())
            self._send(ctx, wait)
            _pause(delay, ctx, "the host restarts")
            _pause(params.post_reboot_delay, ctx, "waiting before the first look at the host")
            until = time.monotonic() + params.reboot_timeout
            while not self._look(ctx, wait, until):
                if time.monotonic() >= until:
                    raise self._given_up(ctx, wait)
                pause = min(next(wait.pauses), max(0.0, until - time.monotonic()))
                _pause(pause, ctx, _state(wait))
        return wait.values

    def _send(self, ctx: Context, wait: Wait) -> None:
        """Start the restart. That the connection ends meanwhile is as it should be."""
        params = self.params
        own = params.reboot_command
        argv = ["sh", "-c", _PATH + (_RESTART if own is None else own), "reboot"]
        argv += [str(params.minutes), params.msg] if own is None else []
        ctx.progress(Progress("sending the command"))
        try:
            done = ctx.remote.run(argv, timeout=COMMAND_TIMEOUT + 60 * params.minutes, check=False)
        except ConnectionLost:
            return
        # 128 and more: a signal ended it, or the host's shell ended without a status
        if 0 < done.rc < 128 and not self._goes_down(ctx, wait):
            raise _refused(done, wait)

    def _goes_down(self, ctx: Context, wait: Wait) -> bool:
        """Whether the host goes away though the command failed: its own end may be what it complained of."""
        until = time.monotonic() + GOING_DOWN
        while time.monotonic() < until:
            try:
                ctx.remote.renew(self._connect_timeout(until))
                if _boot_id(ctx.remote) != wait.before:
                    return True
            except HostUnreachable:
                return True
            _pause(1.0, ctx, "the command failed: looking whether the host goes down all the same")
        return False

    def _look(self, ctx: Context, wait: Wait, until: float) -> bool:
        """Whether the host is in another boot and passes the test. Each look has a connection of its own."""
        ctx.progress(Progress(_state(wait)))
        try:
            ctx.remote.renew(self._connect_timeout(until))
            now = _boot_id(ctx.remote)
            if now == wait.before:
                wait.error = _same_boot(now, self.params.reboot_timeout, wait)
                return False
            wait.anew = True
            wait.error = self._test(ctx.remote, wait, until)
        except HostUnreachable as error:
            # also one that lets nobody in or shows another key: a host that starts may do so for a while
            wait.error = error
        except TaskFailed as error:
            wait.error = error
        return wait.error is None

    def _test(self, remote: Remote, wait: Wait, until: float) -> TaskFailed | None:
        command = self.params.test_command
        left = max(1.0, min(COMMAND_TIMEOUT, until - time.monotonic()))
        try:
            done = remote.run(["sh", "-c", _PATH + command], timeout=left, check=False)
        except CommandTimeout:
            said = f"it did not end within {left:.0f} s"
        except CommandFailed as error:
            said = error.message
        else:
            if done.rc == 0:
                return None
            said = f"it ended with {done.rc}{_last_line(done)}"
        return TaskFailed(
            f"the host was started anew, but test_command {command!r} says no: {said}",
            hint="look at what should make it succeed, or wait longer: reboot_timeout",
            code="test-command",
            values=wait.values,
        )

    def _connect_timeout(self, until: float) -> float:
        most = float(self.params.connect_timeout or CONNECT_TIMEOUT)
        return max(1.0, min(most, until - time.monotonic()))

    def _given_up(self, ctx: Context, wait: Wait) -> HostUnreachable | TaskFailed:
        error = wait.error
        if isinstance(error, HostUnreachable):
            return HostUnreachable(
                f"{ctx.view.host} did not come back within {self.params.reboot_timeout} s: {error.message}",
                hint="look at its console; a slow start wants a longer reboot_timeout",
                code=error.code,
                values=wait.values,
            )
        assert error is not None  # noqa: S101 - a look without one has succeeded
        return error


class Reboot(Action[RebootParams]):
    """Restart the host; every run of the task does."""

    name = "reboot"
    params = RebootParams
    refused: ClassVar[Mapping[str, str]] = {
        "boot_time_command": f"klops tells one boot from another by {BOOT_ID}: leave it out",
        "search_paths": "klops looks in /sbin, /bin, /usr/sbin, /usr/bin, /usr/local/sbin and PATH: "
        "give the whole path in reboot_command",
    }

    def probe(self, params: RebootParams, view: View) -> Probe:
        """The id of the boot it is in."""
        return Probe((FileRead("boot", BOOT_ID),))

    def plan(self, params: RebootParams, view: View, seen: Seen) -> Plan:
        """Always the one step."""
        if not seen.replies["boot"].text.strip():
            return Plan(failure=_no_boot_id())
        warnings: tuple[str, ...] = ()
        if params.reboot_command is not None and {"msg", "pre_reboot_delay"} & params.model_fields_set:
            warnings = ("reboot_command is run as it is: msg and pre_reboot_delay are for shutdown only",)
        return Plan((Restart(params),), {"rebooted": True, "elapsed": 0}, warnings=warnings)


def _boot_id(remote: Remote) -> str:
    found = remote.read([FileRead("boot", BOOT_ID)])["boot"].text.strip()
    if not found:
        raise _no_boot_id()
    return found


def _no_boot_id() -> TaskFailed:
    return TaskFailed(
        f"{BOOT_ID} can't be read: nothing would tell whether the host was started anew",
        hint="is /proc mounted there?",
        code="boot-id",
        values={"rebooted": False, "elapsed": 0},
    )


def _same_boot(boot: str, timeout: float, wait: Wait) -> TaskFailed:
    return TaskFailed(
        f"the host was not started anew within {timeout:g} s: it answers, and its boot id is still {boot}",
        hint="does the command restart the machine, or only what klops is connected to?",
        code="not-rebooted",
        values=wait.values,
    )


def _refused(done: Completed, wait: Wait) -> TaskFailed:
    return TaskFailed(
        f"the command that restarts the host ended with {done.rc}{_last_line(done)}",
        hint="it takes root: become: true" if done.rc != 127 else "give another one: reboot_command",
        code="not-rebooted",
        values={**wait.values, "rc": done.rc},
    )


def _last_line(done: Completed) -> str:
    last = (done.error_text.strip() or done.text.strip()).splitlines()[-1:]
    return f": {last[0]}" if last else ""


def _state(wait: Wait) -> str:
    if wait.anew:
        return "the host is back, and not ready yet"
    if isinstance(wait.error, HostUnreachable):
        return "the host is away"
    return "the host goes down"


def _pauses() -> Iterator[float]:
    pause, most = PAUSES
    while True:
        yield pause * random.uniform(0.8, 1.2)  # noqa: S311 - jitter
        pause = min(1.5 * pause, most)


def _pause(seconds: float, ctx: Context, message: str) -> None:
    """Sleep in short pieces: a progress line is also where an interrupted run ends."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        ctx.progress(Progress(message))
        time.sleep(min(left, _TICK))
