"""Fault specs: all of the contract are read, anything else is refused with the nearest."""

from __future__ import annotations

import pytest

from klops.errors import UsageError
from klops.sim import faults


@pytest.mark.parametrize("spec", faults.EXAMPLES)
def test_every_example_is_read(spec: str) -> None:
    found = faults.parse([spec])
    clean = faults.parse([])
    assert found["specs"] == [spec]
    assert {k: v for k, v in found.items() if k != "specs"} != {
        k: v for k, v in clean.items() if k != "specs"
    }


def test_what_is_read() -> None:
    found = faults.parse(
        [
            *("card=2:wrong:3/10@1MiB", "card=4:slow:0.7", "group=8:error", "vllm=stall"),
            *("pair=6,2:error", "pair=2,3:hang", "pair=7,4:slow:.5"),
        ]
    )
    wrong = {"card": 2, "kind": "wrong", "of": [3, 10], "rounds": [2, 5, 8], "min_bytes": 1048576}
    assert found["cards"] == [wrong, {"card": 4, "kind": "slow", "factor": 0.7}]
    assert found["pairs"] == [
        {"a": 2, "b": 6, "kind": "error"},
        {"a": 2, "b": 3, "kind": "hang"},
        {"a": 4, "b": 7, "kind": "slow", "factor": 0.5},
    ]
    assert found["groups"] == [{"size": 8, "kind": "error"}]
    assert found["vllm"] == "stall"


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("vllm=stal", "vllm=stall"),
        ("card=6:nodemissing", "card=6:node-missing"),
        ("card=9:dead", "the cards 0 to 7"),
        ("pair=2,8:error", "the cards 0 to 7"),
        ("pair=2,2:error", "pair=2,6:error"),
        ("card=2:wrong:11/10", "card=2:wrong:3/10@1MiB"),
        ("card=4:slow:1.5", "card=4:slow:0.7"),
        ("card=4:slow:0.00", "card=4:slow:0.7"),
        ("pair=4,7:slow:2", "pair=4,7:slow:0.2"),
        ("pair=2,3:hangs", "pair=2,3:hang"),
        ("earthquake", "known:"),
        ("", "known:"),
    ],
)
def test_an_unknown_fault_is_refused_with_the_nearest(spec: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        faults.parse(["renumber", spec])
    assert hint in caught.value.hint
    assert caught.value.exit_status == 2


def test_wrong_rounds_are_as_many_as_asked_for() -> None:
    for of in range(1, 21):
        for wrong in range(1, of + 1):
            rounds = faults.wrong_rounds(wrong, of)
            assert len(set(rounds)) == wrong
            assert all(0 < r <= of for r in rounds), (wrong, of, rounds)
