"""Whether the container's Python imports a release, and not another copy of it."""

from __future__ import annotations

import os
from typing import Any, List, Mapping, NamedTuple, Sequence

from klops.agent.errors import VerbError
from klops.agent.releases import files, known, locating, targets
from klops.agent.releases.places import Places
from klops.agent.releases.targets import PATH, Target
from klops.source.manifest import Release


class Import(NamedTuple):
    """Where a package comes from. ``why`` it is not the release's, "" when it is."""

    package: str
    file: str
    expected: str
    why: str

    def as_json(self) -> dict[str, Any]:
        """``{package, file, ok, why}``."""
        return {"package": self.package, "file": self.file, "ok": not self.why, "why": self.why}


def asked_for(release: Release, wanted: Sequence[Target]) -> tuple[list[Target], bool]:
    """Packages to look for, and whether one that isn't installed at all is a fault.

    Those that are named; where none is, all of the tree: a copy that is installed would be imported, and the
    release would not.
    """
    named = [target for target in wanted if target.package]
    return (named, True) if named else (targets.packages(release.entries), False)


def folders(places: Places, name: str, wanted: Sequence[Target], paths: Sequence[str]) -> list[str]:
    """What comes before PYTHONPATH: ``paths`` within the tree, then those that targets need there."""
    needed = [target.folder for target in wanted if target.package and target.place == PATH]
    tree = os.path.realpath(places.tree(name))
    return [f"{tree}/{path}".rstrip("/") for path in dict.fromkeys([*paths, *needed])]


def look(
    places: Places, release: Release, wanted: Sequence[Target], paths: Sequence[str] = ()
) -> List[Import]:
    """All packages that matter, each with where it comes from. Raises :class:`VerbError`."""
    found = _installed(release)
    packages, needed = asked_for(release, wanted)
    if not packages:
        return found
    told = locating.ask([target.package for target in packages], folders(places, release.name, wanted, paths))
    for target in packages:
        file = told["found"][target.package]
        if needed or (file is not None and not _standard(file, told)):
            found.append(_judged(places, release, target, file))
    return found


def _installed(release: Release) -> List[Import]:
    """Distributions that its build installed, and that are others here: in another container, for one."""
    had: Mapping[str, Any] = release.about.get("installed", {})
    if not had:
        return []
    from klops.agent.releases import installs

    now = installs.records(list(had))
    return [
        Import(name, "", "", f"{name} is not installed as the build of {release.name} has installed it")
        for name in had
        if now[name] != had[name]
    ]


def _standard(file: str, told: Mapping[str, Any]) -> bool:
    """Whether it belongs to Python itself, in whose folder that of installed packages may lie."""
    return file.startswith(told["stdlib"] + "/") and not any(
        file.startswith(folder + "/") for folder in locating.folders()
    )


def _judged(places: Places, release: Release, target: Target, file: str | None) -> Import:
    tree = os.path.realpath(places.tree(release.name))
    expected = f"{tree}/{target.path}"
    if os.path.isfile(expected + "/__init__.py"):
        expected += "/__init__.py"
    if file is None:
        return Import(
            target.package, "", expected, f"{target.package} is not found, and should be at {expected}"
        )
    real = os.path.realpath(file)
    if real == expected or real.startswith(f"{tree}/{target.path}/"):
        return Import(target.package, file, expected, "")
    why = f"{target.package} is imported from {real}, not from {expected}"
    if release.about.get("installs"):
        other = _different(os.path.dirname(real), f"{tree}/{target.path}")
        why = f"{why}, and {other} is not the same there" if other else ""
    return Import(target.package, file, expected, why)


def _different(installed: str, folder: str) -> str:
    """The first Python file of a release's folder that is another where it was installed; "" for none."""
    for path, full in sorted(known.contents(os.fsencode(folder))):
        twin = os.fsencode(installed) + b"/" + path
        if path.endswith(b".py") and os.path.isfile(twin) and files.sha256(full) != files.sha256(twin):
            return path.decode("utf-8", "replace")
    return "" if os.path.isdir(installed) else installed


def insist(found: Sequence[Import]) -> None:
    """Raises :class:`VerbError`, code ``import-elsewhere``, for a package that is not the release's."""
    wrong = [one for one in found if one.why]
    if wrong:
        raise VerbError(
            "import-elsewhere",
            "; ".join(one.why for one in wrong),
            "name the package in klops.source.targets, or remove the other copy; what ran before is in place",
        )
