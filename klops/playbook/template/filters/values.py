"""Filters for single values of any type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jinja2.runtime import Undefined

from klops.playbook.template.filters.given import kind, text, wrong
from klops.secret import Secret

_TRUE = ("true", "yes", "on", "y", "t", "1", "1.0")
_FALSE = ("false", "no", "off", "n", "f", "0", "0.0")


def to_bool(value: Any) -> bool:
    """``yes``, ``on``, ``true``, 1 and their opposites; anything else is refused rather than guessed."""
    if isinstance(value, Undefined):
        str(value)  # raises UndefinedError
    word = text(value).strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise wrong(f"bool: {word!r} is neither true nor false")


def ternary(value: Any, true_val: Any, false_val: Any, none_val: Any = None) -> Any:
    """``true_val`` or ``false_val`` by whether the value is; ``none_val`` for a null, when it is given."""
    if value is None and none_val is not None:
        return none_val
    return true_val if value else false_val


def mandatory(value: Any, msg: str | None = None) -> Any:
    """The value itself; an undefined one is a mistake, with a message of one's own."""
    if isinstance(value, Undefined):
        name = value._undefined_name
        raise wrong(msg if msg is not None else f"{name!r} has to be defined here")
    return value


def type_debug(value: Any) -> str:
    """The name of the value's type in Python."""
    return "str" if isinstance(value, Secret) else kind(value)


def truthy(value: Any, convert_bool: bool = False) -> bool:
    """Whether Python takes the value for true; ``convert_bool`` reads words such as ``off`` first."""
    if convert_bool and isinstance(value, str) and value.strip().lower() in (*_TRUE, *_FALSE):
        return to_bool(value)
    return bool(value)


def falsy(value: Any, convert_bool: bool = False) -> bool:
    """The opposite of ``truthy``."""
    return not truthy(value, convert_bool)


FILTERS: dict[str, Callable[..., Any]] = {
    "bool": to_bool,
    "mandatory": mandatory,
    "ternary": ternary,
    "type_debug": type_debug,
}
TESTS: dict[str, Callable[..., bool]] = {"truthy": truthy, "falsy": falsy}
