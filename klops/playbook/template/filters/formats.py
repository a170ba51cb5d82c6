"""Filters for JSON and YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from klops.errors import SourceErrors
from klops.playbook.template.filters.given import kind, text, wrong
from klops.playbook.template.pending import Pending
from klops.secret import Secret
from klops.yamlsource import parse, to_python

_DOCUMENT = re.compile(r"^---(?=\s|$)", re.MULTILINE)


def plain(value: Any) -> Any:
    """What stands for a value that JSON has no form for: a secret's mask, a date's text."""
    if isinstance(value, Pending):
        value.fail()
    if isinstance(value, Secret):
        return str(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise wrong(f"{kind(value)} has no JSON form")


def to_json(value: Any, **options: Any) -> str:
    """JSON text, secrets masked; ``indent``, ``sort_keys``, ``ensure_ascii``, ``separators`` as in Python."""
    allowed = ("indent", "sort_keys", "ensure_ascii", "separators")
    for name in options:
        if name not in allowed:
            raise wrong(f"to_json: {name!r} is none of {', '.join(allowed)}")
    return json.dumps(value, default=plain, **options)


def to_nice_json(value: Any, indent: int = 4, sort_keys: bool = True, **options: Any) -> str:
    """JSON text for people."""
    return to_json(value, indent=indent, sort_keys=sort_keys, **options)


def from_json(value: Any, profile: str | None = None) -> Any:
    """The value of a JSON text."""
    if profile is not None:
        raise wrong("from_json: klops knows no profiles: leave it out")
    try:
        return json.loads(text(value))
    except ValueError as error:
        raise wrong(f"from_json: {error}") from None


def from_yaml(value: Any) -> Any:
    """The value of a YAML text (YAML 1.1, as in playbooks)."""
    try:
        return to_python(parse(text(value), "from_yaml"))
    except SourceErrors as error:
        raise wrong(str(error)) from None


def from_yaml_all(value: Any) -> list[Any]:
    """The values of the documents of a YAML text."""
    first, *others = _DOCUMENT.split(text(value))
    return [from_yaml(part) for part in ([first] if first.strip() or not others else []) + others]


def to_yaml(value: Any, indent: int = 2, default_flow_style: bool | None = None, **options: Any) -> str:
    """YAML text, lists and dictionaries of single values in one line; ``indent``, ``width``..."""
    allowed = ("width", "sort_keys", "allow_unicode")
    for name in options:
        if name not in allowed:
            raise wrong(f"to_yaml: {name!r} is none of indent, default_flow_style, {', '.join(allowed)}")
    from klops.playbook.template.filters.yamltext import write

    return write(
        _for_yaml(value),
        indent=indent,
        width=options.get("width", 80),
        flow=default_flow_style,
        sort_keys=options.get("sort_keys", True),
        unicode=options.get("allow_unicode", True),
    )


def to_nice_yaml(value: Any, indent: int = 4, default_flow_style: bool | None = False, **options: Any) -> str:
    """YAML text for people, one value to a line."""
    return to_yaml(value, indent=indent, default_flow_style=default_flow_style, **options)


def _for_yaml(value: Any) -> Any:
    """``value`` made of the types that a YAML text can hold."""
    if isinstance(value, Mapping):
        return {_for_yaml(key): _for_yaml(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_for_yaml(item) for item in value]
    if isinstance(value, (str, int, float)) or value is None:
        return value
    return plain(value)


FILTERS: dict[str, Callable[..., Any]] = {
    "from_json": from_json,
    "from_yaml": from_yaml,
    "from_yaml_all": from_yaml_all,
    "to_json": to_json,
    "to_nice_json": to_nice_json,
    "to_nice_yaml": to_nice_yaml,
    "to_yaml": to_yaml,
}
