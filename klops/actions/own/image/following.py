"""A docker command that brings an image, followed line by line with what the host itself shows beside it.

Docker says little to what is no terminal: nothing at all while it reads an archive, one line a layer while it
pulls. So a shell beside it prints, again and again, how far the archive has been read, and how much room is
left on docker's disk. Others write there too: only much less of it is a sign that something arrives, and
while there is no better one the engine itself is asked whether it still answers.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from klops.actions.base import Context
from klops.commands import docker
from klops.errors import CommandTimeout, DockerUnavailable, Interrupted, KlopsError, TaskFailed

#: Seconds without any sign of life after which a command is given up: more than checking the digest of the
#: largest layer takes.
STALLED = 600.0
#: Bytes by which the room on docker's disk must get less to be such a sign.
WRITTEN = 64 * 1024**2
#: Seconds with no other sign than that, after which a command is given up: the largest layer, slowly pulled.
LONGEST = 6 * 3600.0
#: Seconds with no other sign until the engine is asked, and between two questions; the answers that have to
#: stay away one after the other, and the seconds that each may take.
ASK, SILENT, ANSWER = 120.0, 2, 14.0
#: How a line begins that the shell prints, and not docker.
BESIDE = "@@klops-image "

# What is beside the command ends when its output does: a lost link must not leave it behind. PIPE is ignored
# so that printf says so; the group is that of this one command.
_BESIDE = """
{ trap '' PIPE
  while :; do
    %s
    free=$(df -Pk -- %s 2>/dev/null | while read -r _ _ _ free _; do echo "$free"; done | tail -n 1)
    printf '%s%%s %%s\\n' "${at:-0}" "${free:-0}" || kill 0
    sleep 1 </dev/null >/dev/null 2>&1
  done; } &
beside=$!
%s
rc=$?
kill "$beside"
exit $rc
"""


def reading(argv: tuple[str, ...], path: str, disk: str) -> list[str]:
    """The command with a file as its standard input; beside it how many bytes of that have been read.

    The file goes through a pipe, so that the command ends with what feeds it, also where it runs by sudo and
    can't be signalled. ``disk`` is a path on docker's disk.
    """
    position = "read -r _ at </proc/$$/fdinfo/3"
    beside = _BESIDE % (position, shlex.quote(disk), BESIDE, f"cat <&3 | {shlex.join(argv)}")
    return ["sh", "-c", f"exec 3<{shlex.quote(path)}\n{beside}"]


def fetching(argv: tuple[str, ...], disk: str) -> list[str]:
    """The command; beside it the room that is left on docker's disk."""
    return ["sh", "-c", _BESIDE % (":", shlex.quote(disk), BESIDE, shlex.join(argv))]


@dataclass
class Followed:
    """What a command said, and its exit status."""

    rc: int = 0
    lines: list[str] = field(default_factory=list)
    errors: list[bytes] = field(default_factory=list)

    @property
    def output(self) -> str:
        """Lines on its standard output."""
        return "\n".join(self.lines)

    @property
    def text(self) -> str:
        """All it said, standard error last."""
        return self.output + "\n" + b"".join(self.errors).decode("utf-8", "replace")


@dataclass
class _Watch:
    """Whole lines out of pieces of output, and how long nothing has moved."""

    what: str
    followed: Followed
    on_line: Callable[[str], None]
    on_beside: Callable[[int, int], None]
    #: whether the engine answers
    answers: Callable[[], bool]
    _rest: bytes = b""
    _position: int = 0
    #: the most room that there was since it last got less
    _free: int = 0
    #: the last sign of life, and the last that is surely docker's
    _since: float = field(default_factory=lambda: time.monotonic())
    _sure: float = field(default_factory=lambda: time.monotonic())
    _asked: float = 0.0
    _silent: int = 0

    def __call__(self, piece: bytes) -> None:
        *whole, self._rest = (self._rest + piece).split(b"\n")
        for line in whole:
            self._line(line.decode("utf-8", "replace").strip("\r"))
        now = time.monotonic()
        if now - max(self._sure, self._asked) > ASK:
            self._ask()
        idle, vague = now - self._since, now - self._sure
        if idle > STALLED:
            raise self._given_up(f"nothing has moved for {idle:.0f} s")
        if vague > LONGEST:
            raise self._given_up(f"for {vague:.0f} s docker has said nothing")

    def _ask(self) -> None:
        """Raises :class:`DockerUnavailable` when the engine has given no answer again and again."""
        self._silent = 0 if self.answers() else self._silent + 1
        self._asked = time.monotonic()
        if self._silent >= SILENT:
            raise DockerUnavailable(
                f"{self.what} was given up: the docker engine hangs: `docker version` got no answer "
                f"{self._silent} times",
                code="docker-hangs",
                hint="on the host: systemctl status docker; journalctl -u docker -n 100",
            )

    def _given_up(self, why: str) -> TaskFailed:
        return TaskFailed(
            f"{self.what} was given up: {why}",
            code="image-stalled",
            hint="journalctl -u docker on the host may tell more",
        )

    def _line(self, line: str) -> None:
        if not line.startswith(BESIDE):
            self.followed.lines.append(line)
            self._moved()
            self.on_line(line)
            return
        numbers = line[len(BESIDE) :].split()
        if len(numbers) == 2 and all(map(str.isdigit, numbers)):
            position, free = int(numbers[0]), int(numbers[1]) * 1024
            if position > self._position:
                self._position = position
                self._moved()
            self._free = max(self._free, free)
            if self._free - free >= WRITTEN:
                self._free = free
                self._since = time.monotonic()
            self.on_beside(position, free)

    def _moved(self) -> None:
        self._since = self._sure = time.monotonic()
        self._silent = 0


def follow(
    ctx: Context,
    argv: list[str],
    what: str,
    prefix: tuple[str, ...],
    *,
    on_line: Callable[[str], None],
    on_beside: Callable[[int, int], None],
) -> Followed:
    """Run one of the commands above to its end, as long as something moves.

    ``prefix`` is how docker is called. ``on_beside`` gets the bytes that have been read, and those that are
    free on docker's disk. What raises in the middle (an interrupt, a stall) ends the command on the host.
    """
    followed = Followed()

    def answers() -> bool:
        try:
            ctx.remote.clone().run(docker.version(prefix), timeout=ANSWER, check=False)
        except (CommandTimeout, DockerUnavailable):
            return False
        except KlopsError:
            return True  # the connection's fault: nothing is known of the engine
        return True

    watch = _Watch(what, followed, on_line, on_beside, answers)
    try:
        followed.rc = ctx.remote.stream(argv, on_stdout=watch, on_stderr=followed.errors.append)
    except Interrupted as error:
        # the remote names the command, which is a script here; what it says of its end is worth keeping
        _, interrupted, end = error.message.partition("was interrupted")
        raise Interrupted(f"{what} {interrupted or 'was interrupted'}{end}", hint=error.hint) from error
    return followed
