"""By which driver what was found is judged."""

from __future__ import annotations

import pytest

from klops.cards.evidence import driver

PROC = "KUNLUN driver module a b c d e f 5.0.21.26\n"


@pytest.mark.parametrize(
    ("proc", "told", "known"),
    [
        (PROC, "515.58", "5.0.21.26"),
        (PROC, "5.0.21.47", "5.0.21.26"),
        ("", "515.58", ""),
        ("", "5.0.21.47", "5.0.21.47 (xpu-smi)"),
        ("", "", ""),
    ],
)
def test_the_driver_s_own_word_counts_and_a_shim_s_never(proc: str, told: str, known: str) -> None:
    assert driver.known(proc, told) == known


@pytest.mark.parametrize(
    ("now", "then", "changed"),
    [
        ("5.0.21.47", "5.0.21.26", True),
        ("5.0.21.47 (xpu-smi)", "5.0.21.26 (xpu-smi)", True),
        ("5.0.21.47", "5.0.21.26 (xpu-smi)", False),
        ("5.0.21.47 (xpu-smi)", "5.0.21.26", False),
        ("5.0.21.47", "5.0.21.47", False),
        ("", "5.0.21.47", False),
        ("5.0.21.47", "", False),
    ],
)
def test_only_versions_of_one_source_are_compared(now: str, then: str, changed: bool) -> None:
    assert driver.changed(now, then) is changed
