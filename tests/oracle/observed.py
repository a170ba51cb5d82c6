"""What a run was seen to do, in one form for both tools: values by path. Pure.

Paths: ``exit``; ``recap/HOST/COUNT``; ``order/HOST`` (the names of its tasks in order); ``tasks/HOST/NAME#N``
(status of the N-th task of that name); ``said/HOST/NAME#N`` (what ``debug`` shows); ``files/PATH``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

#: Counts of a recap that both have. ``unknown`` only occurs in dry runs of klops.
COUNTS = ("ok", "changed", "unreachable", "failed", "skipped", "rescued", "ignored")
MISSING = None


@dataclass(frozen=True)
class TaskSeen:
    """One task on one host: ``ok``, ``changed``, ``skipped``, ``failed``, ``unreachable`` or ``unknown``."""

    host: str
    name: str
    status: str
    #: what ``debug`` showed; None for other modules, for loops and for tasks that didn't run
    said: str | None = None


def numbered(tasks: Iterable[TaskSeen]) -> Iterator[tuple[str, TaskSeen]]:
    """``NAME#N`` on its host, and the task."""
    count: Counter[tuple[str, str]] = Counter()
    for task in tasks:
        count[task.host, task.name] += 1
        yield f"{task.name}#{count[task.host, task.name]}", task


def observation(
    *,
    ended: str,
    recap: Mapping[str, Mapping[str, int]],
    tasks: Iterable[TaskSeen],
    files: Mapping[str, Any],
    root: str,
) -> dict[str, Any]:
    """All that was seen; ``root``, where the run's scratch folders are, is replaced by ``<root>``."""
    seen: dict[str, Any] = {"exit": ended}
    for host, counts in recap.items():
        if any(counts.values()):
            seen.update({f"recap/{host}/{name}": counts.get(name, 0) for name in COUNTS})
    order: dict[str, list[str]] = {}
    for numbered_name, task in numbered(tasks):
        name = numbered_name.replace(root, "<root>")
        order.setdefault(task.host, []).append(task.name.replace(root, "<root>"))
        seen[f"tasks/{task.host}/{name}"] = task.status
        if task.said is not None:
            seen[f"said/{task.host}/{name}"] = _value(task.said.replace(root, "<root>"))
    seen.update({f"order/{host}": names for host, names in order.items()})
    seen.update({f"files/{path}": entry for path, entry in files.items()})
    return seen


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def differences(ansible: Mapping[str, Any], klops: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Path -> what each of the two gives, where they aren't the same (1 and true are not).

    What ``debug`` shows in a loop is left out: Ansible has a value an item, klops a text of all of them.
    """
    return {
        path: (ansible.get(path, MISSING), klops.get(path, MISSING))
        for path in sorted({*ansible, *klops})
        if not _same(ansible.get(path, MISSING), klops.get(path, MISSING))
        and not (path.startswith("said/") and path not in ansible)
    }


def _same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def undeclared(
    found: Mapping[str, tuple[Any, Any]], declared: Mapping[str, Any], klops: Mapping[str, Any]
) -> list[str]:
    """What is wrong: differences nobody declared, declared ones that don't show or show otherwise."""
    wrong = [
        f"{path}\n    ansible: {_shown(ansible)}\n    klops:   {_shown(ours)}"
        for path, (ansible, ours) in found.items()
        if path not in declared
    ]
    for path, expected in declared.items():
        if path not in found:
            wrong.append(f"{path}: declared to be different, and it isn't")
        elif not _same(klops.get(path, MISSING), expected):
            wrong.append(f"{path}: klops was declared to give {expected!r}, and gives {klops.get(path)!r}")
    return wrong


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 1500 else f"{text[:1500]}..."
