from __future__ import annotations

import pytest

from klops.cards.xccl import bandwidth
from klops.cards.xccl.results import OK, Outcome, Sample

MIB = 1 << 20


def outcome(*samples: tuple[int, float]) -> Outcome:
    return Outcome((0, 1), OK, samples=tuple(Sample(size, 10, us=us) for size, us in samples))


@pytest.mark.parametrize(
    ("count", "us", "gbps"),
    [
        # p800.md 3.5 has 0.13 ms and 19.3 GB/s for 2.6 MB over eight cards; its time is rounded
        (2_600_000, 134.7, 19.3),
        (1_000_000_000, 1_000_000, 1.0),
        (256 * MIB, 0.0, 0.0),
    ],
)
def test_algorithm_bandwidth(count: int, us: float, gbps: float) -> None:
    assert bandwidth.algorithm(count, us) == pytest.approx(gbps, rel=0.001)


@pytest.mark.parametrize(("world", "factor"), [(1, 0.0), (2, 1.0), (4, 1.5), (8, 1.75)])
def test_bus_bandwidth_is_that_of_nccl_tests(world: int, factor: float) -> None:
    assert bandwidth.bus(20.0, world) == pytest.approx(20.0 * factor)


def test_the_largest_size_that_was_timed() -> None:
    found = bandwidth.largest(outcome((MIB, 50.0), (16 * MIB, 900.0), (256 * MIB, 0.0)))
    assert found is not None
    assert found.bytes == 16 * MIB
    assert bandwidth.largest(outcome((MIB, 0.0))) is None
    assert bandwidth.largest(outcome()) is None


def test_against_the_baseline_the_worst_size_counts() -> None:
    run = outcome((MIB, 100.0), (16 * MIB, 1000.0))
    full, slow = bandwidth.algorithm(MIB, 100.0), bandwidth.algorithm(16 * MIB, 1000.0) / 0.6
    assert bandwidth.against(run, {MIB: full, 16 * MIB: slow}) == pytest.approx(0.6)


def test_small_messages_are_latency_and_do_not_count() -> None:
    run = outcome((64 << 10, 4000.0), (MIB, 100.0))
    assert bandwidth.against(run, {64 << 10: 9.0, MIB: bandwidth.algorithm(MIB, 100.0)}) == pytest.approx(1.0)
    assert bandwidth.against(run, {64 << 10: 9.0}) is None


@pytest.mark.parametrize("baseline", [{}, {2 * MIB: 5.0}, {MIB: 0.0}])
def test_nothing_to_compare(baseline: dict[int, float]) -> None:
    assert bandwidth.against(outcome((MIB, 100.0)), baseline) is None


def test_what_was_not_timed_is_not_compared() -> None:
    assert bandwidth.against(outcome((MIB, 0.0)), {MIB: 5.0}) is None
