"""What the commands about cards share: their playbooks are run, and what came of that is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from klops.errors import KlopsError
    from klops.playbook.results import RunResult

#: The action whose result is a host's object.
ACTION = "klops.cards"


def told(result: RunResult) -> dict[str, Mapping[str, Any]]:
    """By host what ``klops.cards`` found, also where it failed for what it found."""
    from klops.ui.json import status_values

    return status_values(result, ACTION, told_by="cards")


def failures(result: RunResult) -> dict[str, KlopsError]:
    """By host its error; after Ctrl-C also that of each host that was not finished by then."""
    from klops.errors import Interrupted

    found = dict(result.errors)
    if not result.interrupted:
        return found
    runs = [task.hosts for play in result.plays for task in play.tasks if task.action == ACTION]
    for name in result.hosts:
        done = next((hosts[name] for hosts in reversed(runs) if name in hosts), None)
        if name in found or (done is not None and done.error is None):
            continue
        again = "the same command begins anew"
        found[name] = (done and done.error) or Interrupted("interrupted before it was done", hint=again)
    return found


def document(
    result: RunResult, values: Mapping[str, Mapping[str, Any]], error: KlopsError | None = None
) -> dict[str, Any]:
    """``{"ok", "hosts"}``; a host that failed has ``error`` beside what was found. ``error``: of all."""
    hosts = {name: dict(values.get(name, {})) for name in result.hosts}
    for found in hosts.values():
        # the action has its text of a fault that all share there, which is in the message too
        found.pop("error", None)
    for name, failure in failures(result).items():
        hosts.setdefault(name, {})["error"] = failure.as_json()
    shown: dict[str, Any] = {"ok": result.ok and error is None, "hosts": hosts}
    if error is not None:
        shown["error"] = error.as_json()
    return shown
