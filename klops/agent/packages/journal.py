"""What stood before a change of packages, on disk while it is under way: the next run can put it back."""

from __future__ import annotations

import os
import time
from typing import Any, Iterator, Mapping

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.packages import contents, distributions, known, putting, saved
from klops.agent.packages.places import Places
from klops.agent.packages.sites import Site, absolute

#: Seconds around the time of a change in which what appeared is its own: clocks of file systems are coarse.
_MARGIN = 120.0
#: Bytes of a program in which the interpreter's path stands.
_HEAD = 1024


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
    journal = store.read_json(places.journal) or {}
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
    journal = store.read_json(places.journal)
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
    """Remove what came since the change began and no distribution has: an installation was cut off."""
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
    for path in sorted(fresh, reverse=True):  # what is in a folder comes before it
        if path.endswith("/"):
            for top in (site.purelib, site.platlib):
                contents.remove_empty(path[:-1], top)
            continue
        if path in owned or not journal["began"] - _MARGIN <= os.lstat(path).st_ctime <= latest:
            continue
        if os.path.dirname(path) != site.scripts or _is_script(site, path):
            putting.remove(site, [path])


def _is_script(site: Site, path: str) -> bool:
    """Whether a program is one that installers write for this Python: others put theirs there, too."""
    with open(path, "rb") as file:
        head = file.read(_HEAD)
    return os.path.basename(path).startswith(contents.BESIDE) or os.fsencode(site.python) in head


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
