"""The verb ``restore``: distributions and patches as they once stood, from what is saved on the host."""

from __future__ import annotations

import os
from typing import Any, Mapping, NamedTuple

from klops.agent.errors import VerbError
from klops.agent.packages import (
    contents,
    distributions,
    journal,
    known,
    names,
    pristine,
    putting,
    saved,
    sites,
)
from klops.agent.packages.places import Places, refused
from klops.agent.packages.sites import Site

#: Seconds that putting files back is given, for whoever judges what came meanwhile.
_LASTING = 3600.0


class Request(NamedTuple):
    """What shall stand. ``distributions``: ``{"version", "record"}`` or None by name; ``patches``: the sha256
    of files by their path relative to site-packages."""

    distributions: dict[str, Any]
    patches: dict[str, str]
    run: str


class _Plan(NamedTuple):
    """``distributions``: an archive, or None to remove it, by name; ``files``: digests of their contents."""

    distributions: dict[str, str | None]
    files: dict[str, str]


def restore(places: Places, request: Request) -> dict[str, Any]:
    """``{"changed": [{"name", "from", "to"}], "patches": [file], "notes": [text]}``.

    A distribution that klops once changed and that isn't named goes back to what it was before klops came; a
    file that is patched and isn't named to what its distribution gave. Everything is looked for first: what
    isn't there has the code ``not-saved``, and nothing changed. Raises :class:`VerbError`.
    """
    site = sites.ask()
    with places.locked():
        try:
            journal.put_back(places, site)
            return _restore(places, site, request)
        except OSError as error:
            raise refused(error) from error


def _restore(places: Places, site: Site, request: Request) -> dict[str, Any]:
    notes = known.stack(places)
    wanted = {**{name: was for name, was in notes.original.items() if name in notes.distributions}}
    wanted.update({names.normal(name): was for name, was in request.distributions.items()})
    before = distributions.installed(site)
    plan = _planned(places, site, notes, before, wanted, request.patches)
    if not (plan.distributions or plan.files):
        return {"changed": [], "patches": [], "notes": []}
    noted: dict[str, Any] = {}
    for name in plan.distributions:
        one = before.get(name)
        noted[name] = None if one is None else {**one.identity(), "file": saved.save(places, site, one)}
    now = {file: _there(site, file) for file in plan.files}
    kept = {file: digest for file, digest in now.items() if digest is not None and _kept(places, digest)}
    journal.begin(places, site, noted, kept, request.run, _LASTING)
    try:
        for name, archive in plan.distributions.items():
            if archive is None:
                putting.take_away(places, site, name)
            else:
                putting.put(places, site, archive)
        put = [file for file, digest in plan.files.items() if journal.put_kept(places, site, file, digest)]
    except (OSError, VerbError, KeyboardInterrupt):
        journal.put_back(places, site)
        raise
    notes, patches = known.stack(places), known.patches(places)
    for name in plan.distributions:
        notes.original.setdefault(name, None if name not in before else before[name].identity())
        notes.distributions[name] = wanted[name]
    entries = {file: known.patch_of(patches, file, digest) for file, digest in plan.files.items()}
    dropped = {file: None for file, one in patches.now.items() if one["distribution"] in plan.distributions}
    journal.finish(places, notes, {**dropped, **entries})
    return {
        "changed": [
            {
                "name": name,
                "from": before[name].version if name in before else None,
                "to": None if wanted[name] is None else wanted[name]["version"],
            }
            for name in sorted(plan.distributions)
        ],
        "patches": sorted(put),
        "notes": saved.by_hand(places, noted),
    }


def _planned(
    places: Places,
    site: Site,
    notes: known.Stack,
    before: Mapping[str, distributions.Distribution],
    wanted: Mapping[str, Any],
    patches: Mapping[str, str],
) -> _Plan:
    """Raises :class:`VerbError` when something isn't there."""
    plan, missing = _Plan({}, {}), []
    for name, was in sorted(wanted.items()):
        now = before[name].identity() if name in before else None
        if now == was:
            continue
        file = None if was is None else saved.find(notes, name, was)
        if was is not None and file is None:
            missing.append(f"{name} {was['version']}")
            continue
        if file is not None:
            saved.check(places, notes, file)
            _check_base(places, site, file)
        plan.distributions[name] = file
    for file, digest in _files(places, site, patches, plan.distributions).items():
        if _kept(places, digest):
            plan.files[file] = digest
        else:
            missing.append(f"{file} with sha256 {digest}")
    if missing:
        raise VerbError(
            "not-saved",
            f"not saved on this host: {', '.join(missing)}; nothing was changed",
            "install it by klops.stack.packages, or apply it by klops.stack.patches",
        )
    return plan


def _check_base(places: Places, site: Site, file: str) -> None:
    reading = saved.Reading(places, file)
    reading.close()
    if reading.archive.base not in site.path:
        raise VerbError(
            "not-saved",
            f"{reading.archive.name} {reading.archive.version} was saved of {reading.archive.base}, "
            "which this Python doesn't use",
            "install that version by klops.stack.packages",
        )


def _files(
    places: Places, site: Site, patches: Mapping[str, str], changing: Mapping[str, str | None]
) -> dict[str, str]:
    """Files that must get another content: its digest. Raises :class:`VerbError` for one changed by hand.

    What stands behind a release isn't seen, and comes back with its package as it was.
    """
    notes = known.patches(places)
    found = {}
    for file, entry in notes.now.items():
        if entry["distribution"] in changing or entry.get("stale") or _behind(places, site, file):
            continue
        if pristine.has_patch(entry, _there(site, file)):
            found[file] = entry["pristine"]
    for named, digest in patches.items():
        file = sites.relative(site, named)
        if _behind(places, site, file):
            continue
        there = _there(site, file)
        found.pop(file, None)
        owner = distributions.owner(site, sites.absolute(site, file))
        comes = owner is not None and owner[0].name in changing  # then it has another content by then
        if there == digest and not comes:
            continue
        if not comes and there is not None and not _kept(places, there):
            raise VerbError(
                "patch-foreign",
                f"{file} has sha256 {there}, which is neither as it came nor as it was patched",
                "somebody changed it by hand: put it back, or install its distribution anew",
            )
        found[file] = digest
    return found


def _behind(places: Places, site: Site, file: str) -> bool:
    return pristine.in_release(places, sites.absolute(site, file))


def _there(site: Site, file: str) -> str | None:
    path = sites.absolute(site, file)
    return contents.sha256(path) if os.path.isfile(path) else None


def _kept(places: Places, digest: str) -> bool:
    return bool(contents.kept(places.patched, digest) or contents.kept(places.pristine, digest))
