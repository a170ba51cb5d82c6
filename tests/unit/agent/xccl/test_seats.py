"""Which card each rank has, by what ranks have open."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klops.agent.xccl.ranks.seats import seat

CARDS = (4, 5, 6, 7)


def test_in_the_order_of_the_list() -> None:
    found = seat(CARDS, dict(enumerate(CARDS)))
    assert (found.places, found.sure, found.note) == ({4: 0, 5: 1, 6: 2, 7: 3}, True, "")


def test_in_another_order() -> None:
    found = seat(CARDS, {0: 6, 1: 7, 2: 4, 3: 5})
    assert found.places == {6: 0, 7: 1, 4: 2, 5: 3}
    assert found.sure
    assert found.note == (
        "the runtime's order is another than the list's: place 0 has card 6, place 1 has card 7,"
        " place 2 has card 4, place 3 has card 5"
    )


def test_a_rank_that_failed_has_what_nobody_else_has() -> None:
    found = seat(CARDS, {0: 6, 2: 4, 3: 5}, failed=[1])
    assert found.places[7] == 1
    assert found.sure


def test_of_several_that_failed_it_is_not_known_which_has_which() -> None:
    # in the order of the list there is no reason to think that just these are not
    assert seat(CARDS, {0: 4, 3: 7}, failed=[1, 2]) == ({4: 0, 5: 1, 6: 2, 7: 3}, True, "", ())
    found = seat(CARDS, {0: 6, 2: 4}, failed=[1, 3])
    # all that is told of them is that they failed, and both did
    assert (found.places, found.sure) == ({6: 0, 4: 2, 5: 1, 7: 3}, True)
    assert "; which of cards 5, 7 is at which of the places whose rank failed is not known" in found.note


def test_a_rank_that_failed_may_have_a_card_that_is_not_tested() -> None:
    # card 9 is dead and not of these: the rank at place 1 opened it, and those after it are one off
    found = seat(CARDS, {0: 4, 2: 5, 3: 6}, failed=[1], others=True)
    assert (found.sure, found.unknown) == (True, (7,))
    assert found.note.endswith("; which card a rank had that failed is not known, as there are cards that"
        " aren't tested: nothing is said of card 7")  # fmt: skip
    assert "place 1 has" not in found.note
    # as the list has it, or among all cards that there are, it can only be its own
    assert seat(CARDS, {0: 4, 2: 6, 3: 7}, failed=[1], others=True).unknown == ()
    assert seat(CARDS, {0: 4, 2: 5, 3: 6}, failed=[1]).places[7] == 1


@pytest.mark.parametrize(
    "read",
    [
        {0: 4, 1: 5, 2: 6, 3: None},
        {0: 4, 1: 4, 2: 6, 3: 7},
        {0: 4, 1: 5, 2: 6, 3: 1},
    ],
)
def test_what_names_no_card_for_each_is_not_believed(read: dict[int, int | None]) -> None:
    found = seat(CARDS, read)
    assert found.places == {4: 0, 5: 1, 6: 2, 7: 3}
    assert not found.sure
    assert "the order of the list of visible cards is assumed" in found.note


def test_a_runtime_that_opens_every_node_in_every_rank_goes_by_the_list() -> None:
    nobody: dict[int, int | None] = dict.fromkeys(range(4))
    found = seat(CARDS, nobody)
    assert (found.places, found.sure) == ({4: 0, 5: 1, 6: 2, 7: 3}, True)
    assert "the order of the list of visible cards is assumed" in found.note
    # unless it was asked for another
    assert not seat(CARDS, nobody, reordered=True).sure
    # one of which nobody heard has its place in the list as well
    assert seat(CARDS, {0: None, 1: None, 3: None}, failed=[2]).sure


def test_none_came_up() -> None:
    found = seat(CARDS, {}, failed=[0, 1, 2, 3])
    assert (found.places, found.sure) == ({4: 0, 5: 1, 6: 2, 7: 3}, False)


@given(st.permutations(CARDS), st.sets(st.integers(0, 3)), st.booleans())
def test_every_card_always_has_one_place(order: list[int], failed: set[int], others: bool) -> None:
    read: dict[int, int | None] = {place: card for place, card in enumerate(order) if place not in failed}
    found = seat(CARDS, read, sorted(failed), others=others)
    assert not set(found.unknown) & {card for card in read.values() if card is not None}
    assert sorted(found.places) == sorted(CARDS)
    assert sorted(found.places.values()) == [0, 1, 2, 3]
    if len(failed) < 4:
        assert all(found.places[card] == place for place, card in enumerate(order) if place not in failed)
