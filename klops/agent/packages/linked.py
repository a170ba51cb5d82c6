"""Packages that are links into a release: an installer writes through them, into the release that runs."""

from __future__ import annotations

import os
from typing import Collection

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.packages import names
from klops.agent.packages.places import Places
from klops.agent.packages.sites import Site, absolute, below


def refuse(places: Places, site: Site, changing: Collection[str]) -> None:
    """Raises :class:`VerbError`, code ``stack-in-release``, when one of these distributions (by compared
    names) is called as a package that a release stands in for.

    One that is installed is known by its RECORD, too (:func:`klops.agent.packages.saved.safe_place`).
    """
    releases = os.path.realpath(places.releases)
    for package in _packages(places, site):
        path = absolute(site, package.replace(".", "/"))
        if names.normal(package) in changing and below(os.path.realpath(path), releases):
            raise in_release(path)


def in_release(path: str) -> VerbError:
    """The error for a file or package that lies in a release."""
    return VerbError(
        "stack-in-release",
        f"{path} lies in a synced release",
        "take it out of klops.stack.packages, or the package out of klops.source.targets; "
        "where it is no target any more, klops sync takes the link away: run that first",
    )


def _packages(places: Places, site: Site) -> list[str]:
    """Those that a release was put in place of, by klops' own note on it; where that is damaged, all that are
    links."""
    try:
        noted = store.read_json(f"{places.releases}/targets.json") or {}
        return [str(one["package"]) for one in noted.get("targets", []) if "package" in one]
    except VerbError as failure:
        if failure.code != "damaged":
            raise
    except TypeError:
        pass  # no list of objects: damaged, too
    folders = {site.purelib, site.platlib}
    return [one.name for folder in folders for one in os.scandir(folder) if one.is_symlink()]
