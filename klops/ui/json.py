"""The JSON of the contract, from results. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from klops.actions.base import Change
from klops.errors import CommandFailed, KlopsError
from klops.playbook.results import RunResult, Status, TaskResult
from klops.secret import MASK, Secret


def redact(value: Any, redactor: Callable[[str], str]) -> Any:
    """``value`` with every known secret masked, in keys too; what JSON has no form for becomes text."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return redactor(value)
    if isinstance(value, Secret):
        return MASK
    if isinstance(value, Mapping):
        return {redactor(str(key)): redact(item, redactor) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [redact(item, redactor) for item in value]
    return redactor(str(value))


def dumps(value: Any, redactor: Callable[[str], str]) -> str:
    """One JSON document as text, ASCII only, so that no terminal or code page can spoil it."""
    return json.dumps(redact(value, redactor), indent=2, ensure_ascii=True)


def host_document(results: Mapping[str, Mapping[str, Any] | KlopsError]) -> dict[str, Any]:
    """``{"ok", "hosts": {NAME: {...}}}``; a host that failed has ``error``."""
    hosts = {
        name: {"error": result.as_json()} if isinstance(result, KlopsError) else dict(result)
        for name, result in results.items()
    }
    return {"ok": not any("error" in host for host in hosts.values()), "hosts": hosts}


def run_document(result: RunResult, values: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """The document of a command that ran a playbook.

    ``values`` holds what ``hosts.NAME`` shows (status objects for up, down, restart); a host that dropped out
    has ``error`` beside what was still learned.
    """
    hosts: dict[str, Any] = {}
    for name in result.hosts:
        shown: dict[str, Any] = dict((values or {}).get(name, {}))
        if name in result.errors:
            shown["error"] = result.errors[name].as_json()
        hosts[name] = shown
    return {
        "ok": result.ok,
        "hosts": hosts,
        "playbook": result.playbook,
        "check": result.check,
        "plays": [
            {
                "name": play.name,
                **({"batch": play.batch, "batches": play.batches} if play.batches > 1 else {}),
                "hosts": list(play.hosts),
                "tasks": [
                    {
                        "name": task.name,
                        "action": task.action,
                        **({"handler": True} if task.handler else {}),
                        "hosts": {host: _task(done) for host, done in task.hosts.items()},
                    }
                    for task in play.tasks
                ],
            }
            for play in result.plays
        ],
        **({"not_run": _left_out(result)} if result.not_run else {}),
        **({"handlers_left": result.handlers_left} if result.handlers_left else {}),
        "recap": result.recap(),
        "remote_commands": dict(result.remote_commands),
        "seconds": round(result.seconds, 3),
    }


def _left_out(result: RunResult) -> list[dict[str, Any]]:
    return [{"play": play, "hosts": list(hosts)} for play, hosts in result.not_run]


def status_values(
    result: RunResult, action: str = "klops.status", *, told_by: str = ""
) -> dict[str, Mapping[str, Any]]:
    """What the last task of ``action`` registered, by host; hosts where it didn't run or failed are missing.

    A failed task registers something too, but nothing about the host; unless the key ``told_by`` is there.
    """
    last = {
        host: done
        for play in result.plays
        for task in play.tasks
        if task.action == action
        for host, done in task.hosts.items()
    }
    return {
        host: {key: value for key, value in done.values.items() if key not in REGISTER_KEYS}
        for host, done in last.items()
        if done.status in (Status.OK, Status.CHANGED) or (told_by and told_by in done.values)
    }


#: Keys that ``register`` adds to every result; they are no part of a status object.
REGISTER_KEYS = frozenset({"changed", "failed", "skipped", "msg", "message", "unknown", "warnings"})


def _task(done: TaskResult) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "status": done.status.value,
        "changes": [_change(change) for change in done.changes],
        "message": done.message,
        "seconds": round(done.seconds, 3),
    }
    if done.ignored:
        shown["ignored"] = True
    if done.place:
        shown["delegated_to"] = done.place
    if done.error is not None:
        shown["error"] = done.error.as_json()
    if isinstance(done.error, CommandFailed):
        shown |= {"rc": done.error.rc, "stdout": done.error.stdout, "stderr": done.error.stderr}
    if done.warnings:
        shown["warnings"] = list(done.warnings)
    return shown


def _change(change: Change) -> dict[str, Any]:
    shown: dict[str, Any] = {"what": change.what}
    if change.before is not None or change.after is not None:
        shown["before"] = change.before
        shown["after"] = change.after
    return shown
