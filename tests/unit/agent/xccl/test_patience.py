"""How long ranks may be silent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klops.agent.xccl.patience import LEAST, TIMES, Patience


def test_the_whole_one_until_a_collective_went_well() -> None:
    patience = Patience(20.0)
    assert patience.of(fresh=False) == 20.0
    patience.learn(0.4)
    assert patience.of(fresh=False) == 5.0
    patience.learn(0.8)
    assert patience.of(fresh=False) == 8.0
    # what is to count gets all of it
    assert patience.of(fresh=True) == 20.0


@pytest.mark.parametrize(("silences", "seconds"), [((0.01,), LEAST), ((0.6, 0.1), 6.0), ((3.0,), 20.0)])
def test_after_that_far_longer_than_healthy_ones(silences: tuple[float, ...], seconds: float) -> None:
    patience = Patience(20.0)
    for silence in silences:
        patience.learn(silence)
    assert patience.of(fresh=False) == pytest.approx(seconds)


@given(st.lists(st.floats(0.0, 100.0)), st.floats(0.1, 600.0))
def test_never_more_than_is_set_nor_less_than_healthy_ones_take(silences: list[float], whole: float) -> None:
    patience = Patience(whole)
    for silence in silences:
        patience.learn(silence)
    found = patience.of(fresh=False)
    assert found <= whole
    assert found >= min(whole, LEAST, TIMES * max(silences, default=whole))
