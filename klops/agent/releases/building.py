"""The verb ``build``: a full copy of a release, changed by commands, becomes another one."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Callable, Mapping

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.releases import copying, files, installs, known, outcome, prune
from klops.agent.releases.log import Log
from klops.agent.releases.outcome import Build
from klops.agent.releases.places import Places, check_name
from klops.agent.running import Runner
from klops.agent.units.released import VARIABLE
from klops.agent.units.specification import texts
from klops.source.manifest import Release

_TIMEOUT = 1800.0
_NAMED = 5


def read(request: Mapping[str, Any]) -> Build:
    """Raises :class:`VerbError`."""
    try:
        return Build(
            check_name(request["name"]),
            [str(command) for command in request.get("commands", [])],
            float(request.get("timeout", _TIMEOUT)),
            texts(request.get("env", {}), "env"),
            [
                {
                    "package": str(one["package"]),
                    "path": str(one["path"]),
                    "globs": [str(g) for g in one["globs"]],
                }
                for one in request.get("carry", [])
            ],
            [str(name) for name in request.get("installs", [])],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise VerbError("usage", f"not a build: {type(error).__name__}: {error}") from error


def build(
    places: Places, name: str, asked: Build, line: Callable[[str], None], check: Callable[[], None]
) -> dict[str, Any]:
    """``{name, seconds, log, cached}``; ``line`` is told what commands say, ``check`` raises what ends it.

    ``cached``: the same was built before, of this release or of another with the same content.

    Raises :class:`VerbError` (``build-failed``, ``build-timeout``, ``no-release``) and ``OSError``.
    """
    begun = time.monotonic()
    with places.alone("build"):
        source = known.load(places, check_name(name))
        log = places.build_log(asked.name)
        if _sound(places, asked, asked.name):
            return {"name": asked.name, "seconds": 0.0, "log": log, "cached": True}
        store.Paths(places.root).make()
        prune.end_left(places)
        tree = os.fsencode(places.building(asked.name))
        try:
            files.remove(tree)
            same = _same(places, asked)
            if same is not None:
                line(f"{same} was built of the same content in the same way: it is copied")
                _copied(places, same, tree)
                outcome.publish_built(places, source, asked, tree)
            else:
                _made(places, source, asked, tree, begun + asked.timeout, line, check)
        finally:
            files.remove(tree)  # it has moved to its place, or nobody wants it
        for note in prune.sweep(places):
            line(note)
    seconds = round(time.monotonic() - begun, 3)
    return {"name": asked.name, "seconds": seconds, "log": log, "cached": same is not None}


def _made(
    places: Places,
    source: Release,
    asked: Build,
    tree: bytes,
    until: float,
    line: Callable[[str], None],
    check: Callable[[], None],
) -> None:
    copying.copy(places, source, tree)
    for one in asked.carry:
        line(copying.carry(places, one, tree))
    with installs.put_back_on_failure(
        places.root, asked.installs, f"build {asked.name}", asked.timeout, line
    ):
        damaged = _damage(places)
        _run(places, asked, tree, until, line, check)
        _insist_unharmed(places, asked, damaged)
        outcome.publish_built(places, source, asked, tree)


def _copied(places: Places, name: str, tree: bytes) -> None:
    """All of a built release; nothing is shared with it, as a build has written these files."""
    copying.copy(places, known.load(places, name), tree)
    there = os.fsencode(places.tree(name))
    for folder in files.folders(there):
        # empty ones are in no manifest
        if os.path.basename(folder) != known.CACHE:
            os.makedirs(tree + folder[len(there) :], exist_ok=True)


def _same(places: Places, asked: Build) -> str | None:
    """A release that was built in the same way of the same content: another commit has it, too."""
    made_of = asked.name.partition("-")[2]
    for name in known.whole(places):
        if name != asked.name and name.partition("-")[2] == made_of and _sound(places, asked, name):
            return name
    return None


def _sound(places: Places, asked: Build, name: str) -> bool:
    """Whether that was built before, is undamaged, and what it installs is as it was then."""
    if name not in known.whole(places):
        return False
    try:
        before = known.load(places, name)
    except VerbError as failure:
        if failure.code == "newer-schema":
            raise
        return False
    installed = installs.records(asked.installs)
    if None in installed.values() or before.about.get("installed", {}) != installed:
        return False
    return not known.damage(places.tree(name), before)


def _run(
    places: Places,
    asked: Build,
    tree: bytes,
    until: float,
    line: Callable[[str], None],
    check: Callable[[], None],
) -> None:
    folder = os.fsdecode(tree)
    beside = os.path.dirname(sys.executable)
    env = {**os.environ, "PATH": f"{beside}:{os.environ.get('PATH', os.defpath)}", **asked.env}
    env[VARIABLE] = asked.name
    log = Log(places.build_log(asked.name))
    try:
        runner = Runner(places.root, places.build_record, until, "its build is over")
        for command in asked.commands:
            line(log.add(f"$ {command}".encode("utf-8", "surrogateescape")))
            try:
                argv = ["/bin/sh", "-c", command]
                status = runner.run(argv, env, lambda said: line(log.add(said)), check, cwd=folder)
            except VerbError as failure:
                if failure.code != "timeout":
                    raise
                raise _failed(
                    asked, "build-timeout", f"took longer than {asked.timeout:g} s", command, log
                ) from failure
            if status:
                why = f"ended with status {status}" if status > 0 else f"was ended by signal {-status}"
                raise _failed(asked, "build-failed", why, command, log)
    finally:
        log.close()


def _damage(places: Places) -> set[str]:
    """Files of the release that runs which are not as they were laid down."""
    now = places.now()
    if now is None:
        return set()
    try:
        expected = known.load(places, now)
    except VerbError:
        return set()  # it can't be told; its next sync lays it down anew
    return {one["path"] for one in known.damage(places.tree(now), expected)}


def _insist_unharmed(places: Places, asked: Build, before: set[str]) -> None:
    """An installer writes through a package that is a link, into the release that runs.

    Raises :class:`VerbError`, code ``build-outside``.
    """
    harmed = sorted(_damage(places) - before)
    if harmed:
        raise VerbError(
            "build-outside",
            f"the build of {asked.name} is no good: its commands have changed {len(harmed)} files of "
            f"{places.now()}, the release that runs: {', '.join(harmed[:_NAMED])}",
            "one that installs a package of klops.source.targets writes there: leave out the one or the "
            "other; a klops sync of what runs lays it down anew",
        )


def _failed(asked: Build, code: str, why: str, command: str, log: Log) -> VerbError:
    said = "\n".join(log.last[1:])
    return VerbError(
        code,
        f"the build of {asked.name} failed: {command!r} {why}\n{said}".rstrip(),
        f"all it said is in {log.path}; the release that runs is as it was",
    )
