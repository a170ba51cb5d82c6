"""The short verbs: what they read, what they ask of the supervisor, what they print."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Mapping

from klops.agent import store
from klops.agent.errors import VerbError, system_error
from klops.agent.options import RELEASES, Options, digest_of
from klops.agent.processes import procs
from klops.agent.supervision import control

#: Seconds between looks while waiting, and between lines without a change.
_LOOK = 0.2
_REPEAT = 2.0
#: Seconds that a status waits for card nodes to be opened, where they are just tested: on a host at its limit
#: that takes a while, and what isn't known yet is not fine.
_DECIDED = 4.0
#: Exit status of ``wait`` when whoever asked has gone away.
_NOBODY_WAITS = 4
#: Seconds beyond a unit's own stop timeout until ``stop`` gives up waiting for the supervisor's verdict.
_STOP_MARGIN = 60.0


def emit(value: dict[str, Any]) -> None:
    """One JSON object, one line."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def run(options: Options, package: str) -> int:
    """Run a verb; returns the exit status. Raises :class:`VerbError`."""
    try:
        return _run(options, package)
    except OSError as error:
        raise system_error(error) from error


def _run(options: Options, package: str) -> int:
    if options.verb in ("ps", "holders", "about"):
        from klops.agent.verbs import views

        emit(views.view(options, package))
        return 0
    if options.verb == "reap":
        from klops.agent.reaping import verb

        emit(verb.reap(options))
        return 0
    if options.verb == "note":
        from klops.agent.verbs import cardnotes

        emit(cardnotes.note(options.root, sys.stdin.read()))
        return 0
    if options.verb in ("generations", "generation"):
        from klops.agent.generations import verb as generations

        if options.verb == "generations":
            emit(generations.listed(options.root))
        else:
            paths = store.Paths(options.root)
            said = generations.note(options.root, sys.stdin.read(), lambda: _known(paths)["units"])
            emit({**said, "notes": _unpruned(options.root) if said["noted"] else []})
        return 0
    if options.verb in RELEASES:
        return _releases(options)
    if options.verb == "packages":
        from klops.agent.packages import verb as reading

        emit(
            reading.packages(
                options.root, options.values.get("--names", "[]"), options.values.get("--files", "[]")
            )
        )
        return 0
    if options.verb in ("stack", "restore", "patch"):
        return _packages(options)
    if options.verb == "xccl":
        return _xccl(options, package)
    paths = store.Paths(options.root)
    if options.verb == "status":
        emit(_status(paths, package, options.values.get("--access-age")))
        return 0
    if options.verb in ("keep", "bring-back", "forget-kept", "quit"):
        emit(_whole(options, paths))
        return 0
    name = store.check_name(options.name)
    if options.verb == "logs":
        return _logs(options, paths, name)
    if options.verb == "wait":
        return _wait(options, paths, name)
    request: dict[str, Any] = {"verb": options.verb, "name": name}
    if options.verb == "start":
        from klops.agent.verbs import starting

        idle = starting.take(paths, name, "" if sys.stdin.isatty() else sys.stdin.read())
        request.update({"idle": idle} if idle else {})
    if "--resumes" in options.flags:
        request["resumes"] = True
    reply = control.insist(paths.run, request)
    if options.verb in ("start", "restart"):
        emit(reply["unit"])
        return 0
    unit = _stopped(paths, name, reply["unit"])
    if options.verb == "stop":
        from klops.agent.verbs import stopping

        unit = stopping.settled(paths, name, unit)
    emit(unit)
    return 0


def _unpruned(root: str) -> list[str]:
    """Remove saved packages that no generation needs any more; why that can't be done, if it can't."""
    if not os.path.isdir(f"{root}/stack"):
        return []  # nothing was ever saved
    from klops.agent.packages import pruning
    from klops.agent.packages.places import Places, refused

    try:
        pruning.prune(Places(root))
    except VerbError as failure:
        return [f"saved packages were not looked through: {failure.message}"]
    except OSError as error:
        return [f"saved packages were not looked through: {refused(error).message}"]
    return []


