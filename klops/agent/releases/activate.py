"""The verb ``activate``: a release becomes the current one, and what the container imports."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Iterator, List, Mapping, NamedTuple, Sequence

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.releases import files, imports, known, locating, publish, targets
from klops.agent.releases.places import Places, check_name
from klops.agent.releases.standin import StandIn
from klops.agent.releases.targets import SITE, Target
from klops.source.manifest import Release

_NAMED = 5


class Wanted(NamedTuple):
    """What is asked for."""

    name: str
    targets: List[Target]
    #: folders within the tree that units have in PYTHONPATH
    paths: List[str]
    #: how many old releases stay beside those that are needed
    keep: int
    protect: List[str]
    #: whether Python has to import the release then
    imports: bool


def read(request: Any) -> Wanted:
    """``{name, targets, paths, keep, protect, imports}``, of which all but the name may be missing.

    ``imports``: false where targets are taken away, so that Python imports what was there before them.

    Raises :class:`VerbError`.
    """
    if not isinstance(request, dict):
        raise VerbError("usage", f"what is to be activated is {request!r}")
    keep = request.get("keep", 3)
    if not isinstance(keep, int) or keep < 0:
        raise VerbError("usage", f"keep is {keep!r}, not a number of releases")
    return Wanted(
        check_name(request.get("name")),
        targets.read(request.get("targets", [])),
        _texts(request, "paths"),
        keep,
        _texts(request, "protect"),
        request.get("imports", True) is not False,
    )


def activate(places: Places, request: Mapping[str, Any]) -> dict[str, Any]:
    """``{before, changed, imports, pruned, notes}`` for a request as :func:`read` takes it.

    Raises :class:`VerbError` and ``OSError``.
    """
    wanted = read(request)
    with places.alone("activate"):
        done = switch(places, wanted, _sound(places, wanted.name))
        left = _sweep(places)
    # what could not be removed a moment ago mostly can't be now
    return {**done, "notes": list(dict.fromkeys([*done["notes"], *left]))}


def switch(places: Places, wanted: Wanted, release: Release) -> dict[str, Any]:
    """The same where nobody else is at the releases, and this one is whole and undamaged.

    When something else is imported than the release, all is put back.
    """
    lacking = [
        one.path for one in wanted.targets if one.package and not targets.holds(release.entries, one.path)
    ]
    if lacking:
        raise VerbError(
            "no-such-path", f"{release.name} has no folder {lacking[0]}", "see path in klops.source.targets"
        )
    name, (before, put) = release.name, _proven(places, release.name)
    goal = spots(places, wanted.targets)
    # those that were put somewhere before and aren't asked for any more
    old = [(target, spot) for target, spot in spots(places, recorded(places)) if spot.place not in _at(goal)]
    for target, spot in goal:
        spot.check(replace=bool(target.package))
    changed: list[str] = []
    damage = noted(places).damage
    trial = Trial(name, wanted.targets, wanted.paths, before, put)
    _record(places, [target for target, _ in (*goal, *old)], trial)
    with _put_back(places, before, put):
        if before != name:
            point(places, name)
            changed.append(f"current: {before or 'none'} -> {name}")
        changed += [said for _, spot in old for said in [spot.take_away()] if said]
        changed += [said for _, spot in goal for said in [spot.put()] if said]
        found = imports.look(places, release, wanted.targets, wanted.paths) if wanted.imports else []
        imports.insist(found)
    _record(places, [target for target, _ in goal])
    if before != name and before in known.whole(places):
        # it was until now, also where a way back led to it
        publish.used(places, before)
    publish.used(places, name)
    if before != name:
        from klops.agent.audit import Audit
        from klops.agent.trouble import Troubles

        audit = Audit(store.Paths(places.root).audit, f"activate {os.getpid()}", Troubles())
        audit.note("release", "", release=name, was=before)
    files.flush_one(os.fsencode(places.folder))
    pruned, notes = _pruned(places, wanted)
    if damage:
        aside = f"it is {places.targets}{store.ASIDE} now, and links of targets that went since are not known"
        notes.append(f"{damage}; {aside}")
    return {
        "before": before,
        "changed": changed,
        "imports": [one.as_json() for one in found],
        "pruned": pruned,
        "notes": notes,
    }


def _texts(request: Mapping[str, Any], key: str) -> list[str]:
    value = request.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise VerbError("usage", f"{key} is no list of texts")
    return value


def _sound(places: Places, name: str) -> Release:
    """The release, when it is whole. Raises :class:`VerbError`."""
    if name not in known.whole(places):
        raise VerbError("no-release", f"there is no release {name} on this host", "klops sync it")
    release = known.load(places, name)
    damage = known.damage(places.tree(name), release)
    if damage:
        listed = ", ".join(f"{one['path']} ({one['problem']})" for one in damage[:_NAMED])
        raise VerbError(
            "damaged-release",
            f"{len(damage)} files of {name} are not as they were laid down: {listed}",
            "klops sync lays it down anew",
        )
    return release


def spots(places: Places, wanted: Sequence[Target]) -> list[tuple[Target, StandIn]]:
    """Where links have to stand. Raises :class:`VerbError`."""
    found = []
    for target in wanted:
        if target.root:
            found.append((target, StandIn(target.root, places.current, places.current)))
        elif target.place == SITE:
            link = f"{places.current}/{target.path}"
            found.append((target, StandIn(installed(target.package), link, places.current)))
    return found


def installed(package: str) -> str:
    """The folder where a package is installed, or would be. Raises :class:`VerbError`."""
    below, site = package.replace(".", "/"), locating.folders()
    return next((f"{one}/{below}" for one in site if os.path.lexists(f"{one}/{below}")), f"{site[0]}/{below}")


def _at(goal: Sequence[tuple[Target, StandIn]]) -> set[str]:
    return {spot.place for _, spot in goal}


def point(places: Places, name: str) -> None:
    """Swap the link ``current``. Raises ``OSError``."""
    beside = f"{places.current}.{os.getpid()}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(beside)
    os.symlink(name, beside)
    os.replace(beside, places.current)


@contextlib.contextmanager
def _put_back(places: Places, before: str | None, put: Sequence[Target]) -> Iterator[None]:
    """What fails within leaves the link and the targets as they were."""
    try:
        yield
    except BaseException:
        go_back(places, before, put)
        raise


def go_back(places: Places, before: str | None, put: Sequence[Target]) -> None:
    """Have the link and the targets as they once were. Raises :class:`VerbError` and ``OSError``."""
    old = spots(places, put)
    for _, spot in spots(places, recorded(places)):
        if spot.place not in _at(old):
            spot.take_away()
    if before is not None:
        point(places, before)
    elif os.path.lexists(places.current):
        os.unlink(places.current)
    for _, spot in old:
        spot.put()
    _record(places, put)


class Trial(NamedTuple):
    """A switch of which it isn't known yet whether Python imports what it should: to ``release`` with
    ``targets`` and ``paths`` as in :class:`Wanted`, from ``before`` with the targets ``put``."""

    release: str
    targets: List[Target]
    paths: List[str]
    before: str | None
    put: List[Target]

    def as_json(self) -> dict[str, Any]:
        """As it is noted."""
        lists = {key: [one.as_json() for one in getattr(self, key)] for key in ("targets", "put")}
        return {**self._asdict(), **lists}


class Noted(NamedTuple):
    """``targets`` that were put somewhere, and the ``trial`` that was cut short, None where none was.

    ``damage``: why that can't be told; then there are neither.
    """

    targets: List[Target]
    trial: Trial | None = None
    damage: str = ""


def noted(places: Places) -> Noted:
    """What ``targets.json`` tells. Raises :class:`VerbError` for one that a newer klops wrote."""
    try:
        value = store.read_json(places.targets)
        if value is None:
            return Noted([])
        return Noted(targets.read(value["targets"]), _trial(value.get("trial")))
    except VerbError as failure:
        if failure.code not in ("damaged", "usage"):
            raise
        return Noted([], damage=f"{places.targets} is damaged: {failure.message}")
    except (KeyError, TypeError) as error:
        return Noted([], damage=f"{places.targets} is damaged: {type(error).__name__}: {error}")


def _trial(value: Any) -> Trial | None:
    if value is None:
        return None
    return Trial(**{**value, **{key: targets.read(value[key]) for key in ("targets", "put")}})


def recorded(places: Places) -> list[Target]:
    """Targets that were put somewhere, none where that can't be told. Raises :class:`VerbError`."""
    return noted(places).targets


