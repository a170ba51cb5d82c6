"""Device numbers for the cards of a test.

Who holds a card is told by its device number, all over the machine: two tests side by side whose cards had
the same one would see each other's processes on them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from klops.sim import cards, xpu_smi
from klops.sim.layout import STATE
from tests.waiting import until


@contextmanager
def card_numbers(folder: Path) -> Iterator[cards.Numbers]:
    """Numbers that no other test and no rehearsal on this machine uses; needs root.

    ``folder`` stands for the test. They are given back when no process holds a node of them: one that was
    killed does until it has ended. That somebody goes on holding one is an AssertionError.
    """
    (folder / STATE).write_text("{}")  # what a claim lasts as long as
    numbers = cards.claim(folder)
    try:
        yield numbers
    finally:
        try:
            until(lambda: not held(numbers), what=f"nobody holds cards of {numbers}")
        except AssertionError as error:
            who = {pid: _command(pid) for pid in held(numbers)}
            raise AssertionError(f"{error}; who does: {who}") from None
        cards.release(folder)


def held(numbers: cards.Numbers) -> list[int]:
    """Pids of the processes that have a node of these numbers open; this one may be among them."""
    block = {(numbers.major, numbers.first + place) for place in range(cards.CARDS + 1)}
    others = [pid for number, pids in xpu_smi.holders().items() if number in block for pid in pids]
    own = (xpu_smi.device_number(str(fd)) for fd in Path("/proc/self/fd").iterdir())
    return others + [os.getpid()] * any(number in block for number in own)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError as error:
        return str(error)
