"""The files of generations: ``generations/N.json`` below the root; mode 0600, as environments are in them."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Any

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.generations import document

_FILE = re.compile(r"([1-9][0-9]{0,8})\.json\Z")
_TEXTS = ("author", "run", "error", "health")
_OBJECTS = ("stack", "patches", "units")


def folder(root: str) -> str:
    """Where they are."""
    return f"{root}/generations"


def path(root: str, number: int) -> str:
    """Where one is."""
    return f"{folder(root)}/{number}.json"


def numbers(root: str) -> list[int]:
    """Numbers of those that are there, the oldest first."""
    try:
        names = os.listdir(folder(root))
    except FileNotFoundError:
        return []
    return sorted(int(match[1]) for match in map(_FILE.match, names) if match)


def read(root: str, number: int) -> dict[str, Any]:
    """One of them. Raises :class:`VerbError`: ``no-generation``, ``damaged``, ``newer-schema``."""
    value = store.read_json(path(root, number), "remove it")
    if value is None:
        listed = ", ".join(map(str, numbers(root))) or "none"
        raise VerbError(
            "no-generation", f"there is no generation {number}; known: {listed}", "klops releases"
        )
    if not _sound(value, number):
        raise VerbError("damaged", f"{path(root, number)} is no generation", "remove it")
    return value


def _sound(value: dict[str, Any], number: int) -> bool:
    texts = all(isinstance(value.get(key), str) for key in _TEXTS)
    objects = all(isinstance(value.get(key), dict) for key in _OBJECTS)
    lists = isinstance(value.get("targets"), list) and {"release", "commit", "ref", "of", "time"} <= set(
        value
    )
    return texts and objects and lists and value.get("number") == number


def readable(root: str) -> tuple[list[dict[str, Any]], list[str]]:
    """All that can be read, the oldest first, and what is wrong with the others."""
    found, faults = [], []
    for number in numbers(root):
        try:
            found.append(read(root, number))
        except VerbError as failure:
            if failure.code != "no-generation":  # it went meanwhile
                faults.append(failure.message)
    return found, faults


def write(root: str, value: dict[str, Any]) -> None:
    """Write one down. Raises ``OSError``."""
    os.makedirs(folder(root), mode=0o700, exist_ok=True)
    store.write_json(path(root, int(value["number"])), value)


def prune(root: str, keep: int) -> None:
    """Remove those that are too many."""
    known, _ = readable(root)
    for number in document.superfluous(known, keep):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path(root, number))


def spec(root: str, number: int, unit: str) -> dict[str, Any]:
    """The specification of a unit as it was then. Raises :class:`VerbError`."""
    units = read(root, number)["units"]
    if unit not in units:
        raise VerbError("no-unit", f"generation {number} has no unit {unit}", "klops releases lists them")
    found: dict[str, Any] = units[unit]["spec"]
    return found


def needed_releases(root: str) -> set[str]:
    """The release that is gone back to when the next one fails: it is not to be pruned."""
    good = document.newest(readable(root)[0], document.GOOD)
    return {str(good["release"])} if good is not None and good["release"] else set()
