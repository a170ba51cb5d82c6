"""Notes on cards that are kept out of service: which count, and for which card."""

from __future__ import annotations

from typing import Any

import pytest

from klops.cards.record import quarantine

CARD = {
    "index": 3,
    "minor": 5,
    "node": "/dev/xpu5",
    "bdf": "0000:9a:00",
    "uuid": "GPU-3",
    "serial": "SN3",
}
PROCESS = {"pid": 40, "start": 99, "ns": 7, "name": "VLLM::Worker_TP", "state": "D"}


def note(**changes: Any) -> dict[str, Any]:
    """A note of a supervisor."""
    made = quarantine.note(CARD, "state D", by="unit main", at=5.0, boot_id="b0", process=PROCESS)
    return {**made, **changes}


@pytest.mark.parametrize(("lives", "count"), [(True, 1), (None, 1), (False, 0)])
def test_it_counts_while_its_process_may_live(lives: bool | None, count: int) -> None:
    asked: list[Any] = []

    def look(process: Any) -> bool | None:
        asked.append(process["pid"])
        return lives

    assert len(quarantine.in_force([note()], "b0", 10.0, look)) == count
    assert asked == [40]


def test_a_boot_ends_it() -> None:
    assert quarantine.in_force([note()], "b1", 10.0, lambda process: True) == []


def test_what_a_later_klops_writes_counts_until_it_expires() -> None:
    by_hand = note(kind="hand", process=None, expires=20.0)
    assert quarantine.in_force([by_hand], "b1", 19.0, lambda process: False) == [by_hand]
    assert quarantine.in_force([by_hand], "b1", 20.0, lambda process: False) == []


@pytest.mark.parametrize("expires", [None, "soon", [1], float("nan"), float("inf")])
def test_one_whose_end_is_no_time_has_none(expires: object) -> None:
    by_hand = note(kind="hand", process=None, expires=expires)
    assert quarantine.ends(by_hand) is None
    assert quarantine.in_force([by_hand], "b1", 1e12, lambda process: False) == [by_hand]


def test_what_is_no_note_is_passed_over() -> None:
    assert quarantine.in_force(["x", {}, {"card": 3}, note()], "b0", 1.0, lambda process: None) == [note()]


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ({"uuid": "GPU-3", "index": 0}, True),
        ({"uuid": "GPU-4", "index": 3, "node": "/dev/xpu5"}, False),  # renumbered: another card by now
        ({"uuid": "", "serial": "SN3"}, True),
        ({"bdf": "0000:9a:00"}, True),
        ({"index": 3, "node": "/host/dev/xpu5"}, True),  # nothing better is known
        ({"index": 3, "node": ""}, False),
    ],
)
def test_which_card_is_meant(other: dict[str, Any], same: bool) -> None:
    assert quarantine.same_card(CARD, other) is same
    assert (quarantine.against([note()], other) is not None) is same


def test_a_new_note_replaces_what_was_said_of_the_same_process_and_card() -> None:
    first, later = note(), note(at=9.0)
    other = note(process={**PROCESS, "pid": 41})
    assert quarantine.added([first, other, "x"], later) == [other, "x", later]
    told = quarantine.told(later)
    assert str(told.pop("reason")).startswith("pid 40 (VLLM::Worker_TP, pid of its container) has it open")
    assert told == {"by": "unit main", "at": 9.0, "kind": "unkillable", "expires": None}


def test_which_notes_a_process_that_is_over_leaves_behind() -> None:
    other, by_hand = note(process={**PROCESS, "pid": 41}), note(kind="hand", process=None)
    notes = ["x", note(boot_id="b1"), note(process=None), note(), other, by_hand]
    assert quarantine.outlived(notes, "b0", lambda process: process["pid"] == 40) == [note()]


def exclusion(kind: str, **changes: Any) -> dict[str, Any]:
    """A note of a person, or of a diagnosis."""
    made = quarantine.exclusion(CARD, kind, "why", by="me", at=5.0, boot_id="b0", driver="5", expires=100.0)
    return {**made, **changes}


@pytest.mark.parametrize("kind", [quarantine.HAND, quarantine.VERDICT])
def test_others_stay_over_a_boot_until_they_expire(kind: str) -> None:
    def never(process: Any) -> bool | None:
        raise AssertionError("no process is behind it")

    assert len(quarantine.in_force([exclusion(kind)], "b1", 99.0, never)) == 1
    assert quarantine.in_force([exclusion(kind)], "b1", 100.0, never) == []
    assert len(quarantine.in_force([exclusion(kind, expires=None)], "b1", 1e12, never)) == 1


def test_a_newer_note_of_the_kind_takes_the_place_of_the_old() -> None:
    notes = quarantine.added([exclusion("hand"), note()], exclusion("hand", reason="fan"))
    assert [(one["kind"], one["reason"][:3]) for one in notes] == [("unkillable", "pid"), ("hand", "fan")]


def test_both_may_say_something_of_one_card() -> None:
    assert len(quarantine.added([exclusion("hand")], exclusion("verdict"))) == 2


def test_of_several_notes_on_a_card_the_gravest_is_told() -> None:
    notes = [exclusion("verdict"), exclusion("hand"), exclusion("later"), note()]
    for kind in ("unkillable", "later", "hand", "verdict"):
        told = quarantine.against(notes, CARD)
        assert told is not None
        assert told["kind"] == kind
        notes.remove(dict(told))
    assert quarantine.against(notes, CARD) is None
