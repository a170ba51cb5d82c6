"""The command line as the audit log keeps it: what ``-e`` gives is nobody's business."""

from __future__ import annotations

import pytest

from klops.cli.arguments import masked
from klops.secret import MASK, Redactor, Secret

KEY = "obviously-a-secret"


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        (["up", "p800", "--check"], ["up", "p800", "--check"]),
        (["up", "h", "-e", f"key={KEY}"], ["up", "h", "-e", f"key={MASK}"]),
        (
            ["up", "-e", f"a={KEY} b='x {KEY}' c=\"y z\"", "h"],
            ["up", "-e", f"a={MASK} b={MASK} c={MASK}", "h"],
        ),
        (["up", f"-ekey={KEY}", "h"], ["up", f"-ekey={MASK}", "h"]),
        (["up", f"-vCekey={KEY}", "h"], ["up", f"-vCekey={MASK}", "h"]),
        (["up", f"--extra-vars=key={KEY}", "h"], ["up", f"--extra-vars=key={MASK}", "h"]),
        (["up", "--extra-vars", f'{{"key": "{KEY}"}}', "h"], ["up", "--extra-vars", MASK, "h"]),
        (["up", "-e", "@vars.yml", "h"], ["up", "-e", "@vars.yml", "h"]),
        (["up", "-e"], ["up", "-e"]),
        (["exec", "h", "--", "sed", "-e", "s=a=b="], ["exec", "h", "--", "sed", "-e", "s=a=b="]),
    ],
)
def test_values_of_variables_are_masked(typed: list[str], shown: list[str]) -> None:
    assert masked(typed, str) == shown


def test_a_known_secret_is_masked_wherever_it_stands() -> None:
    redactor = Redactor()
    redactor.add(Secret(KEY))
    assert masked(["exec", "h", "--", "curl", f"-H{KEY}"], redactor)[-1] == f"-H{MASK}"
