"""Which expected card is absent, new, or elsewhere: by identity."""

from __future__ import annotations

import pytest

from klops.cards.evidence.expected import compare
from klops.cards.identity import Card

CARDS = tuple(
    Card(i, minor, f"/dev/xpu{minor}", f"0000:{bus}:00", f"GPU-{i}", f"SN{i}")
    for i, (minor, bus) in enumerate(((2, "9a"), (0, "9b"), (1, "aa"), (3, "ab")))
)
LEARNED = [card.identity() for card in CARDS]


@pytest.mark.parametrize("name", ["GPU-1", "gpu-1", "SN1", "00000000:9B:00.0", "9b:00.0", " SN1 "])
def test_a_card_is_found_by_what_stays_with_it(name: str) -> None:
    assert compare(CARDS, 4, {1: name}) == ()


@pytest.mark.parametrize("name", ["", "1", "GPU", "0000:9c:00"])
def test_and_never_by_its_number(name: str) -> None:
    assert [one.kind for one in compare(CARDS, 4, {1: name})] == ["absent"]


def test_all_as_expected_is_no_finding() -> None:
    wanted = {0: "GPU-0", 1: "SN1", 2: "aa:00.0", 3: "GPU-3"}
    assert compare(CARDS, 4, wanted, LEARNED) == ()


def test_an_absent_card_is_named_and_no_other_is_blamed() -> None:
    left = [card for card in CARDS if card.index != 3]
    count, absent = compare(left, 4, learned=LEARNED)
    assert (count.kind, count.severity, count.card) == ("count", "fail", None)
    assert (absent.kind, absent.severity, absent.card) == ("absent", "fail", 3)
    assert absent.text == "GPU-3 of the cards known from before is absent: no source knows it"


def test_row_C16_of_cards_counted_anew_the_absent_one_is_told_by_identity() -> None:
    # card 1 is gone, and the tool calls the others 0, 1, 2 now
    anew = [
        Card(i, card.minor, card.node, card.bdf, card.uuid, card.serial)
        for i, card in enumerate(card for card in CARDS if card.index != 1)
    ]
    found = {(one.kind, one.card): one.text for one in compare(anew, 4, learned=LEARNED)}
    assert set(found) == {("count", None), ("absent", None), ("moved", 1), ("moved", 2)}
    assert "card 1 (GPU-1)" in found["absent", None]
    assert "card 1 was card 2" in found["moved", 1]


def test_row_C16_a_renumbered_node_is_told_and_the_card_stays_itself() -> None:
    moved = [Card(c.index, (c.minor + 1) % 4, f"/dev/xpu{(c.minor + 1) % 4}", c.bdf, c.uuid) for c in CARDS]
    found = compare(moved, 4, learned=LEARNED)
    assert [one.kind for one in found] == ["moved"] * 4
    assert {one.severity for one in found} == {"note"}
    assert "its node was xpu2 and is /dev/xpu3" in found[0].text


def test_a_replaced_card_is_new_and_the_old_one_absent() -> None:
    other = Card(3, 3, "/dev/xpu3", "0000:ab:00", "GPU-9", "SN9")
    found = {one.kind: one for one in compare([*CARDS[:3], other], 4, learned=LEARNED)}
    assert set(found) == {"absent", "new"}
    assert found["absent"].card is None  # its number is another card's now
    assert found["new"].card == 3


def test_settings_that_name_a_card_elsewhere_or_twice() -> None:
    moved, twice = compare(CARDS, 4, {0: "GPU-1", 2: "SN1"})
    assert (moved.kind, moved.card, moved.severity) == ("moved", None, "degraded")
    assert moved.text == "klops.cards.identities has GPU-1 as card 0, but it is card 1 now"
    assert twice.kind == "twice"


def test_what_the_settings_tell_is_told_once() -> None:
    found = compare(CARDS[:3], 4, {3: "SN3"}, LEARNED)
    assert [one.kind for one in found] == ["count", "absent"]


def test_more_cards_than_expected_are_a_note() -> None:
    (one,) = compare(CARDS, 3)
    assert (one.kind, one.severity) == ("count", "note")


def test_cards_that_a_whole_list_leaves_out() -> None:
    assert [(one.kind, one.card) for one in compare(CARDS, 3, {0: "SN0", 1: "SN1", 2: "SN2"})] == [
        ("count", None),
        ("new", 3),
    ]
    assert compare(CARDS, 4, {0: "SN0"}) == ()


def test_a_learned_card_without_identity_says_nothing() -> None:
    assert compare(CARDS, 4, learned=[{"index": 0, "node": "/dev/xpu9"}]) == ()
