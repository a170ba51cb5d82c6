"""What stood before a change of packages, on disk while it is under way: the next run can put it back."""

from __future__ import annotations

import os
import re
import time
from typing import Any, Iterator, Mapping

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.packages import contents, distributions, known, names, putting, saved
from klops.agent.packages.places import Places
from klops.agent.packages.sites import Site, absolute, below

#: Seconds around the time of a change in which what appeared is its own: clocks of file systems are coarse.
_MARGIN = 120.0
#: Bytes of a program in which the interpreter's path stands, and what it imports.
_HEAD = 1024
_IMPORTED = re.compile(rb"^from ([A-Za-z0-9_]+)[A-Za-z0-9_.]* import ", re.MULTILINE)


def under_way(places: Places) -> bool:
    """Whether a change was begun and not ended."""
    return os.path.exists(places.journal)


def begin(
    places: Places,
    site: Site,
    before: Mapping[str, Any],
    files: Mapping[str, str],
    run: str,
    lasting: float,
) -> None:
    """Note what stands. ``before``: ``{"version", "record", "file": archive}`` or None by name, all saved.

    ``files``: digests of contents that are kept, by the path relative to site-packages; patched files of
    these distributions are noted unasked. ``lasting``: seconds that the change may take.
    """
    beside = contents.beside(places.listing)
    with open(beside, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write("\0".join(_walk(site)))
    os.replace(beside, places.listing)
    standing = known.standing(places)["patches"]
    patched = {name: one["patched"] for name, one in standing.items() if one["distribution"] in before}
    store.write_json(
        places.journal,
        {
            "run": run,
            "began": time.time(),
            "lasting": lasting,
            "before": dict(before),
            "files": {**patched, **files},
        },
    )


def finish(places: Places, stack: known.Stack, patches: Mapping[str, Any]) -> None:
    """The change is whole: what is known from now on. ``patches``: entries by file, None for no entry.

    From here on it isn't put back any more: when it is cut short, the next run notes the same.
    """
    os.sync()  # what an installer wrote, too
    journal = store.read_json(places.journal, store.BY_HAND) or {}
    notes = {field: getattr(stack, field) for field in known.Stack._fields}
    store.write_json(places.journal, {**journal, "stack": notes, "patches": dict(patches)})
    _note(places, stack, patches)


def _note(places: Places, stack: known.Stack, patches: Mapping[str, Any]) -> None:
    for file, entry in patches.items():
        known.note_patch(places, file, entry)
    known.note_stack(places, stack)
    drop(places)


def drop(places: Places) -> None:
    """Forget a change that was begun: it is whole, undone, or of no container any more."""
    store.remove(places.journal)
    store.remove(places.listing)


def put_back(places: Places, site: Site) -> list[str]:
    """Undo a change that was begun and not ended; the names of distributions that it was about.

    Raises :class:`VerbError` and ``OSError``; then the journal stays, and the next run tries again.
    """
    journal = store.read_json(places.journal, store.BY_HAND)
    if journal is None:
        store.remove(places.listing)  # of a change that had not begun
        return []
    if "stack" in journal:
        _note(places, known.Stack(**journal["stack"]), journal["patches"])
        return []
    notes = known.stack(places)
    before = journal["before"]
    for was in before.values():
        if was is not None:
            saved.check(places, notes, was["file"])
    for name, was in before.items():
        if was is None:
            putting.take_away(places, site, name)
        else:
            putting.put(places, site, was["file"])
    _clear(places, site, journal)
    for file, digest in journal["files"].items():
        put_kept(places, site, file, digest)
    _verify(site, before)
    os.sync()
    drop(places)
    return sorted(before)


def put_kept(places: Places, site: Site, file: str, digest: str) -> bool:
    """Put a kept content in a file's place, patched or pristine; whether it had another.

    Raises :class:`VerbError` and ``OSError``.
    """
    source = contents.kept(places.patched, digest) or contents.kept(places.pristine, digest)
    if source is None:
        raise VerbError(
            "not-saved", f"no content {digest} of {file} is kept", "have klops.patch applied anew"
        )
    path = absolute(site, file)
    if not os.path.isfile(path):
        raise VerbError(
            "not-saved",
            f"{path} is not there, so that it can't have the content {digest} again",
            "install its distribution anew, or klops rollback --to another generation",
        )
    if contents.sha256(path) == digest:
        return False
    with open(source, "rb") as content:
        contents.put(path, content, *contents.owned(path))
    contents.forget_compiled(path)
    return True


def _verify(site: Site, before: Mapping[str, Any]) -> None:
    now = distributions.installed(site, before)
    for name, was in before.items():
        found = now[name].identity() if name in now else None
        wanted = None if was is None else {"version": was["version"], "record": was["record"]}
        if found != wanted:
            raise VerbError(
                "stack-half",
                f"{name} is {_said(found)} and was {_said(wanted)}: it could not be put back",
                "repeat it: what was saved is kept",
            )


def _said(identity: Mapping[str, Any] | None) -> str:
    return (
        "not installed"
        if identity is None
        else f"{identity['version']} (RECORD {str(identity['record'])[:12]})"
    )


def _clear(places: Places, site: Site, journal: Mapping[str, Any]) -> None:
    """Remove what an installation that was cut off has left: what came since the change began, lies where
    the distributions that it was about have theirs, and no distribution has.

    Whatever else is new was put there by somebody: by hand, or by a program that runs.
    """
    try:
        with open(places.listing, encoding="utf-8", errors="surrogateescape", newline="") as file:
            listed = set(file.read().split("\0"))
    except FileNotFoundError:
        return
    fresh = [path for path in _walk(site) if path not in listed]
    if not fresh:
        return
    owned = {
        distributions.place(distribution, file.path)
        for distribution in distributions.installed(site).values()
        for file in distributions.files(distribution)
    }
    latest = journal["began"] + journal["lasting"] + _MARGIN
    about = _About(places, site, journal["before"])
    # what is in a folder comes before it, and last what tells of the others
    for path in sorted(fresh, key=lambda path: (".dist-info/" not in path, path), reverse=True):
        if not about.has(path):
            continue
        if path.endswith("/"):
            for top in (site.purelib, site.platlib):
                contents.remove_empty(path[:-1], top)
            continue
        if path in owned or not journal["began"] - _MARGIN <= os.lstat(path).st_ctime <= latest:
            continue
        putting.remove(site, [path])


class _About:
    """Where distributions have their files: folders and modules at the top of site-packages, by what was
    saved of them, by their names, and by what the metadata of a half installed one says."""

    def __init__(self, places: Places, site: Site, before: Mapping[str, Any]) -> None:
        self._site, self._names = site, set(before)
        self._tops: set[str] = set()
        for was in before.values():
            if was is not None:
                self._tops.update(_saved_tops(places, was["file"]))
        for name in before:
            for folder in distributions.metadata(site, name):
                self._tops.update(_told_tops(folder))

    def has(self, path: str) -> bool:
        """Whether a file, or a folder with a slash at its end, is at such a place."""
        folder, name = os.path.split(path)
        if name.startswith(contents.BESIDE):
            return True  # what klops hadn't written to its end
        if folder == self._site.scripts:
            return self._has_script(path)
        base = next(one for one in (self._site.purelib, self._site.platlib) if below(path, one))
        top = path[len(base) + 1 :].split("/", 1)[0]
        return self._has_top(top) or distributions.named(top) in self._names

    def _has_top(self, top: str) -> bool:
        module = _module(top)
        return module in self._tops or names.normal(module) in self._names

    def _has_script(self, path: str) -> bool:
        """Whether a program is one that installers write for this Python, and imports from there."""
        with open(path, "rb") as file:
            head = file.read(_HEAD)
        imported = _IMPORTED.search(head)
        return (
            os.fsencode(self._site.python) in head
            and imported is not None
            and self._has_top(imported[1].decode("ascii"))
        )


def _saved_tops(places: Places, file: str) -> set[str]:
    reading = saved.Reading(places, file)
    reading.close()
    return {_module(item.path.split("/", 1)[0]) for item in reading.archive.items} - {_module("..")}


def _module(top: str) -> str:
    """As it is imported: x of x.py, and of x.cpython-311-x86_64-linux-gnu.so."""
    return top.split(".", 1)[0]


def _told_tops(folder: str) -> set[str]:
    try:
        with open(f"{folder}/top_level.txt", encoding="utf-8", errors="replace") as file:
            return set(file.read().split())
    except (FileNotFoundError, NotADirectoryError):
        return set()


def _walk(site: Site) -> Iterator[str]:
    """All regular files below site-packages but compiled ones, and the programs; folders end with a slash.

    Links are not followed.
    """
    if os.path.isdir(site.scripts):
        yield from (entry.path for entry in os.scandir(site.scripts) if entry.is_file(follow_symlinks=False))
    for folder in dict.fromkeys([site.purelib, site.platlib]):
        todo = [folder]
        while todo:
            try:
                entries = list(os.scandir(todo.pop()))
            except (FileNotFoundError, NotADirectoryError):
                continue
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    # what is set aside for a release is no distribution's
                    if entry.name != "__pycache__" and not entry.name.startswith(".klops-"):
                        todo.append(entry.path)
                        yield entry.path + "/"
                elif entry.is_file(follow_symlinks=False):
                    yield entry.path
