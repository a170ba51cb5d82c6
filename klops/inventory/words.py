"""Words of a line as a POSIX shell splits them, each character with its place in the line."""

from __future__ import annotations

from dataclasses import dataclass

_BLANKS = " \t\r\n"
_QUOTES = "'\""


@dataclass(frozen=True)
class Word:
    """A word without its quotes; ``places`` are the indexes of its characters in the line."""

    text: str
    start: int
    places: tuple[int, ...]

    def place(self, index: int) -> int:
        """The index in the line of the word's character at ``index``; of its end for one behind it."""
        if index < len(self.places):
            return self.places[index]
        return self.places[-1] + 1 if self.places else self.start


def split_words(line: str) -> list[Word]:
    """The words of a line; ``#`` begins a comment, in mid-word too, as Python's ``shlex`` has it.

    Raises ``ValueError`` for a quote or escape that isn't closed.
    """
    words: list[Word] = []
    text: list[str] = []
    places: list[int] = []
    start: int | None = None
    quote = ""
    at = 0
    while at < len(line):
        character = line[at]
        if quote:
            following = line[at + 1 : at + 2]
            if character == quote:
                quote = ""
            elif character == "\\" and quote == '"' and following in ('"', "\\"):
                at += 1
                text.append(line[at])
                places.append(at)
            else:
                text.append(character)
                places.append(at)
        elif character in _BLANKS or character == "#":
            if start is not None:
                words.append(Word("".join(text), start, tuple(places)))
                text, places, start = [], [], None
            if character == "#":
                return words
        else:
            start = at if start is None else start
            if character in _QUOTES:
                quote = character
            elif character == "\\":
                at += 1
                if at == len(line):
                    raise ValueError("nothing follows the last backslash")
                text.append(line[at])
                places.append(at)
            else:
                text.append(character)
                places.append(at)
        at += 1
    if quote:
        raise ValueError(f"the quote {quote} is not closed")
    if start is not None:
        words.append(Word("".join(text), start, tuple(places)))
    return words
