"""Where releases lie below the root, what they may be called, and who may change them at a time."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import time
from typing import Iterator

from klops.agent.errors import VerbError
from klops.source.manifest.release import is_name

#: Seconds that are waited for another that is at the releases: one whose asker is gone ends soon.
PATIENCE = 3.0
_LOOK = 0.05


def check_name(name: object) -> str:
    """A name that a release may have. Raises :class:`VerbError`."""
    if not isinstance(name, str) or not is_name(name):
        raise VerbError("bad-name", f"not a name for a release: {name!r}", "it is COMMIT-DIGEST")
    return name


class Places:
    """Paths below ``ROOT/releases``."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.folder = root + "/releases"
        self.current = self.folder + "/current"
        self.incoming_folder = self.folder + "/.incoming"
        self.building_folder = self.folder + "/.building"
        self.trash = self.folder + "/.trash"
        #: where targets were put, so that one that is no longer asked for is taken away
        self.targets = self.folder + "/targets.json"
        #: who a build has begotten; no unit's file is called so
        self.build_record = root + "/run/build.jsonl"
        self._lock = self.folder + "/.lock"

    def tree(self, name: str) -> str:
        """The folder of a release."""
        return f"{self.folder}/{name}"

    def manifest(self, name: str) -> str:
        """The manifest of a release. It is a release when both are there."""
        return f"{self.folder}/{name}.json"

    def arriving(self, name: str) -> str:
        """Make a folder for what arrives of a release that isn't whole, beside those of earlier runs."""
        for number in itertools.count():
            folder = f"{self.incoming_folder}/{name}.{number}"
            try:
                os.mkdir(folder, 0o700)
            except FileExistsError:
                continue
            break
        return folder

    def building(self, name: str) -> str:
        """Where one is built."""
        return f"{self.building_folder}/{name}"

    def build_log(self, name: str) -> str:
        """What the commands of a build said."""
        return f"{self.root}/log/build-{name}.log"

    def make(self) -> None:
        """Make the folders: units of any user read releases, what isn't whole is nobody's."""
        os.makedirs(self.root, mode=0o755, exist_ok=True)
        for folder, mode in (
            (self.folder, 0o755),
            (self.incoming_folder, 0o700),
            (self.building_folder, 0o755),
            (self.trash, 0o700),
        ):
            if not os.path.isdir(folder):
                os.makedirs(folder, exist_ok=True)
                os.chmod(folder, mode)

    def now(self) -> str | None:
        """The name of the current release, None when there is none.

        Raises :class:`VerbError`, code ``target-occupied``, where something else lies in the link's place.
        """
        try:
            return os.readlink(self.current)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            what = "a folder" if os.path.isdir(self.current) else "a file"
            raise VerbError(
                "target-occupied",
                f"{self.current} is {what}, and not klops' link to the current release",
                "move it away, then klops sync",
            ) from error

    @contextlib.contextmanager
    def alone(self, verb: str) -> Iterator[None]:
        """Nobody else changes releases meanwhile. Raises :class:`VerbError`, code ``releases-busy``."""
        self.make()
        fd = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            until = time.monotonic() + PATIENCE
            while not _locked(fd):
                if time.monotonic() > until:
                    who = os.pread(fd, 200, 0).decode("ascii", "replace").strip() or "another verb"
                    raise VerbError(
                        "releases-busy",
                        f"the releases of this host are being changed by another run ({who})",
                        "wait until that is over, then repeat it",
                    )
                time.sleep(_LOOK)
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{verb}, pid {os.getpid()} in its container\n".encode("ascii"), 0)
            yield
        finally:
            os.close(fd)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
