"""Which card is gone when xpu-smi shows fewer than are used."""

from __future__ import annotations

import pytest

from klops.cards.identity import Card
from klops.cards.record.presence import is_called, missing


def card(index: int, who: int | None = None) -> Card:
    """The card with this number; ``who`` tells which one it is, by default that of the number."""
    who = index if who is None else who
    return Card(index, index, f"/dev/xpu{index}", f"0000:{who:02x}:00", f"GPU-{who}", f"SN{who}")


ALL = tuple(map(card, range(4)))


def test_none_is_gone() -> None:
    assert missing(range(4), ALL, {}, ()).indexes == ()


def test_a_gap_tells_which_one() -> None:
    found = missing(range(4), [card(0), card(2), card(3)], {}, ())
    assert (found.indexes, found.doubt) == ((1,), "")


def test_where_the_last_one_lacks_it_may_be_any() -> None:
    found = missing(range(4), ALL[:3], {}, ())
    assert found.indexes == (3,)
    assert "which of the cards is gone can't be told" in found.doubt


def test_identities_of_the_settings_tell_that_nothing_was_counted_anew() -> None:
    found = missing(range(4), ALL[:3], {0: "SN0", 1: "gpu-1", 2: "00000000:02:00.0"}, ())
    assert (found.indexes, found.doubt) == ((3,), "")


def test_what_was_learned_tells_who_is_gone() -> None:
    learned = [one.identity() for one in ALL]
    found = missing(range(4), ALL[:3], {}, learned)
    assert found.doubt == ""
    assert found.known[3]["serial"] == "SN3"


def test_cards_that_are_counted_anew_are_a_doubt() -> None:
    learned = [one.identity() for one in ALL]
    found = missing(range(4), [card(0), card(1, 2), card(2, 3)], {}, learned)
    assert found.indexes == (3,)
    assert "card 1 is another one than it was" in found.doubt


@pytest.mark.parametrize(("text", "yes"), [("sn1", True), ("01:00.0", True), ("GPU-2", False), ("", False)])
def test_what_a_card_is_called(text: str, yes: bool) -> None:
    assert is_called(card(1).identity(), text) is yes
