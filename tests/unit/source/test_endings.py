"""The rule for line endings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klops.source import endings
from klops.source.endings import Treatment, applied, apply, is_text, treatment
from klops.source.kinds import BINARY, TEXT, WINDOWS, WINDOWS_IF_DECLARED, Kind, kind
from tests.unit.source.repos import init

ANY = [
    ("a.py", {}, Treatment.LF_BY_NAME),
    ("Makefile", {}, Treatment.LF_BY_NAME),
    ("a.PY", {"text": "auto"}, Treatment.LF_BY_NAME),
    ("a.lock", {"text": "set"}, Treatment.LF),
    ("a.lock", {"eol": "crlf"}, Treatment.LF),
    ("shard.1", {}, Treatment.LF_IF_TEXT),
    ("a", {}, Treatment.LF_IF_TEXT),
    ("a", {"text": "auto"}, Treatment.LF_IF_TEXT),
    ("a", {"text": "auto", "eol": "crlf"}, Treatment.LF_IF_TEXT),
    ("a", {"text": "auto", "eol": "lf"}, Treatment.LF_IF_TEXT),
    ("a", {"text": "set"}, Treatment.LF),
    ("a", {"text": "set", "eol": "crlf"}, Treatment.LF),
    ("a", {"eol": "crlf"}, Treatment.LF),
    ("a", {"eol": "lf"}, Treatment.LF),
    ("a", {"crlf": "input"}, Treatment.LF),
    ("a.py", {"text": "unset"}, Treatment.KEEP),
    ("a.py", {"crlf": "unset"}, Treatment.KEEP),
    ("a.py", {"crlf": "unset", "text": "set"}, Treatment.LF),
    ("a.py", {"text": "unset", "eol": "crlf"}, Treatment.KEEP),
    ("a.py", {"working-tree-encoding": "UTF-16"}, Treatment.KEEP),
    ("a.py", {"working-tree-encoding": "utf-8"}, Treatment.LF_BY_NAME),
    ("a.safetensors", {}, Treatment.KEEP),
    ("a.model", {"text": "auto", "eol": "crlf"}, Treatment.KEEP),
    ("a.model", {"text": "set"}, Treatment.LF),
    ("libx.so.1", {}, Treatment.KEEP),
    ("a.bat", {}, Treatment.KEEP),
    ("a.bat", {"text": "set"}, Treatment.KEEP),
    ("a.bat", {"eol": "lf"}, Treatment.KEEP),
    ("a.BAT", {"eol": "crlf"}, Treatment.CRLF),
    ("a.cmd", {"text": "auto", "eol": "crlf"}, Treatment.CRLF_IF_TEXT),
    ("a.ps1", {"text": "unset"}, Treatment.KEEP),
    ("a.sln", {}, Treatment.LF_BY_NAME),
    ("a.sln", {"eol": "crlf"}, Treatment.CRLF),
]


@pytest.mark.parametrize(("path", "attributes", "expected"), ANY)
def test_what_decides(path: str, attributes: dict[str, str], expected: Treatment) -> None:
    assert treatment(f"some folder/{path}", attributes) is expected


@pytest.mark.parametrize(
    ("treated", "before", "after"),
    [
        (Treatment.LF, b"a\r\nb\r\n", b"a\nb\n"),
        (Treatment.LF, b"\r\n\r\n", b"\n\n"),
        (Treatment.LF, b"a\r\r\nb\rc\r", b"a\r\r\nb\rc\r"),
        (Treatment.LF, b"a\0b\r\n", b"a\0b\n"),
        (Treatment.LF, "\ufeffa\r\n".encode(), "\ufeffa\n".encode()),
        (Treatment.LF, "a\r\n".encode("utf-16"), "a\r\n".encode("utf-16")),
        (Treatment.LF, "\ufeffa\r\n".encode("utf-16-be"), "\ufeffa\r\n".encode("utf-16-be")),
        (Treatment.LF, b"\xff\xfe\0\0\r\n", b"\xff\xfe\0\0\r\n"),
        (Treatment.LF, b"\0\0\xfe\xff\r\n", b"\0\0\xfe\xff\r\n"),
        (Treatment.LF_BY_NAME, b"a\r\n\rb\x01\x02\r\n", b"a\n\rb\x01\x02\n"),
        (Treatment.LF_BY_NAME, b"a\0b\r\n", b"a\0b\r\n"),
        (Treatment.KEEP, b"a\r\n", b"a\r\n"),
        (Treatment.LF_IF_TEXT, b"a\r\n", b"a\n"),
        (Treatment.LF_IF_TEXT, b"a\0\r\n", b"a\0\r\n"),
        (Treatment.LF_IF_TEXT, b"a\r\r\n", b"a\r\r\n"),
        (Treatment.LF_IF_TEXT, b"text\r\n\x1a", b"text\n\x1a"),
        (Treatment.CRLF, b"a\nb\r\n\n", b"a\r\nb\r\n\r\n"),
        (Treatment.CRLF, b"a\r\r\n", b"a\r\r\n"),
        (Treatment.CRLF_IF_TEXT, b"a\n", b"a\r\n"),
        (Treatment.CRLF_IF_TEXT, b"a\0\n", b"a\0\n"),
        *((treated, b"", b"") for treated in Treatment),
    ],
)
def test_what_is_done(treated: Treatment, before: bytes, after: bytes) -> None:
    assert apply(treated, before) == after


#: What makes the difference, often.
contents = st.lists(
    st.sampled_from([b"\r", b"\n", b"\r\n", b"a", b"bc ", b"\0", b"\x01", b"\x1a", b"\xff\xfe", b"\t"])
).map(b"".join)


@settings(deadline=None)
@given(st.sampled_from(Treatment), contents)
def test_done_again_it_changes_nothing(treated: Treatment, content: bytes) -> None:
    once = apply(treated, content)
    assert apply(treated, once) == once


@settings(deadline=None)
@given(st.sampled_from(Treatment), contents)
def test_nothing_but_line_ends_is_changed_and_lone_ones_stay(treated: Treatment, content: bytes) -> None:
    after = apply(treated, content)
    assert re.sub(rb"(?<!\r)\r\n", b"\n", after) == re.sub(rb"(?<!\r)\r\n", b"\n", content)
    # that it is another content and that it has another size is the same thing
    assert (len(after) == len(content)) == (after == content)


@settings(deadline=None)
@given(st.sampled_from(Treatment), contents, st.lists(st.integers(0, 200)))
def test_in_chunks_it_is_the_same(treated: Treatment, content: bytes, cuts: list[int]) -> None:
    at = [0, *sorted(min(cut, len(content)) for cut in cuts), len(content)]
    chunks = [content[start:end] for start, end in pairwise(at)]
    # a byte order mark is looked for in the first chunk, which a file's is never too short for
    if len(chunks[0]) < 4:
        chunks = [content]
    assert b"".join(applied(treated, len(content), chunks)) == apply(treated, content)


def test_a_long_file_of_no_known_kind_stays_and_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "LONGEST_JUDGED", 10)
    read = []

    def chunks(number: int) -> Iterator[bytes]:
        for at in range(number):
            read.append(at)
            yield b"line\r\n"

    stream = applied(Treatment.LF_IF_TEXT, 18, chunks(3))
    assert next(stream) == b"line\r\n"
    assert read == [0]
    assert b"".join(stream) == b"line\r\n" * 2
    assert b"".join(applied(Treatment.LF, 18, chunks(3))) == b"line\n" * 3
    # of one that is text by its name only the beginning is held
    read.clear()
    stream = applied(Treatment.LF_BY_NAME, 30, chunks(5))
    assert next(stream) == b"line"
    assert read == [0, 1]
    assert b"".join(stream) == b"\n" + b"line\n" * 4


@pytest.mark.parametrize("at", range(14))
def test_a_zero_byte_counts_where_a_file_is_judged(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    monkeypatch.setattr(endings, "LONGEST_JUDGED", 8)
    content = bytearray(b"a\r\nb\r\nc\r\nd\r\n??")
    content[at] = 0
    for size in (1, 3, 14):
        chunks = [bytes(content[start : start + size]) for start in range(0, 14, size)]
        after = b"".join(applied(Treatment.LF_BY_NAME, 14, chunks))
        assert after == (content if at < 8 else apply(Treatment.LF, bytes(content)))
        assert apply(Treatment.LF_BY_NAME, after) == after


#: Bytes in the proportions at which the judgement turns.
judged = st.builds(
    lambda plain, odd, more: b"x" * plain + b"\x02" * odd + more,
    st.integers(0, 400),
    st.integers(0, 4),
    st.sampled_from(
        [b"", b"\r\n", b"\n", b"\r", b"\0", b"\x1a", b"\x7f", b"\x1b[0m", b"\x08", b"\x0b", b"\x0c", b"\x80"]
    ),
)


@settings(max_examples=5, deadline=None)
@given(st.lists(judged, min_size=60, max_size=120))
def test_content_is_judged_as_git_does(tmp_path_factory: pytest.TempPathFactory, all_: list[bytes]) -> None:
    repo = init(tmp_path_factory.mktemp("judged"))
    repo.commit({f"{number}": content for number, content in enumerate(all_)})
    by_git = {}
    for line in repo.git("ls-files", "--eol", "-z").decode().split("\0")[:-1]:
        said, _, name = line.partition("\t")
        by_git[int(name)] = not said.startswith("i/-text")
    assert by_git == {number: is_text(content) for number, content in enumerate(all_)}


def test_no_kind_is_of_two_lists() -> None:
    lists = (BINARY, TEXT, WINDOWS, WINDOWS_IF_DECLARED)
    assert sum(map(len, lists)) == len(frozenset().union(*lists))
    assert all(name == name.lower() for one in lists for name in one)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".gitignore", Kind.TEXT),
        (".py", Kind.UNKNOWN),
        ("a.", Kind.UNKNOWN),
        ("folder.py/file", Kind.UNKNOWN),
        ("a.tar.gz", Kind.BINARY),
        ("a.so.1.2.3", Kind.BINARY),
        ("a.so.txt", Kind.TEXT),
    ],
)
def test_kinds(path: str, expected: Kind) -> None:
    assert kind(path) is expected
