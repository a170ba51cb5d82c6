"""What a file of site-packages is: as its distribution gave it, as klops patched it, or somebody else's."""

from __future__ import annotations

import os
from typing import Any, Mapping, NamedTuple

from klops.agent.errors import VerbError
from klops.agent.packages import contents, distributions, known, sites
from klops.agent.packages.places import Places
from klops.agent.packages.sites import Site, below

#: What stands for the version of a file that no distribution lists.
_NOBODYS = "of no distribution"
#: What a note has while the file is being patched.
_BRIEF = ("former", "pending")


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

    @property
    def patched(self) -> bool:
        """Whether it has what klops made of it."""
        note = self.known
        return note is not None and not note.get("stale") and has_patch(note, self.sha256)

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
    if in_release(places, path):
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


def in_release(places: Places, path: str) -> bool:
    """Whether a file is that of a synced release, which a link leads to."""
    return below(os.path.realpath(path), os.path.realpath(places.releases))


class Base(NamedTuple):
    """What a patch is applied to: a content's path and digest; ``assumed``: that nobody touched it."""

    path: str
    sha256: str
    assumed: bool


def base(places: Places, target: Target, patch: str, kind: str) -> Base:
    """The pristine content of a file, for a patch of that digest. Raises :class:`VerbError`."""
    note = target.known
    if note is not None and (target.patched or target.sha256 == note["pristine"]):
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


def has_patch(note: Mapping[str, Any], digest: str | None) -> bool:
    """Whether a file of that digest has what klops made of it, by a note on it."""
    return digest is not None and digest in (note["patched"], note.get("former"))


def stale(places: Places, site: Site) -> dict[str, dict[str, Any]]:
    """The notes that a change of packages leaves of patches which it has taken away, by file.

    Such a file is gone, or is what a distribution brought, be that the very same as it was patched to. It is
    nothing to go back to then; but a copy that was made for the former version is known by the note. None of
    them is one that a release stands in for, which comes back with its package, or that somebody has changed.
    Raises :class:`VerbError` and ``OSError``.
    """
    return {
        file: {**{key: one for key, one in entry.items() if key not in _BRIEF}, "stale": True}
        for file, entry in known.patches(places).now.items()
        if not entry.get("stale") and not _holds(places, site, entry)
    }


def _holds(places: Places, site: Site, entry: Mapping[str, Any]) -> bool:
    path = entry["path"]
    if in_release(places, path):
        return True
    if not os.path.isfile(path):
        return False
    digest, owner = contents.sha256(path), distributions.owner(site, path)
    record = owner[1] if owner is not None else None
    return has_patch(entry, digest) if record is None else digest != record


def foreign(target: Target) -> VerbError:
    """The file was changed by hand."""
    return VerbError(
        "patch-foreign",
        f"{target.file} has sha256 {target.sha256}, which is neither form that is known ({target.forms()})",
        f"put the file back, or install {target.distribution or 'its distribution'} anew, then repeat it",
    )
