"""What a file of site-packages is: as its distribution gave it, as klops patched it, or somebody else's."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from klops.agent.errors import VerbError
from klops.agent.packages import contents, distributions, known, sites
from klops.agent.packages.places import Places
from klops.agent.packages.sites import Site, below

#: What stands for the version of a file that no distribution lists.
_NOBODYS = "of no distribution"


class Target(NamedTuple):
    """``file``: relative to site-packages, ``path``: absolute; ``sha256``: of what is there.

    ``distribution`` and ``version``: whose it is; ``record``: the digest that RECORD has, None without one.
    ``known``: klops' own note on it.
    """

    file: str
    path: str
    sha256: str
    distribution: str
    version: str
    record: str | None
    known: dict[str, Any] | None

    def forms(self) -> str:
        """The digests that it may have, for a message."""
        pristine = self.known["pristine"] if self.known else self.record
        patched = self.known["patched"] if self.known else None
        return f"pristine {pristine or 'unknown'}, patched {patched or 'none by klops'}"


def look(places: Places, site: Site, file: str) -> Target:
    """Raises :class:`VerbError` for a path that no patch may have, and ``OSError``."""
    relative = sites.relative(site, file)
    path = sites.absolute(site, relative)
    if not os.path.lexists(path):
        raise VerbError("no-file", f"{path} is not there", "a patch is of a file that a distribution gave")
    real = os.path.realpath(path)
    if below(real, os.path.realpath(places.releases)):
        raise VerbError(
            "patch-in-release",
            f"{path} is {real}, a file of a synced release",
            "commit the change to that repository instead",
        )
    if not any(below(real, os.path.realpath(one)) for one in (site.purelib, site.platlib)):
        raise VerbError("unsafe-path", f"{path} leads to {real}", "name the file itself")
    if not os.path.isfile(real) or os.path.islink(path):
        raise VerbError("no-file", f"{path} is no regular file", "name the file itself")
    owner = distributions.owner(site, path)
    name, version = (owner[0].name, owner[0].version) if owner else ("", _NOBODYS)
    return Target(
        relative,
        path,
        contents.sha256(path),
        name,
        version,
        owner[1] if owner else None,
        known.patches(places).now.get(relative),
    )


class Base(NamedTuple):
    """What a patch is applied to: a content's path and digest; ``assumed``: that nobody touched it."""

    path: str
    sha256: str
    assumed: bool


def base(places: Places, target: Target, patch: str, kind: str) -> Base:
    """The pristine content of a file, for a patch of that digest. Raises :class:`VerbError`."""
    note = target.known
    if note is not None and target.sha256 in (note["patched"], note.get("former"), note["pristine"]):
        path = contents.kept(places.pristine, note["pristine"])
        if path is None:
            raise VerbError(
                "not-saved",
                f"the pristine {target.file} ({note['pristine']}) is not in {places.pristine} any more",
                f"install {target.distribution or 'its distribution'} anew, then repeat it",
            )
        return Base(path, note["pristine"], bool(note["assumed"]))
    if target.record is not None and target.sha256 == target.record:
        if note is not None and kind == "copy" and note["patch"] == patch:
            raise VerbError(
                "patch-stale",
                f"{target.file} was replaced in {note['distribution']} {note['version']} and is now of "
                f"{target.distribution} {target.version}: the same file would take that back",
                "make the file anew from the new version, or take it out of klops.stack.patches",
            )
        return Base(target.path, target.sha256, assumed=False)
    if note is None and target.record is None:
        return Base(target.path, target.sha256, assumed=True)
    raise foreign(target)


def foreign(target: Target) -> VerbError:
    """The file was changed by hand."""
    return VerbError(
        "patch-foreign",
        f"{target.file} has sha256 {target.sha256}, which is neither form that is known ({target.forms()})",
        f"put the file back, or install {target.distribution or 'its distribution'} anew, then repeat it",
    )
