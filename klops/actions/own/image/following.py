"""A docker command that brings an image, followed line by line with what the host itself shows beside it.

Docker says little to what is no terminal: nothing at all while it reads an archive, one line a layer while it
pulls. So a shell beside it prints, again and again, how far the archive has been read, and how much room is
left on docker's disk: that moves as long as anything arrives.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from klops.actions.base import Context
from klops.errors import Interrupted, TaskFailed

#: Seconds without a line of docker's and without a change beside it, after which a command is given up: more
#: than checking the digest of the largest layer takes.
STALLED = 600.0
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
    _rest: bytes = b""
    _seen: str = ""
    _since: float = field(default_factory=time.monotonic)

    def __call__(self, piece: bytes) -> None:
        *whole, self._rest = (self._rest + piece).split(b"\n")
        for line in whole:
            self._line(line.decode("utf-8", "replace").strip("\r"))
        idle = time.monotonic() - self._since
        if idle > STALLED:
            raise TaskFailed(
                f"{self.what} was given up: nothing has moved for {idle:.0f} s",
                code="image-stalled",
                hint="journalctl -u docker on the host may tell more",
            )

    def _line(self, line: str) -> None:
        if not line.startswith(BESIDE):
            self.followed.lines.append(line)
            self._moved()
            self.on_line(line)
            return
        value = line[len(BESIDE) :].strip()
        if value != self._seen:
            self._seen = value
            self._moved()
        numbers = value.split()
        if len(numbers) == 2 and all(map(str.isdigit, numbers)):
            position, free = map(int, numbers)
            self.on_beside(position, free * 1024)

    def _moved(self) -> None:
        self._since = time.monotonic()


def follow(
    ctx: Context,
    argv: list[str],
    what: str,
    *,
    on_line: Callable[[str], None],
    on_beside: Callable[[int, int], None],
) -> Followed:
    """Run one of the commands above to its end, however long that takes, as long as something moves.

    ``on_beside`` gets the bytes that have been read, and those that are free on docker's disk.

    What raises in the middle (an interrupt, a stall) ends the command on the host.
    """
    followed = Followed()
    watch = _Watch(what, followed, on_line, on_beside)
    try:
        followed.rc = ctx.remote.stream(argv, on_stdout=watch, on_stderr=followed.errors.append)
    except Interrupted as error:
        # the remote names the command, which is a script here; what it says of its end is worth keeping
        _, interrupted, end = error.message.partition("was interrupted")
        raise Interrupted(f"{what} {interrupted or 'was interrupted'}{end}", hint=error.hint) from error
    return followed
