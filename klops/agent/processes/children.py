"""Children of the supervisor: what they are marked with, and the end of those that were asked something."""

from __future__ import annotations

import contextlib
import os

from klops.agent.processes import identity
from klops.agent.processes.identity import Identity

#: Names the unit a process descends from; a help to tell units apart, never a reason to signal.
MARKER = "KLOPS_UNIT"
#: What it names in a child of the supervisor that is no unit's: no unit can be called that.
NOBODY = "*"


def ask(argv: list[str]) -> tuple[int, int]:
    """Start a program that says something on standard output; its pid, and the descriptor that it comes on.

    Whoever reads that closes it. Raises ``OSError``.
    """
    said, told = os.pipe()
    try:
        pid = os.posix_spawnp(
            argv[0],
            argv,
            {**os.environ, MARKER: f"{NOBODY}:0"},
            # all other descriptors end with the start of the program: it keeps no lock and no socket
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, told, 1),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
        )
    except OSError:
        os.close(said)
        raise
    finally:
        os.close(told)
    return pid, said


def gone(pid: int, who: Identity | None) -> bool:
    """Whether a child has ended that said what it was asked, and then ends by itself.

    It is reaped then, unless somebody was quicker. Nobody waits.

    ``who`` is None for one that had ended before it could be looked at.
    """
    if who is not None and identity.alive(who):
        return False
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return True
