"""The verb ``stack``: pinned versions installed by uv, so that what stood before can be put back."""

from __future__ import annotations

import time
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

from klops.agent.errors import VerbError
from klops.agent.packages import (
    distributions,
    journal,
    known,
    linked,
    names,
    pristine,
    running,
    saved,
    sites,
    uv,
)
from klops.agent.packages.distributions import Distribution
from klops.agent.packages.places import Places, refused
from klops.agent.packages.sites import Site
from klops.agent.packages.uv import Asked, Source

Installed = Mapping[str, Distribution]


class Request(NamedTuple):
    """``timeout``: seconds for all calls of uv together; ``run``: of whom this is, for the notes."""

    install: tuple[Asked, ...]
    source: Source
    timeout: float
    run: str


class Way(NamedTuple):
    """To whom lines go, and whether somebody still waits (see :mod:`klops.agent.verbs.reader`)."""

    tell: Callable[[str], None]
    gone: Callable[[float], bool]


def stack(places: Places, request: Request, way: Way) -> dict[str, Any]:
    """Have the asked versions installed.

    Gives ``{"changed": [{"name", "from", "to", "asked"}], "put_back": [name], "notes": [text]}``.

    ``put_back``: what an earlier run that was killed had left half changed. Raises :class:`VerbError`; then
    everything is as it was, unless the code is ``stack-half``: then the next run tries again to put it back.
    """
    site = sites.ask()
    with places.locked():
        try:
            put_back = journal.put_back(places, site)
            return {**_Installing(places, site, request, way).run(), "put_back": put_back}
        except OSError as error:
            raise refused(error) from error


def unmet(asked: Sequence[Asked], installed: Installed) -> list[Asked]:
    """Those that aren't installed in the version that is asked for."""
    return [
        one
        for one in asked
        if one.name not in installed or not names.same(installed[one.name].version, one.version)
    ]


