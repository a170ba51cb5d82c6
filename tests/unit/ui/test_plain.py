from __future__ import annotations

from klops.ui.plain import printable


def test_escape_sequences_go_and_other_controls_show() -> None:
    assert printable("a\x1b[31mb\x1b[0m\tc\nd\x1b]0;t\x07e\x08f\x9bg") == "ab\tc\nde?f?g"


def test_text_in_any_script_is_kept() -> None:
    assert printable("模型 é 🙂") == "模型 é 🙂"
