"""Jinja2 filters and tests that playbooks take for granted, beyond Jinja2's own."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from klops.playbook.pending import Pending
from klops.secret import Secret

_TRUE = ("true", "yes", "on", "y", "t", "1")
_FALSE = ("false", "no", "off", "n", "f", "0")


def to_bool(value: Any) -> bool:
    """``yes``, ``on``, ``true``, 1 and their opposites; anything else is refused rather than guessed."""
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"bool: {str(value)!r} is neither true nor false")


def to_json(value: Any, indent: int | None = None) -> str:
    """JSON text; secrets stay masked."""
    return json.dumps(value, ensure_ascii=False, default=_plain, indent=indent)


def _plain(value: Any) -> str:
    if isinstance(value, Pending):
        value.fail()
    if isinstance(value, Secret) or hasattr(value, "isoformat"):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def combine(*mappings: Mapping[str, Any]) -> dict[str, Any]:
    """One dictionary of several; later ones win."""
    return {key: value for mapping in mappings for key, value in mapping.items()}


def ternary(value: Any, true: Any, false: Any) -> Any:
    """The second value when the first is true, else the third."""
    return true if value else false


FILTERS: dict[str, Callable[..., Any]] = {
    "basename": posixpath.basename,
    "bool": to_bool,
    "combine": combine,
    "dirname": posixpath.dirname,
    "from_json": json.loads,
    "quote": lambda value: shlex.quote(str(value)),
    "ternary": ternary,
    "to_json": to_json,
    "to_nice_json": lambda value: to_json(value, indent=4),
}


def _state(result: Any, key: str) -> bool:
    if isinstance(result, Pending):
        return bool(result.known(key))
    if not isinstance(result, Mapping):
        raise TypeError(f"'is {key}' asks about a registered result")
    return bool(result.get(key, False))


TESTS: dict[str, Callable[..., bool]] = {
    "changed": lambda result: _state(result, "changed"),
    "failed": lambda result: _state(result, "failed"),
    "match": lambda value, pattern: re.match(pattern, str(value)) is not None,
    "search": lambda value, pattern: re.search(pattern, str(value)) is not None,
    "skipped": lambda result: _state(result, "skipped"),
    "succeeded": lambda result: not _state(result, "failed"),
    "success": lambda result: not _state(result, "failed"),
}
