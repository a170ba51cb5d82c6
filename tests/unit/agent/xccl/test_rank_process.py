"""What is seen of a rank's process that ends by itself."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

from klops.agent.xccl.ranks import process
from tests.waiting import until

#: Seconds that the program waits before it ends.
WAITS = 0.5


def program(path: Path, *, asked: bool) -> str:
    """One that waits, once it was ``asked`` or as it begins, and is ended as by a library's watchdog."""
    path.write_text(
        textwrap.dedent(
            f"""\
            import os, time
            from klops.agent.xccl.ranks import wire
            if {asked}:
                os.write(wire.TELL, wire.line({{"ready": True}}))
                os.read(wire.ASK, 4096)
            time.sleep({WAITS})
            os.abort()
            """
        )
    )
    return str(path)


@pytest.mark.parametrize("asked", [True, False])
def test_a_rank_that_ends_after_a_wait_has_waited_if_it_was_at_work(tmp_path: Path, asked: bool) -> None:
    package = program(tmp_path / "rank.py", asked=asked)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
    rank = process.spawn(package, env, 0, str(tmp_path / "log"), lambda _: None)

    def state(wanted: str) -> bool:
        rank.listen()
        return rank.state == wanted

    try:
        if asked:
            until(lambda: state(process.IDLE), what="it is ready")
            rank.ask({"test": "made up"})
            rank.state = process.BUSY
        until(lambda: state(process.GONE), what="it is gone")
        assert (rank.died, rank.error) == (True, "its rank was killed by signal 6")
        assert (rank.waited >= WAITS) == asked
        assert asked or rank.waited == 0.0
    finally:
        rank.close()
