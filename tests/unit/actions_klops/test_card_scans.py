"""What a scan comes to that did not go well, alone and where ``klops cards learn`` asks for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from klops.errors import TaskFailed
from klops.remote.fake import Call, reply

from .cardsworld import World

HANGS = {"status": "timeout", "stage": "collective", "error": "no answer within 20 s"}
FOUR = {"world": 4, **HANGS, "runs": 2, "failures": 2}
ONCE = {"world": 8, **HANGS, "status": "flaky", "runs": 3, "failures": 1}


def world(*failed: dict[str, Any], untested: tuple[int, ...] = ()) -> World:
    """All cards work together in a diagnosis; in a scan these groups fail, and for these there is no time."""
    made = World()
    tested = [world for world in (2, 4, 8) if world not in untested]
    rows = [{"world": one, "bytes": 1000000, "us": 100.0, "algbw": 10.0, "wrong": 0} for one in tested]
    said = {"result": {"scan": rows, "failed": failed, "untested": untested}}

    def answer(call: Call) -> object:
        made.asked.append(("xccl", json.loads(call.stdin)))
        return reply(json.dumps(said) + "\n")

    made.remote.on(
        lambda call: call.kind != "read" and "xccl" in call.argv and json.loads(call.stdin)["scan"],
        answer,  # type: ignore[arg-type]
    )
    return made


@pytest.mark.parametrize(
    ("failed", "untested", "code", "message", "hint"),
    [
        (
            (),
            (4, 8),
            "cards-unknown",
            "there was no time for 4, 8 ranks",
            "klops doctor xccl h --scan --budget SECONDS gives it more time",
        ),
        (
            (FOUR,),
            (8,),
            "cards-group",
            "there was no time for 8 ranks; groups of 4 cards failed: no answer within 20 s",
            "klops doctor xccl h finds which card or link is to blame",
        ),
        (
            (ONCE,),
            (),
            "cards-inconclusive",
            "a group of 8 cards failed in 1 of 3 runs: no answer within 20 s",
            "klops doctor xccl h finds which card or link is to blame",
        ),
        (
            (ONCE, FOUR),
            (),
            "cards-group",
            "a group of 8 cards failed in 1 of 3 runs; groups of 4 cards failed: no answer within 20 s",
            "klops doctor xccl h finds which card or link is to blame",
        ),
    ],
)
def test_a_scan_says_which_groups_failed_and_for_which_there_was_no_time(
    failed: tuple[dict[str, Any], ...], untested: tuple[int, ...], code: str, message: str, hint: str
) -> None:
    with pytest.raises(TaskFailed) as raised:
        world(*failed, untested=untested).apply("diagnosed", scan=True)
    assert (raised.value.code, raised.value.message, raised.value.hint) == (code, message, hint)
    assert raised.value.values["scan_failed"] == list(failed)
    assert raised.value.values["scan_untested"] == list(untested)
    assert raised.value.values["summary"] == message.partition(": ")[0]


def test_what_is_learned_takes_one_budget_for_both_tests() -> None:
    host = world()
    host.apply("learned", budget=90)
    first, second = host.verbs("xccl")
    assert (first["scan"], second["scan"]) == (False, True)
    assert first["budget"] == 90
    assert 0 < second["budget"] < 90


@pytest.mark.parametrize(
    ("failed", "untested", "code", "message", "hint"),
    [
        (
            (FOUR,),
            (),
            "cards-group",
            "nothing was learned: groups of 4 cards failed: no answer within 20 s",
            "klops doctor xccl h finds which card or link is to blame",
        ),
        (
            (),
            (8,),
            "cards-unknown",
            "nothing was learned: there was no time for 8 ranks",
            "klops cards learn h --budget SECONDS gives it more time",
        ),
    ],
)
def test_nothing_is_learned_where_the_scan_failed(
    failed: tuple[dict[str, Any], ...], untested: tuple[int, ...], code: str, message: str, hint: str
) -> None:
    host = world(*failed, untested=untested)
    with pytest.raises(TaskFailed) as raised:
        host.apply("learned")
    assert (raised.value.code, raised.value.message, raised.value.hint) == (code, message, hint)
    assert not host.baseline
    # what the diagnosis came to is on record all the same, and shown
    assert host.verdict["result"]["scope"] == raised.value.values["scope"] == "none"
    host.apply("learned", force=True)
    learned = {int(size) for size, of in host.baseline["bandwidth"].items() if "1000000" in of}
    assert learned == {2, 4, 8} - {one["world"] for one in failed} - set(untested)
    assert any(text.endswith(message.removeprefix("nothing was learned: ")) for text in host.stage.warnings)


def test_there_is_no_scan_where_the_diagnosis_says_already_that_not_all_is_well() -> None:
    host = World(bad={5})
    with pytest.raises(TaskFailed, match="nothing was learned, as not all is well"):
        host.apply("learned")
    assert [given["scan"] for given in host.verbs("xccl")] == [False]
