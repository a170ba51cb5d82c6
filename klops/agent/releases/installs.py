"""Distributions that a build installs: saved before it, known after it, put back when it fails."""

from __future__ import annotations

import contextlib
import sys
from typing import Callable, Iterator, Mapping, Sequence

from klops.agent.errors import VerbError
from klops.agent.packages import distributions, journal, known, names, pristine, saved, sites
from klops.agent.packages.distributions import Distribution
from klops.agent.packages.places import Places


def records(wanted: Sequence[str]) -> dict[str, str | None]:
    """sha256 of the RECORD of each, None where there is none. Raises :class:`VerbError`."""
    if not wanted:
        return {}
    found = distributions.installed(sites.ask(sys.executable), wanted)
    plain = {name: names.normal(name) for name in wanted}
    return {name: found[one].record if one in found else None for name, one in plain.items()}


@contextlib.contextmanager
def put_back_on_failure(
    root: str, wanted: Sequence[str], run: str, timeout: float, line: Callable[[str], None]
) -> Iterator[None]:
    """What is done within may install these; when it fails they are what they were.

    Of one that can't be saved, and of others that change although they are not named, ``line`` is told. A run
    that is killed within is undone by the next that changes packages. Raises :class:`VerbError` and
    ``OSError``.
    """
    if not wanted:
        yield
        return
    places, site = Places(root), sites.ask(sys.executable)
    with places.locked():
        journal.put_back(places, site)
        before = distributions.installed(site)
        noted = dict(_saved(places, site, {names.normal(name) for name in wanted}, before, line))
        journal.begin(places, site, noted, {}, run, timeout)
        try:
            yield
        except BaseException:
            journal.put_back(places, site)
            raise
        after = distributions.installed(site)
        notes = known.stack(places)
        for name in sorted({*before, *after}):
            was, now = before.get(name), after.get(name)
            if was == now:
                continue
            if name in noted:
                notes.original.setdefault(name, None if was is None else was.identity())
                notes.distributions[name] = None if now is None else now.identity()
            else:
                line(f"{name} was changed, too ({_version(was)} -> {_version(now)}): that can't be undone")
        journal.finish(places, notes, pristine.stale(places, site))


def _saved(
    places: Places,
    site: sites.Site,
    wanted: set[str],
    before: Mapping[str, Distribution],
    line: Callable[[str], None],
) -> Iterator[tuple[str, dict[str, object] | None]]:
    for name in sorted(wanted):
        distribution = before.get(name)
        if distribution is None:
            yield name, None
            continue
        try:
            yield name, {**distribution.identity(), "file": saved.save(places, site, distribution)}
        except VerbError as failure:
            if failure.code != "not-savable":
                raise
            line(f"{failure.message}: what the build makes of it can't be undone")


def _version(distribution: Distribution | None) -> str:
    return "none" if distribution is None else distribution.version
