"""The look at card holders from outside: who counts as a generation, and who doesn't."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.host.watch import GenerationWatch, supervisor_pid
from tests.rehearsals import missing
from tests.waiting import until

pytestmark = pytest.mark.host

#: Holds a card in a session of its own until its standard input ends; the first one given a socket listens,
#: and a child of its own session holds the card too.
HOLD = """
import os, socket, sys
node, listen = sys.argv[1:]
held = os.open(node, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
if listen:
    server = socket.socket(socket.AF_UNIX)
    server.bind(listen)
    server.listen()
    if os.fork():
        os.close(held)
    else:
        server.close()
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(node: Path, listen: str = "") -> Iterator[int]:
    """A process that holds a node; its pid."""
    argv = [sys.executable, "-ISc", HOLD, str(node), listen]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, start_new_session=True, text=True) as process:
        assert process.stdout is not None
        for _ in range(2 if listen else 1):
            assert process.stdout.readline() == "held\n"
        yield process.pid


def test_the_supervisor_and_its_child_alone_are_no_generation() -> None:
    if reason := missing():
        pytest.skip(reason)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="klops-", dir="/tmp")))
        (directory / "run").mkdir()
        node = directory / "xpu0"
        os.mknod(node, 0o020666, os.makedev(4, 61))  # a console that no rehearsal uses
        watch = stack.enter_context(GenerationWatch(frozenset({node.stat().st_rdev}), directory))

        def seen(*pids: int) -> bool:
            """Whether these processes or their children, and no others, were seen together."""
            moments = watch.moments.copy()
            return any({one.parent or one.pid for one in moment} == set(pids) for moment in moments)

        serving = stack.enter_context(holder(node, str(directory / "run" / "supervisor.sock")))
        assert supervisor_pid(directory) == serving
        unit = stack.enter_context(holder(node))
        until(lambda: seen(serving, unit), what="both are seen")
        until(lambda: watch.supervisors, what="the supervisor's child is told apart")
        assert watch.sessions == {unit}
        assert serving not in {pid for pid, _ in watch.supervisors}
        assert watch.doubles == []
        second = stack.enter_context(holder(node))
        until(lambda: seen(serving, unit, second), what="all three are seen")
        assert {one.pid for one in watch.doubles[0]} == {unit, second}
        assert watch.sessions == {unit, second}
