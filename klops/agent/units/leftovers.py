"""What units have left in shared memory: removed when it is klops' own and nobody has it open, else listed.

It is looked at from inside the container only: /dev/shm, /tmp and the IPC namespace are the container's.
"""

from __future__ import annotations

import os
import stat
import time
from typing import Any, Collection, NamedTuple, Sequence

from klops.agent import store
from klops.agent.audit import Audit
from klops.agent.errors import VerbError
from klops.agent.processes import openfiles, procs, sysv, unixsockets
from klops.agent.processes.sysv import Segment
from klops.agent.trouble import reason
from klops.agent.units import claims, traces
from klops.agent.units.claims import Claim
from klops.agent.units.traces import File, Traces

#: Seconds that a file without a unit has to be old. Who makes one has it open from then on; this is for one
#: that is closed and then handed on by its name.
GRACE = 2.0


class Place(NamedTuple):
    """What the container is, and who looks."""

    paths: store.Paths
    audit: Audit
    #: klops made the container
    made: bool
    #: other containers, or the host, have the same /dev/shm or IPC namespace
    shared_ipc: bool = False
    shm: str = traces.SHM
    tmp: str = claims.TMP
    #: other containers, or the host, have the same /tmp
    shared_tmp: bool = False

    def shares(self, claim: Claim) -> str:
        """What others have as well of the two folders that a claim may be in; "" for none of them."""
        if self.shared_ipc:
            return "shared memory"
        return "folder" if self.shared_tmp and claim.name.startswith(f"{self.tmp}/") else ""


def tidy(
    place: Place,
    running: Collection[str],
    *,
    check: bool,
    own: Collection[int] = (),
    grace: float = GRACE,
    only: str | None = None,
) -> list[dict[str, Any]]:
    """Remove what is left over; one ``{path, bytes, kind, action, why}`` for each that is there.

    ``running`` are units of which something lives: what they have is in use. ``own`` are pids of klops:
    supervisor, launcher, the process that looks. ``grace`` counts up to ``GRACE``. ``only``: what this unit
    has left, and nothing by name. Raises ``OSError``.
    """
    wanted: list[Claim] = []
    found: list[dict[str, Any]] = []
    lists: dict[str, Traces] = {}
    known: set[str] = set()
    for unit in _listed(place.paths) if only is None else [only]:
        try:
            listed = traces.load(place.paths.traces(unit))
        except VerbError as failure:
            found.append(_unread(place.paths.traces(unit), failure))
            continue
        known |= {file.path for file in listed.files}
        if unit not in running:
            lists[unit] = listed
            wanted += claims.on_list(unit, listed)
    if place.made and only is None:
        named = claims.by_name(place.shm, place.tmp, procs.table(), own)
        wanted += [one for one in named if one.name not in known]
    kept = _why_kept(place, wanted, min(grace, GRACE)) if wanted else {}
    found += [_deal_with(place, claim, kept.get(claim.name, ""), check) for claim in wanted]
    if not check:
        for unit, before in lists.items():
            _shorten(place.paths, unit, before)
    return found


def _listed(paths: store.Paths) -> list[str]:
    """Names of units that have a list."""
    try:
        names = sorted(os.listdir(paths.run))
    except FileNotFoundError:
        return []
    return [name[: -len(traces.ENDING)] for name in names if name.endswith(traces.ENDING)]


def _unread(path: str, failure: VerbError) -> dict[str, Any]:
    why = f"{failure.message}: what its unit has left can't be told"
    return {"path": path, "bytes": 0, "kind": "file", "action": "none", "why": why}


