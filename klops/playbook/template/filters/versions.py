"""The test ``version``: which of two versions is the later one."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

from klops.playbook.template.filters.given import text, wrong

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    **dict.fromkeys(("==", "=", "eq"), operator.eq),
    **dict.fromkeys(("!=", "<>", "ne"), operator.ne),
    **dict.fromkeys(("<", "lt"), operator.lt),
    **dict.fromkeys(("<=", "le"), operator.le),
    **dict.fromkeys((">", "gt"), operator.gt),
    **dict.fromkeys((">=", "ge"), operator.ge),
}
_STRICT = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?:([ab])(\d+))?")
_SEMANTIC = re.compile(
    r"v?(?P<core>\d+\.\d+\.\d+)(?:-(?P<before>[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?"
)


def _loose(version: str) -> Any:
    """Numbers and what stands between them, compared in order."""
    return [int(part) if part.isdecimal() else part for part in re.findall(r"\d+|[a-z]+|[^\da-z.]+", version)]


def _strict(version: str) -> Any:
    match = _STRICT.fullmatch(version)
    if match is None:
        raise wrong(f"version: {version!r} is no strict version such as 1.2, 1.2.3 or 1.2a1")
    major, minor, patch, letter, number = match.groups()
    # a version comes after its alphas and betas
    return (int(major), int(minor), int(patch or 0)), (letter or "z", int(number or 0))


def _semantic(version: str) -> Any:
    match = _SEMANTIC.fullmatch(version)
    if match is None:
        raise wrong(f"version: {version!r} is no semantic version such as 1.2.3 or 1.2.3-rc.1")
    core = tuple(map(int, match["core"].split(".")))
    if match["before"] is None:
        return core, (1,)
    # numbers come before words, and fewer parts before more
    parts = [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in match["before"].split(".")]
    return core, (0, *parts)


_TYPES = {"loose": _loose, "strict": _strict, "semantic": _semantic, "semver": _semantic}


def version(
    value: Any,
    version: Any,
    operator: str = "eq",
    strict: bool | None = None,
    version_type: str | None = None,
) -> bool:
    """Whether the version stands in that relation (``>=``, ``lt``...) to another one."""
    if strict is not None and version_type:
        raise wrong("version: give one of strict and version_type")
    if operator not in _OPERATORS:
        raise wrong(f"version: {operator!r} is none of {', '.join(_OPERATORS)}")
    name = version_type or ("strict" if strict else "loose")
    if name not in _TYPES:
        raise wrong(f"version: version_type {name!r} is none of {', '.join(_TYPES)}")
    if not text(value):
        raise wrong("version: there is no version to compare: the text is empty")
    key = _TYPES[name]
    try:
        return _OPERATORS[operator](key(text(value)), key(text(version)))
    except TypeError:
        raise wrong(
            f"version: {text(value)!r} and {text(version)!r} can't be compared: one has a word where "
            "the other has a number"
        ) from None


TESTS: dict[str, Callable[..., bool]] = {"version": version, "version_compare": version}
