"""Exit statuses of the contract."""

from __future__ import annotations

import pytest

from klops import errors
from klops.errors import CommandFailed, KlopsError, Location, Mistake, SourceErrors, exit_status


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [((), 0), ((0, 3), 3), ((3, 1), 1), ((1, 4, 3), 4), ((4, 130), 130), ((2, 4), 2), ((0, 0), 0)],
)
def test_of_several_statuses_the_worst_is_the_one(statuses: tuple[int, ...], expected: int) -> None:
    assert exit_status(statuses) == expected


def test_every_error_has_a_code_of_its_own() -> None:
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, KlopsError)]
    codes = [c.code for c in classes]
    assert sorted(codes) == sorted(set(codes))


def test_all_mistakes_of_a_file_are_told_in_order_of_their_place() -> None:
    error = SourceErrors(
        [
            Mistake(Location("b.yml", 3, 1), "second", "did you mean port?"),
            Mistake(Location("b.yml", 2, 9), "first"),
        ]
    )
    assert error.message == "b.yml:2:9: first\nb.yml:3:1: second (did you mean port?)"
    assert error.exit_status == 2


def test_a_copy_with_another_text_leaves_the_error_as_it_is() -> None:
    first = CommandFailed("one", rc=3, stdout="out", hint="do", values={"a": 1})
    other = first.but(message="two", values={})
    assert (type(other), str(other), other.rc, other.stdout, other.hint) == (
        CommandFailed,
        "two",
        3,
        "out",
        "do",
    )
    assert (str(first), first.values, other.values) == ("one", {"a": 1}, {})
    sources = SourceErrors([Mistake(Location("f", 1, 2), "wrong")])
    assert sources.but(hint="x").mistakes == sources.mistakes
