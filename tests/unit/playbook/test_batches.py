"""Orders and batches of hosts."""

from __future__ import annotations

import pytest

from klops.playbook.plays.batches import batches, ordered, too_many

FIVE = ["b", "a", "e", "d", "c"]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("inventory", "baedc"),
        ("reverse_inventory", "cdeab"),
        ("sorted", "abcde"),
        ("reverse_sorted", "edcba"),
    ],
)
def test_order(order: str, expected: str) -> None:
    assert ordered(FIVE, order) == list(expected)


def test_shuffle_loses_nobody() -> None:
    assert sorted(ordered(FIVE, "shuffle")) == sorted(FIVE)


@pytest.mark.parametrize(
    ("serial", "sizes"),
    [
        ((), [10]),
        ((3,), [3, 3, 3, 1]),
        ((1, "50%"), [1, 5, 4]),
        (("1%",), [1] * 10),
        (("25%", 0), [2, 8]),
        ((1, 2, "100%"), [1, 2, 7]),
    ],
)
def test_batches_as_ansible_makes_them(serial: tuple[int | str, ...], sizes: list[int]) -> None:
    hosts = [f"h{number}" for number in range(10)]
    found = batches(hosts, serial)
    assert [len(batch) for batch in found] == sizes
    assert [host for batch in found for host in batch] == hosts


@pytest.mark.parametrize(("failed", "most", "expected"), [(1, 33.3, True), (1, 34, False), (0, 0, False)])
def test_a_play_ends_above_the_percentage_not_at_it(failed: int, most: float, expected: bool) -> None:
    assert too_many(failed, 3, most) is expected
    assert not too_many(3, 3, None)
    assert not too_many(1, 2, 50)