def _proven(places: Places, name: str) -> tuple[str | None, list[Target]]:
    """The release, and its targets, that a switch to ``name`` goes back to when it fails.

    That is what stands, unless a run that was killed before Python was asked has put it there: then what
    stood before that, or what stands once it is seen to be imported.
    """
    now, (put, trial, _) = places.now(), noted(places)
    if trial is None or now not in (trial.release, trial.before):
        return now, put
    if now == trial.release != name and _is_imported(places, trial):
        return now, trial.targets
    if trial.before is not None and trial.before not in known.whole(places):
        return now, trial.targets
    return trial.before, trial.put


def _is_imported(places: Places, trial: Trial) -> bool:
    try:
        release = known.load(places, trial.release)
        imports.insist(imports.look(places, release, trial.targets, trial.paths))
    except VerbError:
        return False
    return True


def _record(places: Places, wanted: Sequence[Target], trial: Trial | None = None) -> None:
    """Note which targets are put somewhere, and what is tried; without it that this stands."""
    if trial is not None and (trial.release, trial.targets) == (trial.before, trial.put):
        trial = None
    before = noted(places)
    if before.damage:
        store.set_aside(places.targets)
    if not wanted and trial is None:
        store.remove(places.targets)
    elif before != (list(wanted), trial, ""):
        told = {} if trial is None else {"trial": trial.as_json()}
        store.write_json(places.targets, {"targets": [target.as_json() for target in wanted], **told})


def _sweep(places: Places) -> list[str]:
    from klops.agent.releases import prune

    return prune.sweep(places)


def _pruned(places: Places, wanted: Wanted) -> tuple[list[str], list[str]]:
    """What was removed, and why something, or all, was not."""
    from klops.agent.releases import prune

    try:
        return prune.prune(places, wanted.keep, wanted.protect)
    except VerbError as failure:
        return [], [f"no old release was removed, as it can't be told which are in use: {failure.message}"]
