"""What is looked at once nothing of a stopped unit lives: whether its cards gave their memory back."""

from __future__ import annotations

import os
from typing import Any, Mapping

from klops.agent import store
from klops.agent.audit import Audit
from klops.agent.processes import devices, procs
from klops.agent.trouble import Troubles
from klops.agent.units import ondisk
from klops.agent.units.memory import Memory, given_back, indexes
from klops.agent.units.zombies import seen

#: What became of the memory: given back, still held, not to be told, or none was ever asked for.
RETURNED, HELD, UNKNOWN, NONE = "returned", "held", "unknown", "none"


def settled(paths: store.Paths, name: str, unit: dict[str, Any]) -> dict[str, Any]:
    """The unit with ``memory`` (:func:`memory_of`) and ``defunct`` (``{count, init}`` or None).

    Waits up to half a minute for the memory, unless it is others who hold it.
    """
    return {**unit, "memory": memory_of(paths, name, unit), "defunct": seen()}


def memory_of(paths: store.Paths, name: str, unit: dict[str, Any]) -> dict[str, Any]:
    """``{state, held: [{index, bdf, used, before}], why}``: memory in MiB, ``why`` of what can't be told.

    It is judged by what was used just before what ran was started, on the cards that it had: by now the
    specification may be another.
    """
    spec, fault = ondisk.attempt(ondisk.spec, paths, name)
    known = indexes(spec) if spec is not None else {}
    idle = dict(unit.get("idle") or {}) if unit.get("generation") else {}
    if fault is not None:
        return _told(UNKNOWN, why=fault.message)
    if spec is None or (not idle and (not spec["cards"] or not unit.get("generation"))):
        return _told(NONE)
    if not idle:
        return _told(UNKNOWN, why="what its cards held before its start is not on record")
    memory = Memory(Audit(paths.audit, f"stop {os.getpid()}", Troubles()))
    try:
        held = given_back(memory, str(spec.get("smi") or ""), idle, lambda: _holders(spec))
    finally:
        memory.close()
    if held is None:
        return _told(UNKNOWN, why="xpu-smi can't be asked inside the container")
    record, _ = ondisk.attempt(ondisk.record, paths, name)
    ran = record.running.get("cards", []) if record is not None else []
    if len(ran) == len(idle):
        known = {bdf: ran[place] for place, bdf in enumerate(idle)}
    listed = [{"index": known.get(one.bdf), **one._asdict()} for one in held]
    return {**_told(HELD if held else RETURNED), "held": listed}


def _holders(spec: Mapping[str, Any]) -> dict[str, set[tuple[int, int]]]:
    """Pid and start of who has the unit's cards open here, by PCI address: nothing of it lives by now."""
    nodes, _ = devices.resolve(spec["cards"], spec["device_dir"])
    processes = procs.table()
    found, _ = devices.holders(processes.values(), nodes)
    who = {pid: (pid, processes[pid].start) for pid in found}
    return {
        str(spec["cards"][place].get("bdf")): {who[pid] for pid in found if node.path in found[pid]}
        for place, node in enumerate(nodes)
    }


def _told(state: str, why: str = "") -> dict[str, Any]:
    return {"state": state, "held": [], "why": why}
