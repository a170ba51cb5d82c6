"""Names and versions of distributions."""

from __future__ import annotations

import pytest

from klops.agent.packages import names


@pytest.mark.parametrize(
    ("name", "expected"),
    [("vllm_kunlun", "vllm-kunlun"), ("Jinja2", "jinja2"), ("ruamel.yaml", "ruamel-yaml"), ("a-_.b", "a-b")],
)
def test_normal(name: str, expected: str) -> None:
    assert names.normal(name) == expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.0.0", "1"),
        ("0.0.0+torch25", "0+torch25"),
        ("3.0.0+b2cde523", "3+b2cde523"),
        ("0.15.1.dev0", "0.15.1.dev0"),
        ("0.15.1dev", "0.15.1.dev0"),
        ("v2.5.1", "2.5.1"),
        ("1.0-Alpha.1", "1a1"),
        ("1.0c2", "1rc2"),
        ("1.0.post2", "1.post2"),
        ("1.0-2", "1.post2"),
        ("1!2.0", "1!2"),
        ("1.0+CU-128_04", "1+cu.128.4"),
        ("2024.10.0", "2024.10"),
        ("no version", "no version"),
    ],
)
def test_canonical(version: str, expected: str) -> None:
    assert names.canonical(version) == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("5.2", "5.2.0", True),
        ("0.15.1", "0.15.1+cu128", False),
        ("1.0.0.1", "1.0", False),
        ("2.5.1", "2.5.1rc1", False),
    ],
)
def test_same(one: str, other: str, expected: bool) -> None:
    assert names.same(one, other) is expected


def test_public() -> None:
    assert names.public("0.0.0+torch25") == "0.0.0"
    assert names.public("5.2.0") == "5.2.0"
