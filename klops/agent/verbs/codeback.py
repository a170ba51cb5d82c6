"""What units run on, kept while their container is made anew, and put back where the old one comes back.

Notes, releases and the link to the current one lie below the root, which both containers share; packages and
patched files in the layer of each, unless their Python lies in a volume. So what the new one was given is
noted of the old one, too, and, with such a volume, is really in it.
"""

from __future__ import annotations

from typing import Any, Mapping

from klops.agent.errors import VerbError, system_error
from klops.agent.packages import distributions, journal, known, restore, sites
from klops.agent.packages.places import Places
from klops.agent.releases import activate, targets
from klops.agent.releases.places import Places as Releases
from klops.agent.units import ondisk

#: What klops knows of it by its own notes.
_NOTED = ("release", "targets", "distributions", "original", "patches")


def kept(root: str, *, here: bool) -> dict[str, Any]:
    """The current ``release``, its ``targets``, and of packages ``distributions``, ``original``, ``patches``.

    ``here``: this is the container that is gone back to, so that what is ``installed`` and ``patched`` in it
    is kept, too; else both are None. Raises :class:`VerbError`.
    """
    places, installed, patched = Places(root), None, None
    if here:
        try:
            installed = _installed()
            patched = {file: one["patched"] for file, one in known.standing(places)["patches"].items()}
        except OSError as error:
            raise system_error(error) from error
    return {**_noted(root), "installed": installed, "patched": patched}


def put_back(root: str, code: Mapping[str, Any]) -> None:
    """Have all be as it was kept. Raises :class:`VerbError`; done again it does what is left."""
    try:
        wanted = [code[key] for key in ("distributions", "original", "patches", "installed", "patched")]
        if not all(isinstance(one, (dict, type(None))) for one in wanted):
            raise TypeError("no object")  # noqa: TRY301 - as any other damage
        before = {key: code[key] for key in _NOTED}
        spots = targets.read(before["targets"])
    except (KeyError, TypeError) as error:
        raise VerbError(ondisk.DAMAGED, f"what units ran on was not kept: {error}") from error
    places = Places(root)
    try:
        now = _noted(root)
        if now == before and not journal.under_way(places):
            return
        if code["installed"] is not None:
            _packages(places, code)
        _note(places, before)
        if (now["release"], now["targets"]) != (before["release"], before["targets"]):
            releases = Releases(root)
            with releases.alone("bring-back"):
                activate.go_back(releases, before["release"], spots)
    except OSError as error:
        raise system_error(error) from error


def _noted(root: str) -> dict[str, Any]:
    releases, places = Releases(root), Places(root)
    stack = known.stack(places)
    return {
        "release": releases.now(),
        "targets": [one.as_json() for one in activate.recorded(releases)],
        "distributions": stack.distributions,
        "original": stack.original,
        "patches": known.patches(places).now,
    }


def _installed() -> dict[str, Any]:
    return {name: one.identity() for name, one in distributions.installed(sites.ask()).items()}


def _packages(places: Places, code: Mapping[str, Any]) -> None:
    """Put packages and patched files back where they are others than before: in a volume.

    A change that was begun and is not in this container was made in the other one's layer, which is gone.
    """
    installed: Mapping[str, Any] = code["installed"]
    if _installed() == installed:
        with places.locked():
            journal.drop(places)
    wanted = {name: installed.get(name) for name in known.stack(places).distributions}
    restore.restore(places, restore.Request(wanted, dict(code["patched"]), "bring-back"))


def _note(places: Places, before: Mapping[str, Any]) -> None:
    """Have the notes tell of this container again; what was saved meanwhile stays known."""
    with places.locked():
        stack = known.stack(places)
        known.note_stack(
            places, stack._replace(distributions=before["distributions"], original=before["original"])
        )
        now = known.patches(places).now
        for file in {*now, *before["patches"]}:
            if now.get(file) != before["patches"].get(file):
                known.note_patch(places, file, before["patches"].get(file))
