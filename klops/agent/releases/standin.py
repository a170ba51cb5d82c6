"""A link to the release stands where an installed package was, which is kept beside it, whole.

At every point of it an import finds the one or the other, wherever the file system can exchange two names. It
can be ended at every point: whoever comes next goes on from what lies there.

A folder of a lower layer of an image can't be renamed on overlayfs. It is copied, and removed only then, so
that for a moment there is neither.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Iterator

from klops.agent.errors import VerbError
from klops.agent.releases import files


class StandIn:
    """One place that a link is put in."""

    def __init__(self, place: str, target: str, ours: str) -> None:
        """``target``: what the link points to. ``ours``: all links to it or below are klops' own."""
        folder, name = os.path.split(place)
        self.place, self.target = place, target
        self._ours = ours
        self._place = os.fsencode(place)
        self.kept = f"{folder}/.klops-kept-{name}"
        self._kept = os.fsencode(self.kept)
        #: the link before it is at its place; for a moment what was there before
        self._beside = os.fsencode(f"{folder}/.klops-new-{name}")
        #: a copy that isn't whole
        self._copying = os.fsencode(f"{folder}/.klops-copy-{name}")
        #: there while a folder that was copied is removed
        self._removing = os.fsencode(f"{folder}/.klops-removing-{name}")

    @property
    def stands(self) -> bool:
        """Whether the link is there."""
        return self._link() == self.target and not any(
            os.path.lexists(path) for path in (self._beside, self._copying, self._removing)
        )

    @property
    def mine(self) -> bool:
        """Whether a link of klops' is there, whatever it points to."""
        link = self._link()
        return link is not None and (link == self._ours or link.startswith(self._ours + "/"))

    def _link(self) -> str | None:
        try:
            return os.fsdecode(os.readlink(self._place))
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINVAL, errno.ENOTDIR):
                return None
            raise

    def check(self, *, replace: bool) -> None:
        """Raises :class:`VerbError`, code ``target-occupied``, for what may not be replaced.

        ``replace``: a folder may be.
        """
        release = os.path.realpath(os.fsencode(self._ours))
        if (os.path.realpath(os.path.dirname(self._place)) + b"/").startswith(release + b"/"):
            raise VerbError(
                "target-occupied",
                f"{self.place} leads into a release, which nobody writes to",
                "name places in klops.source.targets that aren't within each other",
            )
        try:
            mode = os.lstat(self._place).st_mode
        except FileNotFoundError:
            return
        if self.mine or (replace and stat.S_ISDIR(mode)):
            return
        what = "a link to " + str(self._link()) if stat.S_ISLNK(mode) else "something"
        raise VerbError(
            "target-occupied",
            f"{self.place} is {what} that isn't klops' own",
            "move it away, or name another place in klops.source.targets",
        )

    def put(self) -> str:
        """Have the link there; what was done in words, "" when it was there already. Raises ``OSError``."""
        self._recover()
        if self._link() == self.target:
            return ""
        os.makedirs(os.path.dirname(self._place), exist_ok=True)
        os.symlink(os.fsencode(self.target), self._beside)
        if not os.path.isdir(self._place) or os.path.islink(self._place):
            os.replace(self._beside, self._place)
            return f"{self.place} -> {self.target}"
        if files.exchange(self._beside, self._place):
            self._keep(self._beside)
        else:
            try:
                self._keep(self._place)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                self._copy_and_remove()
                files.remove(self._beside)
            else:
                os.replace(self._beside, self._place)
        return f"{self.place} -> {self.target}; what was there is kept as {self.kept}"

    def take_away(self) -> str:
        """Have back what was there; what was done in words. Raises ``OSError``."""
        self._recover()
        if not self.mine:
            if os.path.lexists(self._place) or not os.path.isdir(self._kept):
                return ""
        elif not os.path.isdir(self._kept):
            os.unlink(self._place)
            return f"{self.place} is gone"
        elif files.exchange(self._kept, self._place):
            os.unlink(self._kept)
            return f"{self.place} is what it was before"
        else:
            os.unlink(self._place)
        os.rename(self._kept, self._place)
        return f"{self.place} is what it was before"

    def _recover(self) -> None:
        """Bring what an earlier run has left to where that run was heading."""
        if os.path.islink(self._kept):  # it was about to be taken away
            os.unlink(self._kept)
        if os.path.islink(self._beside):
            os.unlink(self._beside)
        elif os.path.isdir(self._beside):
            self._keep(self._beside)
        if os.path.lexists(self._removing):
            self._remove_copied()
        files.remove(self._copying)

    def _keep(self, folder: bytes) -> None:
        """Nothing that was kept is ever overwritten: it stays beside, with a number."""
        if os.path.lexists(self._kept):
            number = 1
            while os.path.lexists(self._kept + b".%d" % number):
                number += 1
            os.rename(self._kept, self._kept + b".%d" % number)
        os.rename(folder, self._kept)

    def _copy_and_remove(self) -> None:
        import shutil  # few need it, and it loads much

        shutil.copytree(self.place, os.fsdecode(self._copying), symlinks=True)
        written = []
        for path in _all(self._place):
            status, copied = os.lstat(path), self._copying + path[len(self._place) :]
            if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
                os.chown(copied, status.st_uid, status.st_gid, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                written.append(copied)
        files.flush(self._copying, [*written, *files.folders(self._copying)])
        os.close(os.open(self._removing, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._remove_copied()

    def _remove_copied(self) -> None:
        """Of a folder there is a whole copy now."""
        if os.path.isdir(self._copying):
            self._keep(self._copying)
        if not self.mine:
            files.remove(self._place)
            os.symlink(os.fsencode(self.target), self._place)
        os.unlink(self._removing)


def _all(folder: bytes) -> Iterator[bytes]:
    yield folder
    for above, within, names in os.walk(folder):
        yield from (above + b"/" + name for name in (*within, *names))
