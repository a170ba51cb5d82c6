"""The notes on cards kept out of service, ``ROOT/cards.json``: read, and written beside and renamed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from typing import Any, Callable, Iterator, Mapping, Sequence

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.processes import devices, identity
from klops.agent.processes.procs import Process
from klops.cards.record import quarantine

#: Seconds that a verb waits for another writer.
_PATIENCE = 5.0


def path(root: str) -> str:
    """Where the notes are."""
    return store.Paths(root).cards


def _notes(root: str) -> list[Any]:
    """All notes. Raises :class:`VerbError` for a file that can't be read or is no list of notes.

    Such a file is nobody's to replace here: cards that people have excluded would be back in service.
    """
    try:
        value = store.read_json(path(root)) or {"notes": []}
    except VerbError as failure:
        if failure.code != "damaged":
            raise
        raise _damaged(failure.message) from failure
    if not isinstance(value.get("notes"), list):
        raise _damaged(f"{path(root)} has no list of notes")
    return list(value["notes"])


def _damaged(what: str) -> VerbError:
    return VerbError(
        "damaged",
        what,
        "put it right; or move it away, and exclude again the cards that are to be kept out of service",
    )


def lives(process: Mapping[str, Any]) -> bool | None:
    """Whether a process ``{pid, start, ns}`` lives; None for one of another pid namespace: it isn't seen."""
    boot, ns = identity.here()
    if process["ns"] != ns:
        return None
    return identity.alive(identity.Identity(boot, ns, process["pid"], process["start"]))


def in_force(root: str) -> list[dict[str, Any]]:
    """The notes that count now. Raises :class:`VerbError` when the file doesn't tell."""
    return quarantine.in_force(_notes(root), identity.here()[0], time.time(), lives)


def add(root: str, new: Sequence[Mapping[str, Any]]) -> None:
    """Write notes down, beside those in force.

    Raises ``OSError``, also where the file doesn't tell: no service starts on any card then.
    """
    with _alone(root):
        try:
            notes: list[Any] = list(in_force(root))
        except VerbError as failure:
            raise OSError(errno.EIO, failure.message) from failure
        for one in new:
            notes = quarantine.added(notes, one)
        store.write_json(path(root), {"notes": notes})


def change(
    root: str, lifted: Callable[[Mapping[str, Any]], bool], new: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Take away the notes that are ``lifted``, which are returned, and write new ones down, in one go.

    Others may be at it for a moment: that is waited for. Raises ``OSError``, and :class:`VerbError` when the
    file doesn't tell.
    """
    with _alone(root, _PATIENCE):
        notes = in_force(root)
        gone = [one for one in notes if lifted(one)]
        kept: list[Any] = [one for one in notes if one not in gone]
        for one in new:
            kept = quarantine.added(kept, one)
        store.write_json(path(root), {"notes": kept})
    return gone


def outlived(root: str, over: Callable[[Mapping[str, Any]], bool]) -> list[dict[str, Any]]:
    """The notes for processes that are ``over``. Raises :class:`VerbError` when the file doesn't tell."""
    return quarantine.outlived(_notes(root), identity.here()[0], over)


def lift(root: str, over: Callable[[Mapping[str, Any]], bool]) -> list[dict[str, Any]]:
    """Take away the notes for processes that are ``over``, and return them.

    Raises ``OSError``, and :class:`VerbError` when the file doesn't tell.
    """
    if not outlived(root, over):
        return []
    with _alone(root):
        notes = _notes(root)
        lifted = quarantine.outlived(notes, identity.here()[0], over)
        store.write_json(path(root), {"notes": [one for one in notes if one not in lifted]})
    return lifted


@contextlib.contextmanager
def _alone(root: str, patience: float = 0.0) -> Iterator[None]:
    """One writer at a time. A supervisor doesn't wait for the other: it tries it again."""
    fd = os.open(f"{root}/run/cards.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + patience
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(0.05)
        yield
    finally:
        os.close(fd)


def held_by(stuck: Sequence[Process], spec: Mapping[str, Any]) -> dict[int, list[int]]:
    """Indexes of the unit's cards that processes have open, by pid; all where that can't be read.

    Open files only: whoever reads the mappings of a process that is stuck may get stuck like it.
    """
    if not spec.get("cards"):
        return {}
    every = [card["index"] for card in spec["cards"]]
    nodes, _ = devices.resolve(spec["cards"], spec["device_dir"])
    index = {node.rdev: every[place] for place, node in enumerate(nodes)}
    found = {}
    for process in stuck:
        numbers = devices.opened(process.pid)
        held = sorted({index[number] for number in numbers or () if number in index})
        found[process.pid] = every if numbers is None or len(nodes) < len(every) else held
    return found


def notes(
    stuck: Sequence[Process], cards: Mapping[int, Sequence[int]], spec: Mapping[str, Any], said: str, by: str
) -> list[dict[str, Any]]:
    """A note for each card that a process which KILL doesn't end has open."""
    boot, ns = identity.here()
    at = round(time.time(), 3)

    def one(card: Mapping[str, Any], p: Process) -> dict[str, Any]:
        who = {"pid": p.pid, "start": p.start, "ns": ns, "name": p.name, "state": p.state}
        return quarantine.note(card, said, by=by, at=at, boot_id=boot, process=who)

    held = [(card, p) for p in stuck for card in spec.get("cards", ()) if card["index"] in cards[p.pid]]
    return [one(card, p) for card, p in held]


def obstacle(root: str, spec: Mapping[str, Any]) -> str:
    """Why a unit can't have its cards for now; "" when no note is against it.

    Raises :class:`VerbError` when the file of notes doesn't tell.
    """
    if not spec["cards"] or not os.path.exists(path(root)):
        return ""
    notes = in_force(root)
    against = [(card["index"], quarantine.against(notes, card)) for card in spec["cards"]]
    reasons = [(index, one.get("reason") or "no reason is given") for index, one in against if one]
    return "; ".join(f"card {index} is kept out of service: {reason}" for index, reason in reasons)
