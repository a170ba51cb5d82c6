"""A distribution put in place from its archive, or taken away: by its RECORD, and nothing else."""

from __future__ import annotations

import contextlib
import os
from typing import Iterable

from klops.agent.packages import contents, distributions
from klops.agent.packages.places import Places
from klops.agent.packages.saved import Item, Reading, safe_place
from klops.agent.packages.sites import Site, below


def put(places: Places, site: Site, file: str) -> None:
    """Have exactly the distribution of an archive installed under its name.

    It can be ended at any point and repeated: what is new comes first, RECORD after the files that it lists,
    and only then goes what no other has. Raises ``OSError`` and :class:`VerbError`.
    """
    reading = Reading(places, file)
    try:
        archive = reading.archive
        there = {safe_place(places, site, archive.base, item.path): item for item in archive.items}
        old = _files(places, site, archive.name, archive.base)
        numbered = sorted(enumerate(archive.items), key=lambda one: one[1].path.endswith(".dist-info/RECORD"))
        for number, item in numbered:
            _lay(safe_place(places, site, archive.base, item.path), item, reading, number)
        remove(site, [path for path in old if path not in there])
    finally:
        reading.close()


def take_away(places: Places, site: Site, name: str) -> None:
    """Have nothing installed under a name. Raises ``OSError`` and :class:`VerbError`."""
    remove(site, _files(places, site, name, site.purelib))


def _files(places: Places, site: Site, name: str, base: str) -> list[str]:
    """All files of what is installed under a name, RECORD last: it tells which are left.

    What the system's own installer has elsewhere on the path is not looked at: nobody puts anything there.
    """
    found = []
    for distribution in distributions.every(site, name):
        if distribution.base not in (site.purelib, site.platlib, base):
            continue
        listed = [
            safe_place(places, site, distribution.base, file.path)
            for file in distributions.files(distribution)
        ]
        found += sorted(listed, key=lambda path: path.endswith(".dist-info/RECORD"))
    return found


def _lay(path: str, item: Item, reading: Reading, number: int) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(contents.beside(path))  # of a run that was killed
    if item.link is not None:
        _link(path, item.link)
        return
    if _is(path, item):
        return
    # the disk is told once, for all of them, before the journal ends
    contents.put(path, reading.content(number), item.mode, item.owner, item.mtime, flush=False)
    contents.forget_compiled(path)


def _is(path: str, item: Item) -> bool:
    """Whether a file is already what it shall be."""
    if os.path.islink(path) or not os.path.isfile(path) or contents.owned(path) != (item.mode, item.owner):
        return False
    return os.stat(path).st_mtime_ns == item.mtime and contents.sha256(path) == item.sha256


def _link(path: str, target: str) -> None:
    if os.path.islink(path) and os.readlink(path) == target:
        return
    new = contents.beside(path)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)
    os.symlink(target, new)
    os.replace(new, path)


def remove(site: Site, paths: Iterable[str]) -> None:
    """Remove files, what is compiled of them, and folders that are empty then. Raises ``OSError``."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        contents.forget_compiled(path)
        folder = os.path.dirname(path)
        tops = [site.purelib, site.platlib, site.prefix]
        top = max((one for one in tops if below(folder, one)), key=len, default=folder)
        contents.remove_empty(f"{folder}/__pycache__", top)
