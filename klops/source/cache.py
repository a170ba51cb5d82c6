"""What earlier looks found, by the tree of git's that they looked at: a tree that stays is archived once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from klops import userfolders
from klops.log import get_logger
from klops.source import endings
from klops.source.manifest import Release
from klops.source.manifest.release import SCHEMA, loads

#: Environment variable: another folder, or ``off``.
VARIABLE = "KLOPS_CACHE"
OFF = "off"
#: What is kept: so many files, and bytes of them; the ones used last.
MOST_FILES, MOST_BYTES = 100, 64 << 20
#: Raised when what is kept has another form.
_FORM = 2
#: How many of those used last may be of the same repository.
_LOOKED_AT = 4


def cache_path(env: Mapping[str, str], *, windows: bool, home: Callable[[], str]) -> str:
    """The folder; "" when it is switched off. ``home`` is called where only the user's folder tells."""
    wanted = env.get(VARIABLE, "")
    if wanted:
        return "" if wanted.lower() == OFF else wanted
    base = userfolders.base(env, "XDG_CACHE_HOME", ".cache", windows=windows, home=home)
    return str(base / "klops" / ("Cache" if windows else "") / "source")


class Cache:
    """Keeps manifests by key. What a disk does is no reason to fail: it is said once, and looked anew."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def get(self, key: str) -> Release | None:
        """What was kept; None when there is nothing, or it is damaged."""
        if self._folder is None:
            return None
        path = self._folder / key
        try:
            kept = loads(path.read_bytes())
            os.utime(path)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            _complain(self._folder, error)
            return None
        return kept

    def last(self, place: str) -> Release | None:
        """What was used last of what is kept of a place (``about`` says that); None when that is long ago."""
        if self._folder is None:
            return None
        try:
            found = sorted(_listed(self._folder), reverse=True)[:_LOOKED_AT]
            for _, _, path in found:
                head = path.read_bytes().partition(b"\n")[0]
                if json.loads(head)["about"].get("place") == place:
                    return loads(path.read_bytes())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            # it only helps, and who needs what is damaged will say so
            return None
        return None

    def put(self, key: str, kept: Release) -> None:
        """Keep it, and let go what wasn't used for the longest time."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd, name = tempfile.mkstemp(dir=self._folder, prefix=".new-")
            try:
                with os.fdopen(fd, "wb") as file:
                    file.write(kept.dumps())
                Path(name).replace(self._folder / key)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    Path(name).unlink()
                raise
            _bound(self._folder)
        except OSError as error:
            _complain(self._folder, error)


def _bound(folder: Path) -> None:
    kept = 0
    for number, (_, size, path) in enumerate(sorted(_listed(folder), reverse=True)):
        kept += size
        if number and (number >= MOST_FILES or kept > MOST_BYTES):
            path.unlink(missing_ok=True)


def _listed(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """When each was used, its size, and where it is."""
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # another run let it go
                at = entry.stat()
                yield at.st_mtime, at.st_size, Path(entry.path)


def of_user() -> Cache:
    """The one of whoever runs klops."""
    try:
        folder = cache_path(os.environ, windows=sys.platform == "win32", home=lambda: str(Path.home()))
    except RuntimeError as error:
        # this user has no folder
        _complain(None, error)
        return Cache(None)
    return Cache(Path(folder) if folder else None)


def key(tree: str, below: str, *, expanded: bool) -> str:
    """Of what a tree of git's is made into: its id says what all submodules and LFS pointers are, too.

    ``expanded``: with the placeholders of a commit filled in, if there are any.
    """
    parts = [_FORM, SCHEMA, endings.VERSION, tree, below, expanded]
    return hashlib.sha256(json.dumps(parts).encode("ascii")).hexdigest()


def place(git_dir: str, below: str, *, expanded: bool) -> str:
    """Of what trees of one repository are made into."""
    parts = [_FORM, SCHEMA, endings.VERSION, git_dir, below, expanded]
    return hashlib.sha256(json.dumps(parts).encode("ascii")).hexdigest()


def _complain(folder: Path | None, error: Exception) -> None:
    get_logger(__name__).warning(
        "the folder of what earlier looks found can't be used",
        folder=str(folder or ""),
        why=str(error),
        fix=f"{VARIABLE} names another folder, or {OFF}",
    )
