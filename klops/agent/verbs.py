"""The short verbs: what they read, what they ask of the supervisor, what they print."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from klops.agent import control, procs, store
from klops.agent.errors import VerbError

if TYPE_CHECKING:
    from klops.agent.main import Options

#: Seconds between looks while waiting, and between lines without a change.
_LOOK = 0.2
_REPEAT = 2.0
#: Seconds beyond a unit's own stop timeout until ``stop`` gives up waiting for the supervisor's verdict.
_STOP_MARGIN = 60.0


def emit(value: dict[str, Any]) -> None:
    """One JSON object, one line."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def run(options: Options, package: str) -> int:
    """Run a verb; returns the exit status."""
    if options.verb in ("ps", "holders", "about"):
        from klops.agent import views

        emit(views.view(options, package))
        return 0
    paths = store.Paths(options.root)
    if options.verb == "status":
        emit(_status(paths, package))
        return 0
    name = store.check_name(options.name)
    if options.verb == "logs":
        return _logs(options, paths, name)
    if options.verb == "wait":
        return _wait(paths, name, float(options.values.get("--timeout", 60.0)))
    if options.verb == "start":
        from klops.agent import intake

        intake.take(paths, name, "" if sys.stdin.isatty() else sys.stdin.read())
    reply = control.insist(paths.run, {"verb": options.verb, "name": name})
    if options.verb in ("start", "restart"):
        emit(reply["unit"])
        return 0
    emit(_stopped(paths, name, reply["unit"]))
    return 0


def _units(paths: store.Paths) -> tuple[dict[str, Any], dict[str, Any] | None]:
    reply = control.ask(paths.run, {"verb": "status"})
    if reply is not None:
        return reply["units"], reply["supervisor"]
    from klops.agent import report

    return report.from_disk(paths, procs.table()), None


def _status(paths: store.Paths, package: str) -> dict[str, Any]:
    from klops.agent.main import digest_of

    units, supervisor = _units(paths)
    return {
        "schema": store.SCHEMA,
        "agent": digest_of(package),
        "boot_id": procs.slurp("/proc/sys/kernel/random/boot_id").decode("ascii").strip(),
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "now": round(time.time(), 3),
        "supervisor": supervisor,
        "units": units,
    }


def _stopped(paths: store.Paths, name: str, unit: dict[str, Any]) -> dict[str, Any]:
    """Wait until nothing of the lineage lives. Raises :class:`VerbError` when something can't be ended."""
    spec = store.read_json(paths.spec(name)) or {}
    deadline = time.monotonic() + float(spec.get("stop", {}).get("timeout", 30)) + _STOP_MARGIN
    while True:
        if unit["desired"] != "stopped":
            raise VerbError(
                "overtaken", f"{name} was started again meanwhile", "repeat the stop if it is still meant"
            )
        if unit["state"] == "stopped":
            return unit
        if unit["state"] == "failed" and unit["lineage"] and unit["error"].startswith("unkillable"):
            raise VerbError(
                "unkillable", f"{name}: {unit['error']}", "keep its cards out of service until then"
            )
        if time.monotonic() > deadline:
            left = ", ".join(f"pid {p['cpid']} ({p['name']})" for p in unit["lineage"])
            raise VerbError(
                "stop-timeout", f"{name} was not stopped in time; what lives: {left or 'nothing'}"
            )
        time.sleep(_LOOK)
        now = _units(paths)[0].get(name)
        if now is None:
            return {**unit, "state": "stopped", "cpid": None, "start": None, "lineage": []}
        unit = now


def _wait(paths: store.Paths, name: str, timeout: float) -> int:
    deadline = time.monotonic() + timeout
    shown: dict[str, Any] = {}
    shown_at = 0.0
    while True:
        unit = _units(paths)[0].get(name)
        if unit is None:
            raise VerbError("no-unit", f"there is no unit {name}", "see the verb status")
        line = {key: unit[key] for key in ("state", "elapsed", "line", "percent", "restarts")}
        if unit["error"]:
            line["error"] = unit["error"]
        now = time.monotonic()
        done = unit["state"] == "ready" and unit["health"]["ok"] is True
        failed = unit["state"] == "failed" or (unit["state"] == "stopped" and unit["desired"] == "stopped")
        if failed:
            line.update(error=unit["error"] or "it was stopped", log=unit["log"])
        changed = any(
            line.get(key) != shown.get(key) for key in ("state", "line", "percent", "restarts", "error")
        )
        if done or failed or changed or now - shown_at >= _REPEAT or now > deadline:
            emit(line)
            shown, shown_at = line, now
        if done or failed:
            return 0 if done else 1
        if now > deadline:
            return 3
        time.sleep(_LOOK)


def _logs(options: Options, paths: store.Paths, name: str) -> int:
    import select

    from klops.agent import logs

    path = paths.log(name)
    if not os.path.exists(path):
        raise VerbError("no-log", f"{name} has no log", "it was never started here")
    watch = select.poll()
    watch.register(1, 0)  # POLLERR comes unasked when the reader of our output is gone
    if "--while-stdin" in options.flags:
        watch.register(0, select.POLLIN)

    def stop(seconds: float) -> bool:
        return any(
            fd == 1 or events & ~select.POLLIN or not os.read(0, 4096)
            for fd, events in watch.poll(seconds * 1000)
        )

    def write(data: bytes) -> None:
        while data:
            data = data[os.write(1, data) :]

    try:
        lines = int(options.values.get("--lines", 100))
        logs.print_log(path, lines, options.values.get("--since"), "--follow" in options.flags, stop, write)
    except BrokenPipeError:
        return 0
    return 0
