"""Text and tables at the width of a terminal: broken between words, and as they are everywhere else. Pure."""

from __future__ import annotations

import re

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

_WORD = re.compile(r"( *)([^ ]+)")


def fold(text: str, width: int, *, hang: int = 2) -> list[str]:
    """One line of text as lines of at most ``width`` cells; those that follow stand ``hang`` further in.

    Broken at blanks only: a path or a command that is too long is left to the terminal, which keeps it whole
    for whoever copies it.
    """
    if cell_len(text) <= width:
        return [text]
    first = " " * (len(text) - len(text.lstrip(" ")))
    lines: list[str] = []
    line = ""
    for blanks, word in _WORD.findall(text.strip(" ")):
        if line and cell_len(line) + len(blanks) + cell_len(word) > width:
            lines.append(line)
            line = ""
        line = line + blanks + word if line else first + " " * (hang if lines else 0) + word
    return [*lines, line]


class Prose:
    """A line of text, folded to the console it is printed on."""

    def __init__(self, text: str, style: str = "", *, hang: int = 2) -> None:
        self._text, self._style, self._hang = text, style, hang

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self._text.split("\n"):
            parts = fold(line, options.max_width, hang=self._hang) if console.is_terminal else [line]
            for part in parts:
                yield Text(part, style=self._style, no_wrap=True, overflow="ignore")


class Trimmed:
    """Something printed without the blanks that tables put at the end of their lines."""

    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in console.render_lines(self._inner, options, pad=False):
            while line and not line[-1].text.strip():
                line.pop()
            if line:
                last = line[-1]
                line[-1] = Segment(last.text.rstrip(), last.style, last.control)
            yield from line
            yield Segment.line()
