"""What a run is asked to do beside its playbook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


def verbatim(value: Any) -> Any:
    """A value for a variable whose texts, in depth, are no templates, whatever somebody typed.

    >>> verbatim({"reason": "err {%d}"})
    {'reason': 'err {{ "{" }}%d}'}
    """
    if isinstance(value, str):
        return value.replace("{", '{{ "{" }}')
    if isinstance(value, Mapping):
        return {key: verbatim(one) for key, one in value.items()}
    return [verbatim(one) for one in value] if isinstance(value, (list, tuple)) else value


#: hosts that are worked on side by side
FORKS = 16


@dataclass(frozen=True)
class RunOptions:
    """``limit``: patterns that narrow each play's hosts, or None."""

    limit: Sequence[str] | None = None
    tags: Sequence[str] = ()
    skip_tags: Sequence[str] = ()
    check: bool = False
    diff: bool = False
    forks: int = FORKS
    #: by name, plain values or located nodes
    extra_vars: Mapping[str, Any] = field(default_factory=dict)
    start_at_task: str | None = None
    #: how often -v was given
    verbosity: int = 0
    #: files and folders the inventory was read from
    inventory_sources: Sequence[str] = ()