def _whole(options: Options, paths: store.Paths) -> dict[str, Any]:
    """Verbs about all units at once."""
    verb = options.verb
    if verb == "quit":
        from klops.agent.supervision import quitting

        return quitting.leave(paths)
    from klops.agent.supervision import goback

    if verb == "forget-kept":
        return goback.forget(paths)
    from klops.agent.verbs import codeback

    if verb == "keep":
        wanted = [name for name, one in _known(paths)["units"].items() if one["desired"] == "running"]
        return goback.keep(paths, wanted, codeback.kept(paths.root, here="--late" not in options.flags))
    return goback.bring_back(paths, lambda code: codeback.put_back(paths.root, code))


def _known(paths: store.Paths, **more: Any) -> dict[str, Any]:
    """What the supervisor knows: ``units``, ``supervisor``, ``strays``, ``access``; or what the disk does."""
    reply = control.ask(paths.run, {"verb": "status", **more})
    if reply is not None:
        return reply
    from klops.agent.units import report

    return {"units": report.from_disk(paths, procs.table()), "supervisor": None}


def _status(paths: store.Paths, package: str, age: float | None = None) -> dict[str, Any]:
    """``age``: all card nodes are to be opened, tests no older than that count."""
    from klops.agent.units import released

    began, known = time.monotonic(), _known(paths, access=True if age is None else {"max_age": age})
    while known.get("undecided") and time.monotonic() < began + _DECIDED:
        time.sleep(_LOOK)
        since = time.monotonic() - began
        known = _known(paths, access=True if age is None else {"max_age": age + since})
    return {
        "schema": store.SCHEMA,
        "agent": digest_of(package),
        "boot_id": procs.slurp("/proc/sys/kernel/random/boot_id").decode("ascii").strip(),
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "now": round(time.time(), 3),
        "supervisor": known["supervisor"],
        "units": known["units"],
        # descendants of units of whom nobody can tell which; a supervisor of another version knows none
        "strays": known.get("strays", []),
        # card nodes that can't be opened; None when nobody tests that
        "access": known.get("access"),
        # dead children of a PID 1 that doesn't reap
        "defunct": _defunct(known),
        "quarantine": _quarantine(paths),
        "release": released.told(paths.root),
        "packages": released.packages(paths.root),
    }


def _defunct(known: dict[str, Any]) -> dict[str, Any] | None:
    if "defunct" in known:
        found: dict[str, Any] | None = known["defunct"]
        return found
    from klops.agent.units import zombies

    return zombies.seen()


def _quarantine(paths: store.Paths) -> list[dict[str, Any]] | None:
    """The notes on cards kept out of service that are in force; None when their file doesn't tell."""
    if not os.path.exists(paths.cards):
        return []
    from klops.agent.units import quarantine

    try:
        return quarantine.in_force(paths.root)
    except VerbError:
        return None


def _stopped(paths: store.Paths, name: str, unit: dict[str, Any]) -> dict[str, Any]:
    """Wait until nothing of the lineage lives. Raises :class:`VerbError` when something can't be ended."""
    deadline = time.monotonic() + _stop_timeout(paths, name) + _STOP_MARGIN
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
        now = _known(paths)["units"].get(name)
        if now is None:
            return {**unit, "state": "stopped", "cpid": None, "start": None, "lineage": []}
        unit = now


def _stop_timeout(paths: store.Paths, name: str) -> float:
    """Seconds; the usual ones when the specification can't be read: its unit is stopped all the same."""
    from klops.agent.units import ondisk

    spec, _ = ondisk.attempt(ondisk.spec, paths, name)
    return float((spec or {}).get("stop", {}).get("timeout", 30))


