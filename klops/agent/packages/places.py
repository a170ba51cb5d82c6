"""Where klops keeps what it has to know of packages, and that only one run changes them."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from contextlib import contextmanager
from typing import Iterator

from klops.agent import running
from klops.agent.errors import VerbError, system_error
from klops.agent.packages import contents

#: Seconds for what a killed run started to be gone: it dies with it.
_PATIENCE = 5.0


class Places:
    """Paths below the root."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.releases = root + "/releases"
        self.stack = root + "/stack"
        #: what klops has changed, and what is saved
        self.known = self.stack + "/stack.json"
        #: what stood before a change that is under way
        self.journal = self.stack + "/journal.json"
        self.listing = self.stack + "/journal.files"
        self.lock = self.stack + "/.lock"
        #: who programs have begotten; no unit's file is called so
        self.record = root + "/run/packages.jsonl"
        #: contents by their sha256: of files as they came, and of the same when patched
        self.pristine = root + "/pristine"
        self.patched = root + "/patched"
        self.patches = root + "/patches.json"

    def archive(self, file: str) -> str:
        return f"{self.stack}/{file}"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else changes packages meanwhile: an installer that outlived its asker is ended first.

        Raises :class:`VerbError` and ``OSError``.
        """
        os.makedirs(self.root, mode=0o755, exist_ok=True)
        os.makedirs(self.stack, mode=0o700, exist_ok=True)
        fd = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            until = time.monotonic() + _PATIENCE
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError as error:
                    if time.monotonic() > until:
                        raise VerbError(
                            "packages-busy",
                            "another run changes packages of this container",
                            "repeat it when that run is done",
                        ) from error
                    time.sleep(0.1)
            running.end_left(self.root, self.record, "left by a change of packages that was killed")
            self._tidy()
            yield
        finally:
            os.close(fd)

    def _tidy(self) -> None:
        """Remove what killed runs had begun to write: with the lock nobody else writes these files."""
        for folder in (self.stack, self.pristine, self.patched):
            with contextlib.suppress(FileNotFoundError):
                for entry in os.listdir(folder):
                    if entry.startswith(contents.BESIDE) or entry.endswith(".new"):
                        os.unlink(f"{folder}/{entry}")
        notes = os.path.basename(self.patches)
        for entry in os.listdir(self.root):
            if entry.startswith(notes + ".") and entry.endswith(".new"):
                os.unlink(f"{self.root}/{entry}")


def refused(error: OSError) -> VerbError:
    """What the system refuses while packages are changed: a full disk has a code of its own."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f"{error.filename}: " if isinstance(error.filename, str) else ""
        return VerbError("disk-full", f"{where}{error.strerror}", "make room (df -h), then repeat it")
    return system_error(error)
