"""Tests that ask about registered results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jinja2.runtime import Undefined

from klops.playbook.template.filters.given import kind, wrong
from klops.playbook.template.pending import Pending


def _state(test: str, result: Any, key: str, otherwise: Any = False) -> Any:
    if isinstance(result, Undefined):
        str(result)  # raises UndefinedError
    if isinstance(result, Pending):
        return result.known(key)
    if not isinstance(result, Mapping):
        raise wrong(f"'is {test}' asks about a registered result, not about {kind(result)}")
    return result.get(key, otherwise)


def failed(result: Any) -> bool:
    """Whether the task failed."""
    return bool(_state("failed", result, "failed"))


def succeeded(result: Any) -> bool:
    """Whether the task did not fail."""
    return not failed(result)


def changed(result: Any) -> bool:
    """Whether the task, or a turn of its loop, changed something."""
    found = _state("changed", result, "changed", None)
    if found is None:
        turns = _state("changed", result, "results", ())
        return isinstance(turns, list) and any(
            isinstance(turn, Mapping) and turn.get("changed") for turn in turns
        )
    return bool(found)


def skipped(result: Any) -> bool:
    """Whether the task was skipped."""
    if isinstance(result, Pending) and result.lacks("skipped"):
        return False  # what is known in part was not
    return bool(_state("skipped", result, "skipped"))


def unreachable(result: Any) -> bool:
    """Whether the host could not be reached."""
    return bool(_state("unreachable", result, "unreachable"))


def reachable(result: Any) -> bool:
    """Whether the host could be reached."""
    return not unreachable(result)


def started(result: Any) -> bool:
    """Whether it was started."""
    return bool(_state("started", result, "started", 1))


def finished(result: Any) -> bool:
    """Whether it has ended."""
    return bool(_state("finished", result, "finished", 1))


def timedout(result: Any) -> bool:
    """Whether the task took longer than its ``timeout``."""
    found = _state("timedout", result, "timedout")
    return bool(found.get("period", False)) if isinstance(found, Mapping) else bool(found)


TESTS: dict[str, Callable[..., bool]] = {
    "change": changed,
    "changed": changed,
    "failed": failed,
    "failure": failed,
    "finished": finished,
    "reachable": reachable,
    "skip": skipped,
    "skipped": skipped,
    "started": started,
    "succeeded": succeeded,
    "success": succeeded,
    "successful": succeeded,
    "timedout": timedout,
    "unreachable": unreachable,
}