def _wait(options: Options, paths: store.Paths, name: str) -> int:
    from klops.agent.verbs import reader

    gone = reader.watch("--while-stdin" in options.flags)
    deadline = time.monotonic() + float(options.values.get("--timeout", 60.0))
    shown: dict[str, Any] = {}
    shown_at = 0.0
    while True:
        unit = _known(paths)["units"].get(name)
        if unit is None:
            raise VerbError("no-unit", f"there is no unit {name}", "see the verb status")
        line = {key: unit[key] for key in ("state", "elapsed", "line", "percent", "restarts")}
        if unit["error"]:
            line["error"] = unit["error"]
        now = time.monotonic()
        done = unit["state"] == "ready" and unit["health"]["ok"] is True
        failed = unit["state"] == "failed" or (unit["state"] == "stopped" and unit["desired"] == "stopped")
        if unit.get("waits"):  # a supervisor of another version doesn't say it
            failed = True
            line["error"] += "; it starts by itself as soon as that is over"
        elif unit["state"] == "unhealthy" and unit["health"].get("progress") == "stalled":
            failed = True  # it is told as soon as it is known: nobody restarts it for that
            line["error"] += "; it is left as it is, as a restart loses its requests"
        elif failed:
            line.update(
                error=unit["error"] or "it was stopped", log=unit["log"], first_log=unit.get("first_log", [])
            )
        changed = any(
            line.get(key) != shown.get(key) for key in ("state", "line", "percent", "restarts", "error")
        )
        if done or failed or changed or now - shown_at >= _REPEAT or now > deadline:
            if not reader.write(json.dumps(line).encode("ascii") + b"\n"):
                return _NOBODY_WAITS
            shown, shown_at = line, now
        if done or failed:
            return 0 if done else 1
        if now > deadline:
            return 3
        if gone(_LOOK):
            return _NOBODY_WAITS


def _tell(value: Mapping[str, Any]) -> bool:
    """One object, one line; whether somebody reads it."""
    from klops.agent.verbs import reader

    return reader.write(json.dumps(value).encode("ascii") + b"\n")


def _releases(options: Options) -> int:
    from klops.agent.releases import verb
    from klops.agent.verbs import reader

    gone = reader.watch("--while-stdin" in options.flags)
    return 0 if verb.run(options, verb.Asker(_tell, reader.line, gone)) else _NOBODY_WAITS


def _xccl(options: Options, package: str) -> int:
    """With ``--while-stdin`` the request is a line, and standard input stays open until nobody waits."""
    from klops.agent.verbs import reader
    from klops.agent.xccl import verb

    while_stdin = "--while-stdin" in options.flags
    text = reader.line() if while_stdin else sys.stdin.read()
    heard = verb.xccl(options.root, package, text, _tell, reader.watch(while_stdin))
    return 0 if heard else _NOBODY_WAITS


def _packages(options: Options) -> int:
    """With ``--while-stdin`` the request is a line, as for ``xccl``."""
    from klops.agent.packages import verb
    from klops.agent.verbs import reader

    while_stdin = "--while-stdin" in options.flags
    text = reader.line() if while_stdin else sys.stdin.read()

    def tell(value: Mapping[str, Any]) -> bool:
        return reader.write(json.dumps(value).encode("ascii") + b"\n")

    heard = verb.change(options.verb, options.root, text, tell, reader.watch(while_stdin))
    return 0 if heard else _NOBODY_WAITS


def _logs(options: Options, paths: store.Paths, name: str) -> int:
    from klops.agent.units import logs
    from klops.agent.verbs import reader

    path = paths.log(name)
    if not os.path.exists(path):
        raise VerbError("no-log", f"{name} has no log", "it was never started here")
    gone = reader.watch("--while-stdin" in options.flags)
    lines = int(options.values.get("--lines", 100))
    follow = "--follow" in options.flags
    logs.print_log(path, lines, options.values.get("--since"), follow, gone, reader.write)
    return 0
