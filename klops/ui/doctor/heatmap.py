"""The matrix of pairs on a terminal: a heat map where there are colours, else the same words."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from klops.ui.doctor.pairs import Matrix, explained, speed

#: Cells of a field: a word and a blank, or three characters and a blank.
_WIDE, _NARROW = 7, 4
_LABEL = 4
_INDENT = 2
#: How a field looks -> its style; a terminal with fewer colours takes the nearest.
_STYLES: Mapping[str, str] = {
    "good": "black on rgb(120,200,120)",
    "fair": "black on rgb(190,220,110)",
    "poor": "black on rgb(240,210,90)",
    "slow": "black on rgb(250,170,60)",
    "flaky": "black on rgb(250,150,70)",
    "wrong": "bold white on rgb(190,30,40)",
    "error": "bold white on rgb(190,30,40)",
    "timeout": "bold white on rgb(130,20,60)",
    "none": "dim",
}


class HeatMap:
    """Algorithm bandwidth of pairs in GB/s; each stands twice, so that a card has all of its own in a row."""

    def __init__(self, matrix: Matrix) -> None:
        self._matrix = matrix

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        cards = self._matrix.cards
        short = _INDENT + _LABEL + _WIDE * len(cards) > options.max_width
        width = _NARROW if short else _WIDE
        yield _line("pairs, GB/s at the largest size:")
        yield _line(" " * _LABEL + "".join(f"{card:>{width - 1}} " for card in cards))
        for row in cards:
            line = _line(f"{row:>{_LABEL - 1}}")
            for column in cards:
                field = self._matrix.at(row, column)
                line.append(" ")
                if field is None:
                    line.append(f"{'.' if row == column else '-':>{width - 1}}", style=_STYLES["none"])
                else:
                    line.append(f"{speed(field, short=short):>{width - 1}}", style=_STYLES[field.look])
            yield line
        legend = ", ".join(explained(status, short=short) for status in self._matrix.statuses)
        if legend:
            yield _line(legend)


def _line(text: str) -> Text:
    return Text(" " * _INDENT + text.rstrip(), no_wrap=True, overflow="ignore")
