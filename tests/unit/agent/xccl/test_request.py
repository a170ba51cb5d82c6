"""What the verb is asked, and what it refuses before anything is begun."""

from __future__ import annotations

import json
from typing import Any

import pytest

from klops.agent.errors import VerbError
from klops.agent.xccl import request
from klops.cards.xccl.results import Aim


def asked(*inside: int | None, **changes: Any) -> dict[str, Any]:
    """For cards 4, 5 ... with these container numbers, after a way through JSON."""
    cards = [
        {"index": 4 + place, "inside": number, "node": f"/dev/xpu{place}"}
        for place, number in enumerate(inside)
    ]
    aim = Aim(tuple(range(4, 4 + len(inside)))).as_json()
    found: dict[str, Any] = json.loads(json.dumps({"schema": 1, "aim": aim, "cards": cards, **changes}))
    return found


def test_what_is_not_said_is_as_usual() -> None:
    found = request.of(asked(0, 1))
    assert (found.budget, found.limits.rounds, found.limits.timeout, found.limits.start_timeout) == (
        600,
        10,
        20,
        120,
    )
    assert (found.visible_env, found.device_dir, found.backend) == ("XPU_VISIBLE_DEVICES", "/dev", "auto")
    assert (found.sizes, found.scan, found.smi) == (None, False, "")
    assert found.aim.cards == (4, 5)


def test_cards_without_a_number_here_have_no_place() -> None:
    found = request.of(asked(0, None, 2))
    assert (found.chosen, found.absent, found.seated) == ((0, 2), (5,), (4, 6))
    # where none has one there is nothing to choose by, and each has a place
    found = request.of(asked(None, None))
    assert (found.chosen, found.absent, found.seated) == ((), (), (4, 5))


def test_numbers_are_counted_among_all_nodes_that_are_here() -> None:
    # whoever asked doesn't know of the dead cards whose nodes these are: xpu1, xpu10
    found = request.of(asked(0, 1, 2)).numbered(["xpu10", "xpu2", "xpu1", "xpu0"])
    assert [one["inside"] for one in found.cards] == [0, 1, 2]
    found = request.of(asked(0, 1, 2)).numbered(["xpu10", "xpu2", "xpu0"])
    assert [one["inside"] for one in found.cards] == [0, None, 1]
    assert (found.chosen, found.absent) == ((0, 1), (5,))
    assert request.of(asked(0, 1)).numbered([]).chosen == ()


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {},
        asked(),
        asked(0, budget=0),
        asked(0, rounds=0),
        asked(0, sizes=[0]),
        asked(0, backend="mpi"),
        asked(0, visible_env="PATH"),
        asked(0, cards=[]),
        asked(0, aim={**asked(0)["aim"], "cards": [5]}),
        asked(0, timeout="soon"),
        # what no process can be started with
        asked(0, env={"A": "b\0c"}),
        asked(0, env={"A=B": "c"}),
        asked(0, env={"": "c"}),
    ],
)
def test_what_is_no_request(wrong: Any) -> None:
    with pytest.raises(VerbError) as caught:
        request.of(wrong)
    assert caught.value.code == "usage"


def test_one_of_another_klops() -> None:
    with pytest.raises(VerbError) as caught:
        request.of(asked(0, schema=2))
    assert caught.value.code == "newer-schema"