def _why_kept(place: Place, wanted: Sequence[Claim], grace: float) -> dict[str, str]:
    """Reasons to leave things where they are, by name."""
    kept = {}
    for claim in wanted:
        shared = place.shares(claim)
        if shared:
            kept[claim.name] = (
                f"other containers or the host share this {shared}: who uses it can't be seen from here"
            )
    wanted = [claim for claim in wanted if claim.name not in kept]
    keys = {(one.thing.dev, one.thing.inode) for one in wanted if isinstance(one.thing, File)}
    # the table is younger than the claims: whoever made these files is in it if he still lives
    held = openfiles.holders(procs.table().values() if keys else (), keys, place.shm)
    user, now = place.paths.owner(), time.time()
    bound, blind = _bound()
    for claim in wanted:
        thing = claim.thing
        if isinstance(thing, Segment):
            why = f"{thing.attached} mapping(s) of it are in use" if thing.attached else ""
        else:
            why = _in_use(thing, held, bound, blind)
            if thing.uid != user:
                why = f"it belongs to user {thing.uid}, not to klops'"
            elif not why and not claim.unit and now - claim.changed < grace:
                why = f"it was made or changed less than {grace:g} s ago"
        if why:
            kept[claim.name] = why
    return kept


def _bound() -> tuple[set[str], str]:
    """Last parts of the names of all sockets, and why they can't be told."""
    try:
        return {os.path.basename(one.path) for one in unixsockets.bound()}, ""
    except OSError as error:
        return set(), reason(error)


def _in_use(file: File, held: openfiles.Holders, bound: Collection[str], blind: str) -> str:
    """Who uses a file, or why that can't be seen; "" when nobody does."""
    who = held.of((file.dev, file.inode), file.path)
    if who:
        return "in use by " + ", ".join(f"pid {one.pid} ({one.name})" for one in who)
    if file.kind == traces.SOCKET:
        if os.path.basename(file.path) in bound:
            return "a process listens on it"
        # no descriptor leads to such a file: the list of sockets is all there is to see
        return f"whether a process listens on it can't be seen: {blind}" if blind else ""
    unseen = ", ".join(f"pid {one.pid} ({one.name})" for one in held.unseen if one.pid != procs.INIT)
    return f"whether it is in use can't be seen: no access to the open files of {unseen}" if unseen else ""


def _deal_with(place: Place, claim: Claim, kept: str, check: bool) -> dict[str, Any]:
    if kept:
        return claim.entry(f"{claim.why}; {kept}")
    if check:
        return claim.entry(f"{claim.why}; would be removed")
    try:
        removed = _remove_segment(claim.thing) if isinstance(claim.thing, Segment) else unlink(claim.thing)
        outcome = "removed" if removed else "gone or changed meanwhile"
    except OSError as error:
        removed, outcome = False, f"refused: {reason(error)}"
    place.audit.note(
        "remove",
        claim.unit,
        path=claim.name,
        kind=claim.kind,
        bytes=claim.bytes,
        why=claim.why,
        outcome=outcome,
    )
    return claim.entry(claim.why if removed else f"{claim.why}; {outcome}", removed=removed)


def _remove_segment(segment: Segment) -> bool:
    now = next((one for one in sysv.segments() if one.id == segment.id), None)
    if now != segment:  # the same maker and moment, and still nobody who has it mapped
        return False
    sysv.remove(segment)
    return True


def unlink(file: File) -> bool:
    """Remove a file if it still is this one; whether it was. Raises ``OSError``.

    By its folder's descriptor: what was looked at and what is removed are in one folder, whose name is no
    link.
    """
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        folder = os.open(os.path.dirname(file.path), flags)
    except FileNotFoundError:
        return False
    try:
        name = os.path.basename(file.path)
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        right = stat.S_ISREG if file.kind == traces.MEMORY else stat.S_ISSOCK
        if not right(status.st_mode) or (status.st_dev, status.st_ino, status.st_uid) != file[1:4]:
            return False
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    finally:
        os.close(folder)
    return True


def _shorten(paths: store.Paths, unit: str, before: Traces) -> None:
    """Take what is gone off a unit's list, and the list away when it is empty and the unit is no more."""
    path = paths.traces(unit)
    try:
        if traces.load(path) != before:
            return  # its supervisor writes it: the unit is just being launched
    except VerbError:
        return
    present = sysv.segments()
    left = Traces(
        [one for one in before.files if one.there],
        [one for one in before.segments if any((p.id, p.ctime) == (one.id, one.ctime) for p in present)],
        before.before,
    )
    if left.empty and unit not in paths.names():
        store.remove(path)
    elif left != before:
        traces.save(path, left)
