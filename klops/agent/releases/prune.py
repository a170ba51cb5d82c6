"""What is not needed any more: old releases, and what interrupted runs have left."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import Callable, Collection

from klops.agent import store
from klops.agent.errors import system_error
from klops.agent.generations import kept as generations
from klops.agent.releases import files, known
from klops.agent.releases.places import Places
from klops.source.manifest.release import is_name

#: Logs of failed builds that stay.
_LOGS = 3
_LOG = re.compile(r"build-(.*)\.log\Z")
#: What is written beside, and was never renamed.
_BESIDE = re.compile(r"(.*\.json|current)\.\d+\.new\Z")


def in_use(places: Places) -> set[str]:
    """Releases that units run from, or come back to. Raises :class:`VerbError` when that can't be told."""
    paths = store.Paths(places.root)
    found = set()
    if os.path.exists(paths.kept):
        from klops.agent.supervision import goback

        found = goback.needed_releases(paths)
    names = paths.names()
    if names:
        from klops.agent.units import unit

        for name in names:
            state = store.read_json(paths.state(name)) or {}
            if state.get("state") != unit.STOPPED and isinstance(state.get("release"), str):
                found.add(str(state["release"]))
    return found


def prune(places: Places, keep: int, protect: Collection[str]) -> tuple[list[str], list[str]]:
    """Remove all but the current release, the protected ones, those in use, and the last used ``keep`` more.

    That of the last good generation is protected: it is what one goes back to. One that never was the current
    one takes no other one's place, and if a build was made from it, it only stays beside that one while that
    is current: the next build shares its files. Returns the names of those removed, and in words what can't
    be.
    """
    now, whole = places.now(), known.whole(places)
    bases = {name: known.base(places, name) for name in whole}
    only_base = {name for name in bases.values() if name in whole and not known.last_used(places, name)}
    never = {now, *protect, *generations.needed_releases(places.root), *in_use(places)}
    ran = [name for name in whole if name not in never and name not in only_base]
    kept = {*never, *ran[:keep], *([bases[now]] if now in bases else [])}
    old = [name for name in whole if name not in kept]
    left = [note for name in old for note in _noted(partial(_discard, places, name))]
    return [name for name in old if not os.path.lexists(places.tree(name))], left


def _discard(places: Places, name: str) -> None:
    """Without its folder a manifest is no release, so that goes first."""
    away = os.fsencode(f"{places.trash}/{name}.{os.getpid()}")
    files.remove(away)
    files.move_folder(os.fsencode(places.tree(name)), away)
    store.remove(places.manifest(name))
    for path in (places.build_log(name), places.build_log(name) + ".1"):
        store.remove(path)
    files.remove(away)


def sweep(places: Places) -> list[str]:
    """Remove what runs that didn't come to their end have left. Only who is alone there may.

    Returns in words what can't be removed, such as a file on NFS that somebody has open: the next one tries
    again.
    """
    end_left(places)
    left = []
    for folder in (places.incoming_folder, places.building_folder, places.trash):
        for name in os.listdir(folder):
            left += _removed(f"{folder}/{name}")
    whole, now = known.whole(places), places.now()
    left += _sweep_logs(places, whole)
    for entry in os.listdir(places.folder):
        name = entry[: -len(".json")] if entry.endswith(".json") else entry
        half = is_name(name) and name not in whole and name != now
        if half or _BESIDE.match(entry):
            left += _removed(f"{places.folder}/{entry}")
    return left


def _removed(path: str) -> list[str]:
    return _noted(partial(files.remove, os.fsencode(path)))


def _noted(removing: Callable[[], None]) -> list[str]:
    """What keeps from removing something: of that nothing else depends."""
    try:
        removing()
    except OSError as error:
        return [f"of what is not needed any more something stays for now: {system_error(error).message}"]
    return []


def _sweep_logs(places: Places, whole: Collection[str]) -> list[str]:
    """Of builds that failed only the last ones' logs stay: nothing else would ever take them away."""
    folder = os.path.dirname(places.build_log("x"))
    found = []
    for entry in os.listdir(folder) if os.path.isdir(folder) else ():
        match = _LOG.match(entry)
        if match and is_name(match[1]) and match[1] not in whole:
            path = f"{folder}/{entry}"
            found.append((os.stat(path).st_mtime_ns, path))
    old = [path for _, path in sorted(found)[:-_LOGS]]
    return [note for path in old for name in (path, path + ".1") for note in _removed(name)]


def end_left(places: Places) -> None:
    """End what a build that was killed has left alive: it writes to files that nobody wants."""
    if os.path.exists(places.build_record):
        from klops.agent import running

        running.end_left(places.root, places.build_record, "left by a build that was killed")
