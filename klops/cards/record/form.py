"""Whether what is kept has the form in which klops writes it: somebody may have edited it. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any


def moment(said: Any) -> float | None:
    """A time, epoch seconds; None for what is none, also where it is a number."""
    return said if isinstance(said, (int, float)) and math.isfinite(said) else None


def readable(document: Mapping[str, Any]) -> bool:
    """Whether all that is read of ``verdict.json`` is of its kind; what isn't there at all was not said.

    >>> readable({"result": {"cards": [{"index": 0}]}})
    True
    >>> readable({"result": {"cards": 5}})
    False
    """
    return _listed(document.get("cards"), _said) and _result(document.get("result", {}))


def _said(value: Any) -> bool:
    return isinstance(value, Mapping)


def _result(value: Any) -> bool:
    return (
        _said(value)
        and _listed(value.get("cards"), _card)
        and _listed(value.get("pairs"), _pair)
        and _listed(value.get("outcomes"), _outcome)
        and _recommended(value.get("recommended"))
    )


def _listed(value: Any, each: Callable[[Any], bool]) -> bool:
    return value is None or (isinstance(value, list) and all(map(each, value)))


def _index(value: Any) -> bool:
    return type(value) is int


def _card(value: Any) -> bool:
    return (
        _said(value) and _index(value.get("index")) and isinstance(value.get("evidence"), (list, type(None)))
    )


def _pair(value: Any) -> bool:
    if not _said(value) or not isinstance(value.get("status"), str):
        return False
    speed = value.get("gbps")
    return _index(value.get("a")) and _index(value.get("b")) and isinstance(speed, (int, float, type(None)))


def _outcome(value: Any) -> bool:
    return _said(value) and isinstance(value.get("status"), str) and _group(value.get("cards"))


def _group(value: Any) -> bool:
    return isinstance(value, list) and all(map(_index, value))


def _recommended(value: Any) -> bool:
    return value is None or (_said(value) and all(map(_group, value.values())))
