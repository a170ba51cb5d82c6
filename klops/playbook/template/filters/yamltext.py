"""YAML text as PyYAML writes it, so that a file that Ansible made stays the same.

Lists in dictionaries are not indented, and texts are in quotes only where YAML 1.1 would read something else.
Lines longer than ``width`` are folded at spaces.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from klops.yaml11 import read_plain

_BREAKS = "\n\x85\u2028\u2029"
_FIRST = frozenset("#,[]{}&*!|>'\"%@`")
_FLOW = frozenset(",?[]{}:")
_SPECIAL = re.compile("[^\n\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010fffe]")
_NOT_ASCII = re.compile("[^\n\x20-\x7e]")
_ESCAPES = {
    "\0": "0", "\x07": "a", "\x08": "b", "\x09": "t", "\x0a": "n", "\x0b": "v", "\x0c": "f", "\x0d": "r",
    "\x1b": "e", '"': '"', "\\": "\\", "\x85": "N", "\xa0": "_", "\u2028": "L", "\u2029": "P",
}  # fmt: skip


def write(value: Any, *, indent: int, width: int, flow: bool | None, sort_keys: bool, unicode: bool) -> str:
    """``value``, made of dictionaries, lists and single values, as a YAML document.

    ``flow`` None writes lists and dictionaries of single values in one line, False none, True all.
    """
    writer = _Writer(indent, width, flow, sort_keys, unicode)
    writer.node(value, None, in_mapping=False)
    return "".join(writer.parts) + "\n"


class _Writer:
    def __init__(self, indent: int, width: int, flow: bool | None, sort_keys: bool, unicode: bool) -> None:
        self.parts: list[str] = []
        self._column = 0
        self._step = indent
        self._width = width
        self._flow = flow
        self._sort = sort_keys
        self._unicode = unicode

    def node(self, value: Any, indent: int | None, *, in_mapping: bool) -> None:
        """Write a value that stands in a collection at ``indent`` (None: it is the document)."""
        if not isinstance(value, (Mapping, list)):
            self._scalar(value, (indent or 0) + self._step if indent is not None else self._step)
        elif not value or self._in_one_line(value):
            self._in_flow(value, (indent or 0) + self._step if indent is not None else self._step)
        elif isinstance(value, Mapping):
            self._mapping(
                value, 0 if indent is None else indent + self._step, begin=indent is not None and in_mapping
            )
        else:
            # lists in dictionaries stand where the keys do
            own = 0 if indent is None else indent if in_mapping else indent + self._step
            self._sequence(value, own, begin=indent is not None and in_mapping)

    def _mapping(self, value: Mapping[Any, Any], indent: int, *, begin: bool) -> None:
        for key, item in self._entries(value):
            self._line(indent, begin)
            begin = True
            self._scalar(key, indent + self._step, key=True)
            self._put(":")
            if not isinstance(item, (Mapping, list)) or not item or self._in_one_line(item):
                self._put(" ")
            self.node(item, indent, in_mapping=True)

    def _sequence(self, value: list[Any], indent: int, *, begin: bool) -> None:
        for item in value:
            self._line(indent, begin)
            begin = True
            self._put("-")
            block = isinstance(item, (Mapping, list)) and item and not self._in_one_line(item)
            self._put(" " * (self._step - 1 if block else 1))
            self.node(item, indent, in_mapping=False)

    def _in_flow(self, value: Any, indent: int) -> None:
        is_mapping = isinstance(value, Mapping)
        self._put("{" if is_mapping else "[")
        for place, entry in enumerate(self._entries(value) if is_mapping else value):
            if place:
                self._put(",")
            if self._column > self._width:
                self._line(indent, begin=True)
            elif place:
                self._put(" ")
            if is_mapping:
                self._scalar(entry[0], indent + self._step, key=True, flow=True)
                self._put(": ")
            item = entry[1] if is_mapping else entry
            if isinstance(item, (Mapping, list)):
                self._in_flow(item, indent + self._step)
            else:
                self._scalar(item, indent + self._step, flow=True)
        self._put("}" if is_mapping else "]")

    def _entries(self, value: Mapping[Any, Any]) -> Iterable[tuple[Any, Any]]:
        if not self._sort:
            return value.items()
        try:
            return sorted(value.items(), key=lambda entry: entry[0])
        except TypeError:  # keys of several types: as they come
            return value.items()

    def _in_one_line(self, value: Any) -> bool:
        if self._flow is not None:
            return self._flow
        items = [*value, *value.values()] if isinstance(value, Mapping) else value
        return not any(isinstance(item, (Mapping, list)) for item in items)

    # -- single values ---------------------------------------------------------------------------------------

    def _scalar(self, value: Any, indent: int, *, key: bool = False, flow: bool = False) -> None:
        if not isinstance(value, str):
            self._put(_plain_text(value))
            return
        breaks = any(letter in value for letter in _BREAKS)
        special = (_SPECIAL if self._unicode else _NOT_ASCII).search(value) is not None
        folded = re.search(f"[{_BREAKS}] | [{_BREAKS}]", value) is not None
        if not breaks and not special and _may_be_plain(value, flow):
            self._folding(value, indent, quoted=False, fold=not key)
        elif special or folded or (key and breaks):
            self._escaped(value, indent, fold=not key)
        else:
            self._put("'")
            self._folding(value, indent, quoted=True, fold=not key)
            self._put("'")

    def _folding(self, text: str, indent: int, *, quoted: bool, fold: bool) -> None:
        """A text without escapes; a line too long is folded where a single space stands."""
        done = 0
        for run in re.finditer(f" +|[{_BREAKS}]+|[^ {_BREAKS}]+", text):
            part = run.group()
            inside = run.start() > 0 and run.end() < len(text)
            if part == " " and fold and self._column > self._width and inside:
                self._line(indent, begin=True)
            elif part[0] in _BREAKS:
                # one more than there are: YAML reads a single one as a space
                self.parts.append(("\n" if part[0] == "\n" else "") + part)
                self._column = 0
                self._put(" " * indent)
            else:
                self._put(part.replace("'", "''") if quoted else part)
            done = run.end()
        assert done == len(text)  # noqa: S101 - the three kinds of runs are all there are

    def _escaped(self, text: str, indent: int, *, fold: bool) -> None:
        self._put('"')
        start = 0
        for place in range(len(text) + 1):
            letter = text[place] if place < len(text) else None
            if letter is None or self._needs_escape(letter):
                self._put(text[start:place])
                start = place
                if letter is not None:
                    self._put("\\" + _escape(letter))
                    start = place + 1
            inner = 0 < place < len(text) - 1 and (letter == " " or start >= place)
            if inner and fold and self._column + (place - start) > self._width:
                self._put(text[start:place] + "\\")
                start = max(start, place)
                self._line(indent, begin=True)
                if text[start] == " ":
                    self._put("\\")
        self._put('"')

    def _needs_escape(self, letter: str) -> bool:
        if letter in '"\\\x85\u2028\u2029\ufeff' or letter == "\n":
            return True
        if "\x20" <= letter <= "\x7e":
            return False
        return not (self._unicode and ("\xa0" <= letter <= "\ud7ff" or "\ue000" <= letter <= "\ufffd"))

    # -- places ----------------------------------------------------------------------------------------------

    def _line(self, indent: int, begin: bool) -> None:
        """Begin a line at ``indent``, unless the first entry stands in the one that is there."""
        if begin:
            self.parts.append("\n")
            self._column = 0
            self._put(" " * indent)

    def _put(self, text: str) -> None:
        self.parts.append(text)
        self._column += len(text)


def _plain_text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if not math.isfinite(value):
            return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
        text = repr(value)
        # YAML 1.1 only takes numbers with a dot for floats
        return text if "." in text or "e" not in text else text.replace("e", ".0e", 1)
    return str(value)


def _may_be_plain(text: str, flow: bool) -> bool:
    if (
        not text
        or text[0] == " "
        or text[-1] == " "
        or text.startswith(("---", "..."))
        or text in ("=", "<<")
    ):
        return False
    if not isinstance(read_plain(text), str) or text[0] in _FIRST:
        return False
    if (text[0] in "-?:" and (len(text) == 1 or text[1] == " ")) or (flow and text[0] in "?:"):
        return False
    if flow and any(letter in _FLOW for letter in text):
        return False
    return not (": " in text or text.endswith(":") or " #" in text)


def _escape(letter: str) -> str:
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    code = ord(letter)
    return f"x{code:02X}" if code <= 0xFF else f"u{code:04X}" if code <= 0xFFFF else f"U{code:08X}"
