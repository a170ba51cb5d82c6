"""What ``status`` says of a unit, from its record, its specification and what lives."""

from __future__ import annotations

import os
import time
from typing import Any, Mapping, Sequence

from klops.agent import store
from klops.agent.processes import identity, procs
from klops.agent.processes.procs import Process
from klops.agent.units import liveness, logs, ondisk
from klops.agent.units.lineage import Lineage
from klops.agent.units.unit import Record


def unit(
    record: Mapping[str, Any],
    spec: Mapping[str, Any] | None,
    secret: Mapping[str, Any] | None,
    living: Sequence[Process],
    log: str,
    health: Mapping[str, Any],
    fault: str = "",
) -> dict[str, Any]:
    """The UNIT object: what a living generation was launched with, else what is on disk.

    ``fault`` is what is wrong with its files. It has no digest then, so that ``klops up`` sends them again.
    """
    running: Mapping[str, Any] = record.get("running") or {}
    if not living or not running:
        running = launched_with(spec or {}, secret)
    root = record.get("root")
    alive = root is not None and any([p.pid, p.start] == list(root) for p in living)
    line, percent = logs.progress(log, int(record.get("log_from", 0))) if living else ("", None)
    state = record.get("state", "stopped")
    return {
        "state": state,
        "desired": record.get("desired", "stopped"),
        "cpid": root[0] if alive and root else None,
        "start": root[1] if alive and root else None,
        "since": record.get("since_at") or None,
        "restarts": record.get("restarts", 0),
        "generation": record.get("generation", 0),
        # epoch seconds; None for one that was ready after its last failure
        "failed_at": record.get("failed_at") or None,
        "cards": running.get("cards", []),
        "tp": running.get("tp"),
        "port": running.get("port"),
        "model": running.get("model"),
        "health": dict(health),
        "digest": None if fault else running.get("digest"),
        "secret": running.get("secret"),
        # that what lives was launched on; None for none, and where that isn't known
        "release": (record.get("release") or None) if living else None,
        # what klops had changed of the packages by then, as a digest
        "packages": record.get("packages", "") if living else "",
        "line": line or (record.get("tail") or [""])[-1],
        "percent": percent if state == "starting" else None,
        "error": fault or _error(record),
        # whoever stopped it was to start it again
        "resumes": bool(record.get("resumes")),
        # for its cards, which are missing or can't be opened: it starts by itself once they are there
        "waits": state == "backoff" and bool(record.get("waits")),
        "elapsed": round(max(0.0, time.monotonic() - float(record.get("since", 0.0))), 1),
        "log": record.get("tail", []),
        # lines that show what the first of several failures was
        "first_log": record.get("first_tail", []) if int(record.get("failures", 0)) > 1 else [],
        "lineage": [{"cpid": p.pid, "start": p.start, "name": p.name} for p in living],
        # MiB by PCI address; {} where it isn't known
        "idle": record.get("idle") or {},
    }


def _error(record: Mapping[str, Any]) -> str:
    """What is wrong; of a unit that failed, or tries again, with what its first failure was."""
    error, first = str(record.get("error", "")), str(record.get("first_error", ""))
    if record.get("resumes") and record.get("state") == "stopped":
        return "it was stopped to be started again, which a run that was cut short did not come to"
    if not error or record.get("state") in ("ready", "unhealthy"):
        return error  # of what runs
    if int(record.get("failures", 0)) <= 1:
        return f"{error}; first error in the log: {first}" if first else error
    why = str(record.get("first_why", ""))
    parts = [error]
    if why and not error.startswith(why):
        parts.append(f"the first of these failures: {why}")
    if first:
        parts.append(f"first error in the log of the first failure: {first}")
    return "; ".join(parts)


def launched_with(spec: Mapping[str, Any], secret: Mapping[str, Any] | None) -> dict[str, Any]:
    """The parts of a specification that ``status`` shows and changes are judged by."""
    return {
        "digest": spec.get("digest"),
        "secret": {"salt": secret["salt"], "digest": secret["digest"]} if secret else None,
        "cards": [card["index"] for card in spec.get("cards", [])],
        "tp": spec.get("tp"),
        "port": spec.get("port"),
        "model": spec.get("model"),
    }


def from_disk(paths: store.Paths, processes: Mapping[int, Process]) -> dict[str, Any]:
    """All units without a supervisor: what is on record, held against what lives."""
    found = ((name, _unwatched(paths, name, dict(processes))) for name in paths.names())
    return {name: told for name, told in found if told is not None}


def _unwatched(paths: store.Paths, name: str, table: dict[int, Process]) -> dict[str, Any] | None:
    """None for one that was removed, of which a lineage is left for members in other namespaces."""
    record, state_fault = ondisk.attempt(ondisk.record, paths, name)
    spec, spec_fault = ondisk.attempt(ondisk.spec, paths, name)
    secret, secret_fault = ondisk.attempt(ondisk.secret, paths, name)
    lineage = Lineage(paths.lineage(name))
    living = [*lineage.living(table), *(p for p in lineage.unrecorded(table, (1,)) if p.alive)]
    if not lineage.members and not any((record, spec, secret, state_fault, spec_fault, secret_fault)):
        return None
    fault = next((one.message for one in (state_fault, spec_fault, secret_fault) if one is not None), "")
    state = (record or Record(name)).dump()
    if living:
        if fault or state["state"] in ("ready", "stopped"):
            state["state"] = "unhealthy"  # it may serve, but nobody checks
    elif fault:
        state["state"] = "failed"
    elif state["state"] != "failed":
        state["state"] = "stopped"
        if state["desired"] == "running":
            state["error"] = state["error"] or _why_down(paths)
    return unit(state, spec, secret, living, paths.log(name), NOT_CHECKED, fault)


def _why_down(paths: store.Paths) -> str:
    """Why a unit that is wanted doesn't run, as far as can be told without its supervisor."""
    why = "it is wanted, but no supervisor answers that would start it"
    try:
        room = os.statvfs(paths.root).f_bavail
    except OSError as error:
        return f"{why}; {paths.root}: {error.strerror}"
    return why if room else f"{why}; there is no room left on the disk of {paths.root}"


NOT_CHECKED = liveness.unchecked("no supervisor answers")


def owners(paths: store.Paths, processes: dict[int, procs.Process]) -> dict[int, str]:
    """Unit by pid, from the lineages on disk."""
    from klops.agent.units.lineage import owners as by_lineage

    return by_lineage([(name, Lineage(paths.lineage(name))) for name in paths.names()], processes)


def supervisor(cpid: int, agent: str) -> dict[str, Any]:
    """The supervisor about itself."""
    who = identity.of_pid(cpid)
    return {"cpid": cpid, "start": who.start if who else None, "agent": agent}
