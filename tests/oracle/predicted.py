"""Whether a dry run told what the run did. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.oracle.observed import TaskSeen, numbered


def mispredicted(
    checked: Sequence[TaskSeen], ran: Sequence[TaskSeen]
) -> tuple[dict[tuple[str, str], str], list[str], Counter[str]]:
    """What the dry run got wrong by (task, host), what it left out, and how many it told.

    ``unknown`` may turn out either way. After one, what a host goes through is open too: handlers that may be
    notified, tasks behind a failure.
    """
    planned = {(task.host, number): task for number, task in numbered(checked)}
    done = {(task.host, number): task for number, task in numbered(ran)}
    vague = {task.host for task in checked if task.status == "unknown"}
    wrong: dict[tuple[str, str], str] = {}
    counted: Counter[str] = Counter()
    for (host, number), task in planned.items():
        real = done.get((host, number))
        if task.status == "unknown":
            counted["unknown"] += 1
        elif real is not None and real.status == task.status:
            counted["predicted"] += 1
        elif real is not None or host not in vague:
            wrong[task.name, host] = f"{host}: {task.status}, then {real.status if real else 'not run'}"
    missed = [
        f"{host}: {number}" for host, number in done if host not in vague and (host, number) not in planned
    ]
    return wrong, missed, counted