class _Installing:
    def __init__(self, places: Places, site: Site, request: Request, way: Way) -> None:
        self._places, self._site, self._request, self._way = places, site, request, way
        self._until = time.monotonic() + request.timeout

    def run(self) -> dict[str, Any]:
        before = distributions.installed(self._site)
        if not unmet(self._request.install, before):
            return {"changed": [], "notes": []}
        program = uv.needed(self._site.python)
        changing = {one.name for one in unmet(self._request.install, before)} | self._announced(program)
        linked.refuse(self._places, self._site, changing)
        noted = {name: self._save(before.get(name)) for name in sorted(changing)}
        journal.begin(self._places, self._site, noted, {}, self._request.run, self._request.timeout)
        try:
            for group in uv.groups(self._request.install):
                self._call(program, group, [], lambda line: None)
            after = distributions.installed(self._site)
            self._judge(after)
            stale = pristine.stale(self._places, self._site)
        except (VerbError, OSError, KeyboardInterrupt) as failure:
            self._undo(failure, before)
            raise
        rows = self._changed(before, after)
        unsaved = self._unsaved(before, {row["name"] for row in rows} - {*noted})
        journal.finish(
            self._places,
            self._notes(before, after, [row["name"] for row in rows if row["name"] not in unsaved]),
            stale,
        )
        told = [
            f"uv changed {row['name']}, {row['from']} -> {row['to'] or 'not installed'}, without having "
            "announced it: it isn't saved, and going back leaves it as it is now"
            for row in rows
            if row["name"] in unsaved
        ]
        return {"changed": rows, "notes": [*saved.by_hand(self._places, noted), *told]}

    def _unsaved(self, before: Installed, unannounced: Iterable[str]) -> set[str]:
        """Those that can't be put back: a generation must not need them. One that klops has changed before is
        noted all the same, as it may go back to what it was before that."""
        notes = known.stack(self._places)
        return {
            name
            for name in unannounced
            if name in before
            and name not in notes.distributions
            and saved.find(notes, name, before[name].identity()) is None
        }

    def _announced(self, program: str) -> set[str]:
        """What uv says it would change."""
        found: set[str] = set()

        def take(line: str) -> None:
            name = uv.changed(line)
            if name is not None:
                found.add(name)

        for group in uv.groups(self._request.install):
            self._call(program, group, ["--dry-run"], take)
        return found

    def _save(self, distribution: Distribution | None) -> dict[str, Any] | None:
        if distribution is None:
            return None
        file = saved.save(self._places, self._site, distribution)
        if distribution.editable:
            self._tell(f"{distribution.name} is editable: of it only the metadata is saved")
        return {**distribution.identity(), "file": file}

    def _call(self, program: str, group: list[Asked], more: list[str], take: Callable[[str], None]) -> None:
        """Run uv for a group. Raises :class:`VerbError`."""
        versions = {name: one.version for name, one in distributions.installed(self._site).items()}
        argv = uv.argv(program, self._site.python, group, self._request.source, versions) + more
        env = uv.environment(self._site.python, group, self._request.source)

        def tell(line: str) -> None:
            take(line)
            if not more:
                self._tell(line)

        try:
            done = running.run(self._places, argv, env, self._until, tell, self._way.gone)
        except VerbError as failure:
            if failure.code == "timeout":
                raise VerbError(
                    "stack-timeout",
                    f"uv was not done within {self._request.timeout:g} s",
                    "klops.stack.timeout gives it more",
                ) from failure
            raise
        if done.code != 0:
            raise VerbError(
                "stack-failed",
                uv.shown(uv.complaint(done.said)) or f"uv ended with status {done.code} and said nothing",
                "see klops.stack, or install it by hand to try",
            )

    def _tell(self, line: str) -> None:
        self._way.tell(uv.shown(line))

    def _judge(self, after: Installed) -> None:
        """Raises :class:`VerbError` when metadata says other versions than asked."""
        wrong = [
            f"{one.name} {one.version} (metadata says "
            f"{after[one.name].version if one.name in after else 'nothing: it is not installed'})"
            for one in unmet(self._request.install, after)
        ]
        if wrong:
            raise VerbError(
                "stack-unmet",
                f"after the installation not as asked: {'; '.join(wrong)}",
                "ask for the version that the metadata has, with what follows its +",
            )

    def _changed(self, before: Installed, after: Installed) -> list[dict[str, Any]]:
        asked = {one.name for one in self._request.install}
        return [
            {
                "name": name,
                "from": before[name].version if name in before else None,
                "to": after[name].version if name in after else None,
                "asked": name in asked,
            }
            for name in sorted({*before, *after})
            if before.get(name) != after.get(name)
        ]

    def _notes(self, before: Installed, after: Installed, changed: list[str]) -> known.Stack:
        notes = known.stack(self._places)
        for name in changed:
            notes.original.setdefault(name, _identity(before.get(name)))
            notes.distributions[name] = _identity(after.get(name))
        return notes

    def _undo(self, failure: BaseException, before: Installed) -> None:
        """Put all back. Raises :class:`VerbError` when that isn't so afterwards."""
        said = failure.message if isinstance(failure, VerbError) else str(failure)
        try:
            journal.put_back(self._places, self._site)
        except (VerbError, OSError) as error:
            second = refused(error) if isinstance(error, OSError) else error
            raise VerbError("stack-half", f"{said}; and then: {second.message}", second.hint) from failure
        others = self._changed(before, distributions.installed(self._site))
        if others:
            listed = ", ".join(f"{row['name']} {row['from']} -> {row['to']}" for row in others)
            raise VerbError(
                "stack-half",
                f"{said}; and uv changed what it had not announced, so that it isn't saved: {listed}",
                "have these installed by klops.stack.packages",
            ) from failure


def _identity(distribution: Distribution | None) -> dict[str, Any] | None:
    return None if distribution is None else distribution.identity()
