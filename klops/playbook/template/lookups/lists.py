"""Lookups that arrange what they are given."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Mapping
from typing import Any

from jinja2.exceptions import FilterArgumentError

from klops.playbook.template.filters import dicts
from klops.playbook.template.lookups.base import Context, only, wrong

#: ``[start-]end[/stride][:format]``
_SHORT = re.compile(
    r"(?:(?P<start>-?(?:0x)?[0-9a-fA-F]+)-)?(?P<end>-?(?:0x)?[0-9a-fA-F]+)(?:/(?P<stride>-?\d+))?(?::(?P<format>.+))?"
)
_MOST = 100_000


def _one_level(terms: list[Any]) -> list[Any]:
    return [item for term in terms for item in (term if isinstance(term, (list, tuple)) else [term])]


def _items(context: Context, terms: list[Any], options: dict[str, Any]) -> list[Any]:
    """The items of the terms, one level of lists taken apart."""
    only("items", options, ())
    return _one_level(terms)


def _list(context: Context, terms: list[Any], options: dict[str, Any]) -> list[Any]:
    """The terms as they are."""
    only("list", options, ())
    return terms


def _indexed_items(context: Context, terms: list[Any], options: dict[str, Any]) -> list[Any]:
    """Items with their numbers, from 0."""
    only("indexed_items", options, ())
    return [list(pair) for pair in enumerate(_one_level(terms))]


def _nested(context: Context, terms: list[Any], options: dict[str, Any]) -> list[Any]:
    """Every item of the first list with every one of the next ones."""
    only("nested", options, ())
    if not terms:
        raise wrong("the lookup nested takes one list at least")
    return [_one_level(list(row)) for row in itertools.product(*terms)]


def _together(context: Context, terms: list[Any], options: dict[str, Any]) -> list[Any]:
    """The first items together, the second ones and so on, nulls in place of missing ones."""
    only("together", options, ())
    if not terms:
        raise wrong("the lookup together takes one list at least")
    return [_one_level(list(row)) for row in itertools.zip_longest(*terms)]


def _dict(context: Context, terms: list[Any], options: dict[str, Any]) -> list[Any]:
    """The entries of dictionaries as ``{key: ..., value: ...}``."""
    only("dict", options, ())
    for term in terms:
        if not isinstance(term, Mapping):
            raise wrong(f"the lookup dict takes dictionaries, not {type(term).__name__}")
    return [entry for term in terms for entry in dicts.dict2items(term)]


def _subelements(context: Context, terms: list[Any], options: dict[str, Any]) -> list[Any]:
    """Each item with each element of a list in it; a third term ``{skip_missing: true}`` skips others."""
    only("subelements", options, ("skip_missing",))
    if len(terms) not in (2, 3) or (len(terms) == 3 and not isinstance(terms[2], Mapping)):
        raise wrong("the lookup subelements takes a list, a key, and a dictionary of flags if any")
    flags = {**options, **(terms[2] if len(terms) == 3 else {})}
    only("subelements", flags, ("skip_missing",))
    try:
        found = dicts.subelements(
            terms[0], terms[1], skip_missing=flags.get("skip_missing", False) in (True, "yes")
        )
    except FilterArgumentError as error:
        raise wrong(str(error)) from None
    # the list itself isn't repeated in each item, as in Ansible
    path = terms[1].split(".") if isinstance(terms[1], str) else list(terms[1])
    return [[_without(item, path), element] for item, element in found]


def _without(item: Mapping[str, Any], path: list[str]) -> dict[str, Any]:
    first, *rest = path
    if rest:
        return {**item, first: _without(item[first], rest)}
    return {key: value for key, value in item.items() if key != first}


def _random_choice(context: Context, terms: list[Any], options: dict[str, Any]) -> list[Any]:
    """One of the terms, by chance."""
    only("random_choice", options, ())
    given = terms[0] if len(terms) == 1 and isinstance(terms[0], list) else terms
    return [random.choice(given)] if given else []  # noqa: S311 - nothing secret is made with it


def _sequence(context: Context, terms: list[Any], options: dict[str, Any]) -> list[Any]:
    """Numbers as texts: ``start=1 end=5 stride=2 format=h%02d``, ``count=3``, or short ``1-5/2:h%02d``."""
    return [number for term in (terms or [""]) for number in _numbers(_sequence_options(str(term), options))]


def _sequence_options(term: str, options: Mapping[str, Any]) -> dict[str, Any]:
    names = ("start", "end", "count", "stride", "format")
    only("sequence", options, names)
    found = dict(options)
    short = _SHORT.fullmatch(term.strip())
    if short:
        found.update({key: value for key, value in short.groupdict().items() if value is not None})
        return found
    for word in term.split():
        key, equals, value = word.partition("=")
        if not equals:
            raise wrong(f"the lookup sequence: {word!r} is neither KEY=VALUE nor a range such as 1-5")
        only("sequence", {key: value}, names)
        found[key] = value
    return found


def _numbers(options: Mapping[str, Any]) -> list[str]:
    given = {key: _whole(key, options[key]) for key in ("start", "end", "count", "stride") if key in options}
    start, stride = given.get("start", 1), given.get("stride", 1)
    if ("end" in given) == ("count" in given):
        raise wrong("the lookup sequence takes one of end and count")
    if "count" in given:
        if given["count"] == 0:
            return []
        end = start + (given["count"] - 1) * stride
    else:
        end = given["end"]
    if stride == 0:
        return []
    if (end - start) * stride < 0:
        raise wrong("the lookup sequence: the end lies the other way: change the sign of stride")
    numbers = range(start, end + (1 if stride > 0 else -1), stride)
    if len(numbers) > _MOST:
        raise wrong(f"the lookup sequence: {len(numbers)} numbers are more than {_MOST}")
    template = str(options.get("format", "%d"))
    try:
        return [template % number for number in numbers]
    except (TypeError, ValueError):
        raise wrong(f"the lookup sequence: format {template!r} must have one place such as %02d") from None


def _whole(key: str, value: Any) -> int:
    try:
        return (
            int(value, 0)
            if isinstance(value, str) and value.lower().lstrip("-").startswith("0x")
            else int(value)
        )
    except (TypeError, ValueError):
        raise wrong(f"the lookup sequence: {key}={value!r} is no whole number") from None


LOOKUPS: dict[str, Callable[..., list[Any]]] = {
    "dict": _dict,
    "indexed_items": _indexed_items,
    "items": _items,
    "list": _list,
    "nested": _nested,
    "random_choice": _random_choice,
    "sequence": _sequence,
    "subelements": _subelements,
    "together": _together,
}
