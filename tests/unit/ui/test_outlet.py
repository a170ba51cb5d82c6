"""Output whose reader has gone."""

from __future__ import annotations

import errno
import io
import os

import pytest

from klops.ui.outlet import READER_GONE, Outlet
from klops.ui.terminal import make_console


class Broken(io.StringIO):
    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error
        self.tries = 0

    def write(self, text: str) -> int:
        self.tries += 1
        raise self.error


def test_what_is_written_arrives() -> None:
    stream = io.StringIO()
    outlet = Outlet(stream)
    make_console(outlet).print("hello")
    assert stream.getvalue() == "hello\n"
    assert (outlet.lost, outlet.exit_status) == (None, 0)


@pytest.mark.parametrize(
    ("error", "status"),
    [(BrokenPipeError(errno.EPIPE, "gone"), READER_GONE), (OSError(errno.ENOSPC, "full"), 1)],
)
def test_after_a_failure_it_is_silent_and_tells_by_its_status(error: OSError, status: int) -> None:
    stream = Broken(error)
    outlet = Outlet(stream)
    console = make_console(outlet)
    console.print("one")
    console.print("two")
    assert stream.tries == 1
    assert outlet.lost is error
    assert outlet.exit_status == status


def test_the_buffer_of_a_lost_pipe_can_be_flushed_at_the_end() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        outlet = Outlet(stream)
        outlet.write("x")
        outlet.flush()
        assert outlet.exit_status == READER_GONE
        stream.write("nobody reads this")
        stream.flush()
