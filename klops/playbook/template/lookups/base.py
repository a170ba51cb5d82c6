"""What lookups are given, and their mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from klops.errors import TaskFailed


@dataclass(frozen=True)
class Context:
    """The variables, the files beside which others are looked for, and what renders a template file."""

    variables: Mapping[str, Any]
    beside: tuple[Path, ...]
    render: Callable[..., str]


def wrong(message: str, hint: str = "") -> TaskFailed:
    """A mistake in what a lookup was given."""
    return TaskFailed(message, hint=hint, code="template")


def only(lookup: str, options: Mapping[str, Any], allowed: Iterable[str]) -> None:
    """Refuse options that a lookup lacks."""
    names = list(allowed)
    for option in options:
        if option not in names:
            has = f"it has: {', '.join(names)}" if names else "it has none"
            raise wrong(f"the lookup {lookup} has no option {option!r}", has)


def flat(terms: Iterable[Any]) -> list[Any]:
    """Terms, those in lists too."""
    return [item for term in terms for item in (flat(term) if isinstance(term, (list, tuple)) else [term])]
