from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from klops.ui.prose import Prose, fold

SENTENCE = "  warning  demo1  the container differs from the settings in more than one thing"


def test_lines_are_broken_between_words_and_hang() -> None:
    assert fold(SENTENCE, 40) == [
        "  warning  demo1  the container differs",
        "    from the settings in more than one",
        "    thing",
    ]


def test_what_fits_is_left_alone() -> None:
    assert fold(SENTENCE, 200) == [SENTENCE]


def test_a_path_is_never_broken() -> None:
    path = "/a/rather/long/path/to/a/file"
    assert fold(f"  no file {path} here", 12) == ["  no file", f"    {path}", "    here"]


@given(st.text("abc 漢字 /"), st.integers(10, 60))
def test_no_word_is_lost_and_only_single_words_stand_out(text: str, width: int) -> None:
    lines = fold(text, width)
    assert " ".join(lines).split() == text.split()
    for line in lines:
        assert cell_len(line) <= width or len(line.split()) <= 1


@pytest.mark.parametrize("terminal", [True, False])
def test_only_a_terminal_is_folded_to(terminal: bool) -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=30, force_terminal=terminal, color_system=None, soft_wrap=True)
    console.print(Prose("word " * 20))
    assert (max(map(len, stream.getvalue().splitlines())) <= 30) is terminal
