"""How long a verdict on cards stays good, and how often a card failed in a row."""

from __future__ import annotations

from typing import Any

import pytest

from klops.cards.record.freshness import counted, forgotten, in_a_row, span, stale

CARD = {"index": 3, "bdf": "0000:66:00", "uuid": "GPU-3", "serial": "SN3"}
SAID = {"at": 1000.0, "boot_id": "b0", "driver": "5.0.21.26", "cards": [CARD]}


def why(said: dict[str, Any] | None = None, **changed: Any) -> str:
    asked: dict[str, Any] = {"boot_id": "b0", "driver": "5.0.21.26", "max_age": 60.0, "now": 1050.0}
    cards = changed.pop("cards", [CARD])
    return stale({**SAID, **(said or {})}, cards, **{**asked, **changed})


def test_it_is_good_for_a_while() -> None:
    assert why() == ""
    assert why(now=1061.0) == "the verdict is 1 min old"


def test_a_verdict_from_the_future_is_no_good() -> None:
    """The clock was set back: it would stay good until that time comes."""
    assert why(now=950.0) == "", "a clock that is put right a little"
    assert (
        why(now=900.0) == "the verdict is of a time that is still to come, in 1 min: the clock was set back"
    )


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"boot_id": "b1"}, "the host was booted since"),
        ({"boot_id": ""}, "whether the host was booted since is not known"),
        ({"driver": "5.0.22"}, "the driver is 5.0.22 now, it was 5.0.21.26"),
        ({"now": None}, "how old it is is not known"),
        ({"said": {"at": float("nan")}}, "how old it is is not known"),
        ({"said": {"at": float("inf")}}, "how old it is is not known"),
        ({"cards": [{**CARD, "uuid": "GPU-9"}]}, "card 3 is another one than then"),
    ],
)
def test_what_ends_it(changed: Any, text: str) -> None:
    assert text in why(**changed)


def test_a_driver_that_could_not_be_read_is_no_other_driver() -> None:
    assert why(driver="") == ""
    assert why({"driver": ""}) == ""


def test_the_number_of_a_card_may_change() -> None:
    assert why(cards=[{**CARD, "index": 5}]) == ""


def test_failures_in_a_row() -> None:
    other = {**CARD, "uuid": "GPU-4", "index": 4}
    once = counted([], [(CARD, "fail"), (other, "pass")])
    assert (in_a_row(once, CARD), in_a_row(once, other)) == (1, 0)
    twice = counted(once, [(CARD, "fail"), (other, "fail")])
    assert [in_a_row(twice, one) for one in (CARD, other)] == [2, 1]
    assert counted(twice, [(CARD, "unknown")]) == twice, "what could not be tested has not passed"
    assert [row["n"] for row in counted(twice, [(CARD, "degraded")])] == [1]
    assert in_a_row(forgotten(twice, [other]), CARD) == 2
    assert not in_a_row(forgotten(twice, [other]), other)


def test_a_card_is_counted_as_one_whatever_of_its_names_was_read() -> None:
    address = {"index": 5, "bdf": "0000:66:00", "uuid": "", "serial": ""}
    count: Any = None
    for number, card in enumerate((CARD, address, CARD, address), 1):
        count = counted(count, [(card, "fail")])
        assert len(count) == 1
        assert [in_a_row(count, one) for one in (CARD, address)] == [number, number]
    assert count[0]["card"]["uuid"] == "GPU-3", "what was known of it stays known"


@pytest.mark.parametrize("said", [None, {"GPU-3": 2}, ["x", {"card": CARD}, {"card": 3, "n": 2}]])
def test_a_count_that_can_not_be_read_is_none(said: Any) -> None:
    assert [row["n"] for row in counted(said, [(CARD, "fail")])] == [1]


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (61, "1 min"), (3600, "1 h"), (90000, "1 d")])
def test_lengths_of_time(seconds: float, text: str) -> None:
    assert span(seconds) == text
