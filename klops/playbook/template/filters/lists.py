"""Filters and tests for lists. Those that compare lists keep the order of the first appearance.

Playbooks may name parameters, so they are called as in Ansible: ``a``, ``b``, ``r``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from jinja2 import Environment, pass_environment
from jinja2.filters import do_unique
from jinja2.runtime import Undefined

from klops.playbook.template.filters.given import kind, listed, wrong


def _once(items: Sequence[Any]) -> list[Any]:
    try:
        return list(dict.fromkeys(items))
    except TypeError:  # dictionaries and lists among them
        found: list[Any] = []
        for item in items:
            if item not in found:
                found.append(item)
        return found


@pass_environment
def unique(
    environment: Environment, value: Any, case_sensitive: bool | None = None, attribute: Any = None
) -> list[Any]:
    """Each item once."""
    items = listed("unique", value)
    try:
        return list(do_unique(environment, items, bool(case_sensitive), attribute))
    except TypeError:
        if case_sensitive is False or attribute:
            raise wrong("unique: these items can't be compared with case_sensitive or attribute") from None
        return _once(items)


def union(a: Any, b: Any) -> list[Any]:
    """What is in either, once."""
    return _once([*listed("union", a), *listed("union", b)])


def intersect(a: Any, b: Any) -> list[Any]:
    """What is in both, once."""
    other = listed("intersect", b)
    return [item for item in _once(listed("intersect", a)) if item in other]


def difference(a: Any, b: Any) -> list[Any]:
    """What is in the first and not in the second, once."""
    other = listed("difference", b)
    return [item for item in _once(listed("difference", a)) if item not in other]


def symmetric_difference(a: Any, b: Any) -> list[Any]:
    """What is in one of them only, once."""
    return [*difference(a, b), *difference(b, a)]


@pass_environment
def extract(environment: Environment, key: Any, container: Any, morekeys: Any = None) -> Any:
    """The item of ``container`` under ``key``, and of that the ones under ``morekeys``."""
    path = [key] if morekeys is None else [key, *(morekeys if isinstance(morekeys, list) else [morekeys])]
    for part in path:
        container = environment.getitem(container, part)
        if isinstance(container, Undefined):
            str(container)  # raises UndefinedError
    return container


def flatten(value: Any, levels: int | None = None, skip_nulls: bool = True) -> list[Any]:
    """The items of lists in the list, ``levels`` deep (all by default), without nulls."""
    found: list[Any] = []
    for item in listed("flatten", value):
        if skip_nulls and (item is None or item in ("None", "null")):
            continue
        if isinstance(item, (list, tuple)) and (levels is None or levels > 0):
            found += flatten(item, None if levels is None else levels - 1, skip_nulls)
        else:
            found.append(item)
    return found


def zipped(*lists: Any) -> list[Any]:
    """The first items together, the second ones and so on, as far as the shortest list goes."""
    return list(zip(*lists, strict=False))


def zip_longest(*lists: Any, fillvalue: Any = None) -> list[Any]:
    """As ``zip``, as far as the longest list goes."""
    return list(itertools.zip_longest(*lists, fillvalue=fillvalue))


def permutations(value: Any, r: int | None = None) -> list[Any]:
    """All orders of ``r`` of the items."""
    return list(itertools.permutations(listed("permutations", value), r))


def combinations(value: Any, r: int) -> list[Any]:
    """All choices of ``r`` of the items."""
    return list(itertools.combinations(listed("combinations", value), r))


def product(*lists: Any) -> list[Any]:
    """Every item of each list with every item of the others."""
    return list(itertools.product(*lists))


def subset(a: Any, b: Any) -> bool:
    """Whether all items are among those of ``b``."""
    other = listed("subset", b)
    return all(item in other for item in listed("subset", a))


def superset(a: Any, b: Any) -> bool:
    """Whether all items of ``b`` are among these."""
    return subset(b, a)


def contains(seq: Any, value: Any) -> bool:
    """Whether the value (or a part of a text) is in it."""
    try:
        return value in seq
    except TypeError:
        raise wrong(f"contains: nothing can be in {kind(seq)}") from None


def is_all(value: Any) -> bool:
    """Whether all items are true."""
    return all(listed("all", value))


def is_any(value: Any) -> bool:
    """Whether one of the items is true."""
    return any(listed("any", value))


FILTERS: dict[str, Callable[..., Any]] = {
    "combinations": combinations,
    "difference": difference,
    "extract": extract,
    "flatten": flatten,
    "intersect": intersect,
    "permutations": permutations,
    "product": product,
    "symmetric_difference": symmetric_difference,
    "union": union,
    "unique": unique,
    "zip": zipped,
    "zip_longest": zip_longest,
}
TESTS: dict[str, Callable[..., bool]] = {
    "all": is_all,
    "any": is_any,
    "contains": contains,
    "issubset": subset,
    "issuperset": superset,
    "subset": subset,
    "superset": superset,
}
