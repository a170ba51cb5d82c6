from __future__ import annotations

import pytest

from klops.cards.identity import Card, normalise_bdf, numbers


@pytest.mark.parametrize(
    "text",
    ["00000000:9A:00.0", "0000:9a:00", "9a:00.0", "0000:9A:00.0\n", "00000000:9a:00.7"],
)
def test_every_spelling_of_an_address_is_one(text: str) -> None:
    assert normalise_bdf(text) == "0000:9a:00"


def test_a_domain_is_kept() -> None:
    assert normalise_bdf("00000001:03:00.0") == "0001:03:00"


@pytest.mark.parametrize("text", ["", "xpu0", "9a:00.8", "0x9a:00.0", "GPU-1234", "12:34:56"])
def test_what_is_no_address(text: str) -> None:
    assert normalise_bdf(text) == ("" if text != "12:34:56" else "0012:34:56")


def test_identity_holds_no_reading() -> None:
    idle = Card(0, 2, "/dev/xpu2", "0000:03:00", "GPU-1", "SN1", memory_used_mib=0, utilisation=0)
    busy = Card(0, 2, "/dev/xpu2", "0000:03:00", "GPU-1", "SN1", memory_used_mib=90440, utilisation=99)
    assert idle.identity() == busy.identity()
    assert idle.as_json() != busy.as_json()


def test_row_C16_the_numbers_of_a_card_are_told_together() -> None:
    card = Card(6, 5, "/dev/xpu5", "0000:b6:00")
    assert numbers(card, 2) == "host 6 = container 2 = /dev/xpu5 = 0000:b6:00"
    assert numbers(card, 2, 0) == "rank 0 = host 6 = container 2 = /dev/xpu5 = 0000:b6:00"
    assert numbers(card, None) == "host 6 = not in the container = /dev/xpu5 = 0000:b6:00"
    assert "PCI address unknown" in numbers(Card(6, 5, "/dev/xpu5"), 2)
