"""What a unit's files say. They only are read here, and every fault of theirs is a :class:`VerbError`.

Its code is ``damaged`` for what can't be made sense of; whoever writes such a file anew sets the old one
aside before. Any other (``newer-schema``, ``unreadable``) is no reason to touch the file.
"""

from __future__ import annotations

from typing import Any, Callable, TypeVar

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.units import specification, unit
from klops.agent.units.unit import Record

DAMAGED = "damaged"
_T = TypeVar("_T")


def spec(paths: store.Paths, name: str) -> dict[str, Any] | None:
    """The specification, None when there is none."""
    path = paths.spec(name)
    value = store.read_json(path)
    return None if value is None else _sound(path, lambda: specification.checked(value, name))


def secret(paths: store.Paths, name: str) -> dict[str, Any] | None:
    """``{salt, digest, secrets}``, None when there is none."""
    path = paths.secret(name)
    value = store.read_json(path)
    return None if value is None else _sound(path, lambda: specification.checked_secret(value))


def record(paths: store.Paths, name: str) -> Record | None:
    """The state, None when there is none."""
    path = paths.state(name)
    value = store.read_json(path)
    return None if value is None else _sound(path, lambda: _record(value))


def _record(value: dict[str, Any]) -> Record:
    made = Record.load(value)
    if value.get("desired") not in unit.DESIRED or value.get("state") not in unit.STATES:
        raise VerbError(DAMAGED, "it doesn't say which state is wanted and which is the case")
    return made


def _sound(path: str, judge: Callable[[], _T]) -> _T:
    try:
        return judge()
    except VerbError as failure:
        raise VerbError(DAMAGED, f"{path}: {failure.message}", store.ANEW) from failure


def attempt(
    read: Callable[[store.Paths, str], _T | None], paths: store.Paths, name: str
) -> tuple[_T | None, VerbError | None]:
    """What one of the above gives, or what is wrong with its file."""
    try:
        return read(paths, name), None
    except VerbError as failure:
        return None, failure


def replaceable(
    read: Callable[[store.Paths, str], _T | None], paths: store.Paths, name: str, path: str
) -> _T | None:
    """What one of the above gives, before its file is written anew; a damaged one is set aside.

    Raises :class:`VerbError` for a file that is not to be replaced.
    """
    found, fault = attempt(read, paths, name)
    if fault is not None:
        if fault.code != DAMAGED:
            raise fault
        store.set_aside(path)
    return found
