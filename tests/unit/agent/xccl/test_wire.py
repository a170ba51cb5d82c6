"""Messages of ranks: whole ones, however they arrive, and nothing else."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from klops.agent.xccl.ranks import wire

MESSAGES: list[dict[str, Any]] = [
    {"stage": "init"},
    {"us": [1.5, 2.0], "text": "Grüße\nand a line"},
    {"idle": True},
]


@given(st.lists(st.integers(0, 80), max_size=6))
def test_messages_are_put_together_from_any_pieces(cuts: list[int]) -> None:
    data = b"".join(map(wire.line, MESSAGES))
    edges = [0, *sorted(cuts), len(data)]
    lines, found = wire.Lines(), []
    for begin, end in zip(edges, edges[1:]):  # noqa: B905, RUF007 - runs on Python 3.8
        found += lines.feed(data[begin:end])
    assert found == MESSAGES


def test_what_is_no_message_is_passed_over() -> None:
    noise = b"XCCL libbkcl.so loaded\n[1]\n\xff\xfe\n" + b"[" * 100000 + b"\n"
    assert wire.Lines().feed(noise + wire.line(MESSAGES[0])) == MESSAGES[:1]


def test_a_line_without_end_is_not_kept() -> None:
    lines = wire.Lines()
    assert lines.feed(b"x" * (wire.LONGEST + 1)) == []
    assert lines.feed(wire.line(MESSAGES[0])) == MESSAGES[:1]


def test_pipes_keep_off_the_numbers_that_ranks_are_given() -> None:
    ends = wire.pipe()
    assert min(ends) > max(wire.ASK, wire.TELL)
    assert not any(map(os.get_inheritable, ends))
    os.write(ends[1], b"x")
    assert os.read(ends[0], 2) == b"x"
    for end in ends:
        os.close(end)
