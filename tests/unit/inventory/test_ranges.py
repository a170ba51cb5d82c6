"""Ranges in host names."""

from __future__ import annotations

import pytest

from klops.inventory.ranges import expand


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("plain", ["plain"]),
        ("h[1:3]", ["h1", "h2", "h3"]),
        ("h[08:10]", ["h08", "h09", "h10"]),
        ("h[9:11]", ["h9", "h10", "h11"]),
        ("h[:2]", ["h0", "h1", "h2"]),
        ("h[1:10:4]", ["h1", "h5", "h9"]),
        ("[a:c].x", ["a.x", "b.x", "c.x"]),
        ("[y:B]", ["y", "z", "A", "B"]),  # Ansible's alphabet: a to z, then A to Z
        ("r[a:b]-[1:2]", ["ra-1", "ra-2", "rb-1", "rb-2"]),
    ],
)
def test_expand(pattern: str, names: list[str]) -> None:
    assert expand(pattern) == names


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("h[3:1]", "backwards"),
        ("h[c:a]", "backwards"),
        ("h[01:100]", "one width"),
        ("h[1:]", "needs its last value"),
        ("h[1:x]", "neither of numbers nor of letters"),
        ("h[1:4:0]", "step '0'"),
        ("h[1:4:-1]", "step '-1'"),
        ("h[1-4]", r"\[FIRST:LAST\]"),
        ("h[1:2", r"\[FIRST:LAST\]"),
        ("h[1:999999999]", "more than 100000"),
        ("h[1:999][1:999]", "998001 names"),
    ],
)
def test_refused(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        expand(pattern)
