"""How long the supervisor rests between two looks."""

from __future__ import annotations

import pytest

from klops.agent import supervisor


@pytest.mark.parametrize(
    ("soonest", "checks", "cost", "expected"),
    [
        (0.1, [], 0.02, 0.1),  # something starts or ends: looks cost what they cost
        (1.0, [60.0], 0.001, 1.0),
        (1.0, [60.0], 0.01, 4.0),
        (1.0, [60.0], 0.1, 10.0),
        (1.0, [4.9, 30.0], 0.1, 4.9),  # however dear a look is, a check begins when its interval is over
        (5.0, [], 0.001, 5.0),
    ],
)
def test_rest(soonest: float, checks: list[float], cost: float, expected: float) -> None:
    assert supervisor.rest(soonest, checks, cost) == pytest.approx(expected)
