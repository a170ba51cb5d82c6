"""Text of crontabs."""

from __future__ import annotations

import pytest

from klops.commands.cron import lines_of, text_of, with_entry


@pytest.mark.parametrize("end", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\r"])
def test_only_a_newline_ends_a_line(end: str) -> None:
    text = f"# was:{end}* * * * * root rm -rf /srv\n\nA=1\n"
    lines = lines_of(text, listed=False)
    assert text_of(lines) == text
    assert text_of(with_entry(lines, "x", "@daily true")) == f"{text}#Ansible: x\n@daily true\n"


def test_no_text_has_no_lines() -> None:
    assert lines_of("", listed=True) == []
    assert lines_of("a", listed=False) == lines_of("a\n", listed=False) == ["a"]
