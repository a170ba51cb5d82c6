"""Variables for people to look at: secret values are masked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

from klops.inventory.variables import SETTINGS
from klops.secret import MASK, Secret

_PASSWORD = re.compile(r"ansible_\w*pass(word|phrase|wd)?")
#: a secret's name in a line of a file, and what follows it up to its value
_NAMED = re.compile(
    r"""(?<![\w.-])["']?(?:ansible_\w*pass(?:word|phrase|wd)?|api_key|index_url)["']?\s*(?::\s+|=\s*|:(?=["']))"""
)
_TO_THE_END = re.compile(r".*\S")
_WORD = re.compile(r"""(?:[^\s"']|"(?:[^"\\]|\\.)*"?|'[^']*'?)+""")
_IN_BRACES = re.compile(r""""(?:[^"\\]|\\.)*"?|'(?:[^']|'')*'?|\[[^]]*\]?|\{[^}]*\}?|[^,}]*[^,}\s]""")
#: user and password in a URL
_LOGIN = re.compile(r"""(?<=://)[^/\s"']+(?=@)""")
#: what may stand for a value and is none: a template, or where the secret comes from
_NO_VALUE = re.compile(r"""["']?\{\{|\{\s*["']?(?:env|file|command)\b""")


def is_secret(path: Sequence[str]) -> bool:
    """Whether the variable or setting at a path holds a secret."""
    if _PASSWORD.fullmatch(path[0]):
        return True
    return len(path) == 4 and (path[0], path[1], path[3]) == (SETTINGS, "services", "api_key")


def _has_password(path: tuple[str, ...], value: Any) -> bool:
    """Whether it is a URL that is refused, since it has a user or a password in it."""
    if path == (SETTINGS, "stack", "options", ""):
        return _LOGIN.search(str(value)) is not None
    return path == (SETTINGS, "stack", "index_url") and "@" in str(value)


def masked(value: Any, path: tuple[str, ...] = ()) -> Any:
    """The same value with every secret as ``********``; where a secret comes from ({env: NAME}) is none."""
    if isinstance(value, Secret):
        return MASK
    if path and is_secret(path) and not isinstance(value, dict) and value is not None:
        return MASK
    if _has_password(path, value):
        return MASK
    if isinstance(value, dict):
        return {key: masked(item, (*path, str(key))) for key, item in value.items()}
    if isinstance(value, list):
        return [masked(item, (*path, "")) for item in value]
    return value


def masked_line(line: str, column: int = 0) -> tuple[str, int]:
    """A line of an inventory in any of its forms, its secrets masked, and where ``column`` is now.

    Columns count from 1; one within a secret is moved to its beginning. The line need not be right: what
    can't be told from a secret is hidden with it.
    """
    shown, done, moved = "", 0, column
    for start, end in sorted((*_named(line), *(login.span() for login in _LOGIN.finditer(line)))):
        if start < done:
            continue
        shown += line[done:start] + MASK
        done = end
        if column > done:
            moved += len(MASK) - (done - start)
        elif column > start:
            moved -= column - start - 1
    return shown + line[done:], moved


def _named(line: str) -> Iterator[tuple[int, int]]:
    """From where to where values stand that have a secret's name before them."""
    for named in _NAMED.finditer(line):
        start = named.end()
        first = not line[: named.start()].strip(" -\t")
        value = (_TO_THE_END if first else _IN_BRACES if ":" in named[0] else _WORD).match(line, start)
        if value is not None and not _NO_VALUE.match(line, start):
            yield start, value.end()


def with_text_keys(value: Any) -> Any:
    """The same value with every key as JSON writes it, so that keys of several types can be sorted."""
    if isinstance(value, dict):
        return {_key(key): with_text_keys(item) for key, item in value.items()}
    return [with_text_keys(item) for item in value] if isinstance(value, list) else value


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    return as_json(key) if isinstance(key, date) else json.dumps(key)


def as_json(value: object) -> str:
    """What JSON has no form for: dates as ISO 8601, anything else as its text."""
    return value.isoformat() if isinstance(value, date) else str(value)
