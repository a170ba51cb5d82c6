"""What a start asks of a card, and whether a stop gave it back."""

from __future__ import annotations

import pytest

from klops.cards import memory
from klops.cards.memory import SLACK, Held, Short, Use
from klops.cards.smi.machine import parse_machine

LINE = '00000000:9A:00.0 4 4 SN04 36 0 0 0 86 1450 1450 1450 1450 1450 1450 2 96 {} 98304 0 1.0 "P800 OAM"'
A, B = "0000:9a:00", "0000:9b:00"


def test_uses_of_what_the_tool_prints() -> None:
    rows = parse_machine(f"a driver's warning\n{LINE.format(90440)}\n00000000:9B:00.0 5 5 SN05 36 0 0")
    assert memory.uses(rows) == {A: Use(90440, 98304, 0)}


@pytest.mark.parametrize(
    ("args", "share"),
    [
        ([], 0.9),
        (["--gpu-memory-utilization", "0.75"], 0.75),
        (["--gpu-memory-utilization=0.75"], 0.75),
        (["--gpu_memory_utilization", "0.75"], 0.75),
        (["--gpu_memory_utilization=0.5", "--gpu-memory-utilization", "0.6"], 0.6),
        (["--gpu-memory-utilization"], None),
        (["--gpu-memory-utilization", "much"], None),
        (["--gpu-memory-utilization", "nan"], None),
        (["--gpu-memory-utilization", "7"], None),
        (["--config", "/etc/vllm.yaml"], None),
        (["--config=/etc/vllm.yaml", "--gpu-memory-utilization", "0.8"], 0.8),
    ],
)
def test_the_share_that_is_asked_for(args: list[str], share: float | None) -> None:
    assert memory.utilisation(["vllm", "serve", "/m", *args]) == share


def test_another_program_asks_for_what_nobody_knows() -> None:
    assert memory.utilisation(["python3", "serve.py", "--gpu-memory-utilization", "0.5"]) is None
    assert memory.utilisation(["vllm"]) is None


def test_short_is_what_vllm_itself_would_refuse() -> None:
    total = 98304
    asked = int(0.9 * total)
    enough, less = Use(total - asked, total), Use(total - asked + 1, total)
    assert memory.short({A: 0.9, B: 0.9}, {A: enough, B: less}) == [Short(B, less, asked)]
    assert memory.short({A: 0.9}, {}) == []  # not known is not short


def test_returned_allows_for_those_who_only_look() -> None:
    now = {A: Use(100 + SLACK, 98304), B: Use(SLACK + 1, 98304)}
    assert memory.returned({A: 100}, now) == []
    assert memory.returned({A: 100, B: 0}, now) == [Held(B, SLACK + 1, 0)]
    assert memory.returned({A: 100, "0000:aa:00": 0}, now) is None
    # a stranger who was there before and is gone by now
    assert memory.returned({A: 90000}, now) == []
