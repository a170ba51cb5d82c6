"""Why a diagnosis doesn't begin: another is at work, or its cards are in use."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from typing import Any, Callable, Iterator, Mapping, Sequence

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.processes import devices, identity, observers, procs
from klops.agent.supervision import control
from klops.agent.units import report

BUSY, CARDS_BUSY = "xccl-busy", "cards-busy"
#: Seconds that somebody may have a card open until it counts: what looks which cards there are opens all.
_PATIENCE = 3.0
_LOOK = 0.2


@contextlib.contextmanager
def alone(paths: store.Paths, run: str) -> Iterator[None]:
    """One diagnosis at a time; the file says whose, to others. The lock goes with its holder."""
    fd = os.open(paths.ranks_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise VerbError(
                BUSY, f"another diagnosis is at work: {_who(paths.ranks_lock)}", "look again once it is done"
            ) from None
        boot, ns = identity.here()
        me = procs.read(os.getpid())
        said = {"boot": boot, "ns": ns, "pid": os.getpid(), "start": me.start if me else 0}
        data = json.dumps({"schema": store.SCHEMA, **said, "run": run, "at": time.time()}).encode("ascii")
        os.ftruncate(fd, 0)
        os.pwrite(fd, data, 0)
        yield
    finally:
        os.close(fd)


def _who(path: str) -> str:
    try:
        found = json.loads(procs.slurp(path))
        since = time.strftime("%Y-%m-%d %H:%M:%S%z", time.localtime(float(found["at"])))
        run = f", run {found['run']}" if found["run"] else ""
        return f"pid {found['pid']} (of its container){run}, since {since}"
    except (ValueError, KeyError, TypeError):
        return "it has only just begun"


def in_use(
    paths: store.Paths, cards: Sequence[Mapping[str, Any]], folder: str, check: Callable[[], None]
) -> None:
    """Raises :class:`VerbError` when a unit has one of these cards, or anybody has its node open.

    ``check`` is called meanwhile, and raises what ends it all early.
    """
    units = (control.ask(paths.run, {"verb": "status"}) or {}).get("units")
    if units is None:
        units = report.from_disk(paths, procs.table())
    wanted = {one["index"] for one in cards}
    taken = [
        f"{name} has card {', '.join(map(str, sorted(wanted & set(unit['cards']))))}"
        for name, unit in units.items()
        if (unit["lineage"] or unit["state"] not in ("stopped", "failed")) and wanted & set(unit["cards"])
    ]
    if taken:
        raise VerbError(
            CARDS_BUSY, f"in use: {'; '.join(taken)}", "klops down stops it; or leave those cards out"
        )
    deadline = time.monotonic() + _PATIENCE
    while True:
        check()
        problem = _held(cards, folder)
        if not problem:
            return
        if time.monotonic() > deadline:
            raise VerbError(
                CARDS_BUSY, problem, "klops reap ends what was left behind, and says who the others are"
            )
        time.sleep(_LOOK)


def _held(cards: Sequence[Mapping[str, Any]], folder: str) -> str:
    present = {os.path.basename(node.path): node for node in devices.nodes(folder)}
    names = {os.path.basename(str(one["node"])): one["index"] for one in cards if one["node"]}
    watched = [present[name] for name in names if name in present]
    if not watched:
        return ""
    processes = {pid: one for pid, one in procs.table().items() if pid != os.getpid()}
    held, unknown = devices.holders(processes.values(), watched)
    said = []
    for pid in sorted(held):
        if observers.observes(processes[pid]):
            continue
        listed = ", ".join(str(names[os.path.basename(path)]) for path in held[pid])
        said.append(f"pid {pid} ({processes[pid].name}) has card {listed} open")
    # the init of a container is docker's own: it opens no card, and may be out of sight where others aren't
    unseen = [one for one in unknown if one.pid != procs.INIT and not observers.observes(one)]
    if unseen and not said:
        said = [f"what pid {one.pid} ({one.name}) has open can't be seen" for one in unseen]
    return "; ".join(said)
