"""Unified diffs, applied strictly."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klops.agent.errors import VerbError
from klops.agent.packages import diffing

NAME = "pkg/x.py"


def unified(old: bytes, new: bytes, context: int = 3, name: str = NAME) -> bytes:
    """A diff as git writes it."""
    one, other = (text.decode("latin-1").splitlines(keepends=True) for text in (old, new))
    made = difflib.unified_diff(one, other, f"a/{name}", f"b/{name}", n=context)
    whole = (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in made)
    return "".join(whole).encode("latin-1")


def applied(old: bytes, diff: bytes, file: str = NAME) -> bytes:
    return diffing.apply(old, diff, file).content


def refused(old: bytes, diff: bytes, file: str = NAME) -> VerbError:
    with pytest.raises(VerbError) as caught:
        diffing.apply(old, diff, file)
    return caught.value


texts = st.lists(st.sampled_from([b"a", b"b", b"c", b"", b"-- x", b"++ y", b"@@ z"]), max_size=14).map(
    b"\n".join
)


@given(texts, texts, st.booleans(), st.booleans(), st.sampled_from([0, 1, 3]))
def test_a_diff_makes_the_new_text_of_the_old(
    one: bytes, other: bytes, ends: bool, other_ends: bool, context: int
) -> None:
    """With and without a newline at the end of either."""
    old, new = one + b"\n" * ends, other + b"\n" * other_ends
    if old == new:
        return
    diff = unified(old, new, context)
    assert applied(old, diff) == new
    if b"\n" in old:
        crlf = old.replace(b"\n", b"\r\n")
        assert applied(crlf, diff) == new.replace(b"\n", b"\r\n")


OLD = b"".join(b"line %d\n" % number for number in range(40))


def test_two_hunks() -> None:
    new = OLD.replace(b"line 3\n", b"line three\nand more\n").replace(b"line 30\n", b"")
    assert applied(OLD, unified(OLD, new)) == new


def test_a_hunk_at_one_other_place_is_told() -> None:
    diff = unified(OLD, OLD.replace(b"line 20\n", b"line twenty\n"))
    made = diffing.apply(b"new\nnew\n" + OLD, diff, NAME)
    assert made.content == b"new\nnew\n" + OLD.replace(b"line 20\n", b"line twenty\n")
    assert made.offsets == ((1, 2),)


def test_a_hunk_that_fits_nowhere() -> None:
    diff = unified(OLD, OLD.replace(b"line 3\n", b"x\n").replace(b"line 30\n", b"y\n"))
    failure = refused(OLD.replace(b"line 30\n", b"changed by hand\n"), diff)
    assert failure.code == "patch-conflict"
    assert failure.message == "hunk 2 (line 28) doesn't fit: its lines are nowhere in the file"


def test_a_hunk_that_fits_twice_beside_its_line() -> None:
    block = b"a\nb\nc\n"
    diff = unified(block, b"a\nB\nc\n")
    failure = refused(b"0\n" + block + b"1\n" + block, diff)
    assert failure.code == "patch-conflict"
    assert "its lines are in 2 places" in failure.message


def test_what_stands_at_the_stated_line_counts() -> None:
    block = b"a\nb\nc\n"
    assert applied(block + b"1\n" + block, unified(block, b"a\nB\nc\n")) == b"a\nB\nc\n1\na\nb\nc\n"


def test_crlf_stays_and_mixed_endings_are_exact() -> None:
    diff = unified(b"a\nb\n", b"a\nB\n")
    assert applied(b"a\r\nb\r\n", diff) == b"a\r\nB\r\n"
    assert applied(b"a\nb\n", diff.replace(b"\n", b"\r\n")) == b"a\nB\n"
    assert refused(b"a\r\nb\n", diff).code == "patch-conflict"


def test_a_missing_newline_is_exact() -> None:
    assert refused(b"a\nb", unified(b"a\nb\n", b"a\nB\n")).code == "patch-conflict"
    assert refused(b"a\nb\n", unified(b"a\nb", b"a\nB")).code == "patch-conflict"


def test_of_several_files_the_part_for_the_file() -> None:
    other = unified(b"1\n", b"2\n", name="pkg/other.py")
    git = b"diff --git a/pkg/x.py b/pkg/x.py\nindex 1..2 100644\n"
    diff = other + git + unified(b"a\n", b"b\n")
    assert applied(b"a\n", diff) == b"b\n"
    failure = refused(b"a\n", diff, "pkg/third.py")
    assert failure.code == "bad-diff"
    assert "b/pkg/other.py, b/pkg/x.py" in failure.message


def test_of_one_file_under_another_name() -> None:
    assert (
        applied(b"a\n", b"--- x.py.orig\t2026-08-16\n+++ /home/me/x.py\t2026-08-16\n@@ -1 +1 @@\n-a\n+b\n")
        == b"b\n"
    )


@pytest.mark.parametrize(
    ("diff", "why"),
    [
        (b"", "no file"),
        (b"hello\n", "no file"),
        (b"--- a\n+++ b\n", "the diff is of b"),
        (b"@@ -1 +1 @@\n-a\n+b\n", "before the names"),
        (b"--- a\n+++ b\n@@ -1,2 +1 @@\n-a\n+b\n", "ends too soon"),
        (b"--- a\n+++ b\n@@ -1 +1 @@\n-a\n-b\n+b\n", "more of them"),
        (b"--- a\n+++ b\n@@ nonsense @@\n", "no head"),
        (b"diff --git a/x b/x\nBinary files a/x and b/x differ\n", "binary"),
    ],
)
def test_no_diff(diff: bytes, why: str) -> None:
    failure = refused(b"a\n", diff)
    assert failure.code == "bad-diff"
    assert why in failure.message
