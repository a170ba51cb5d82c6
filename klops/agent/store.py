"""Files of the agent below its root: written beside and renamed, mode 0600, JSON with a ``schema`` number."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import stat
from typing import Any

from klops.agent.errors import VerbError

#: Schema of every JSON file written here. A newer one is refused, not guessed.
SCHEMA = 1
#: What to do about a damaged file: most are of a run, and each run writes them.
ANEW = "run klops up: it is written anew"
#: The same of notes on what klops has done, which nothing else tells.
BY_HAND = "put it right; or move it away: then klops knows nothing any more of what it told"
#: What the name of a damaged file gets when it is written anew.
ASIDE = ".damaged"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


class Paths:
    """Where things lie below the root."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.run = root + "/run"
        self.log_dir = root + "/log"
        self.units = root + "/units"
        self.current = root + "/agent/current"
        self.lock = self.run + "/supervisor.lock"
        self.audit = root + "/audit.jsonl"
        self.kept = root + "/kept.json"
        #: notes on cards kept out of service
        self.cards = root + "/cards.json"
        #: of diagnoses: who is at work, which ranks there are, and what these need meanwhile. None of these
        #: names is that of a unit's file.
        self.ranks_lock = self.run + "/xccl.lock"
        self.ranks = self.run + "/xccl.ranks.jsonl"
        self.ranks_folder = self.run + "/xccl"

    def make(self) -> None:
        """Make the folders. Only verbs that change something call this."""
        os.makedirs(self.root, mode=0o755, exist_ok=True)
        for folder in (self.run, self.log_dir, self.units):
            os.makedirs(folder, mode=0o700, exist_ok=True)

    def owner(self) -> int:
        """Whose the units are: a supervisor makes its lock, the folder may be of whoever put klops there."""
        for path in (self.lock, self.run):
            try:
                return os.stat(path).st_uid
            except FileNotFoundError:
                continue
        return os.geteuid()

    def spec(self, name: str) -> str:
        return f"{self.units}/{name}.json"

    def secret(self, name: str) -> str:
        return f"{self.units}/{name}.secret.json"

    def state(self, name: str) -> str:
        return f"{self.run}/{name}.state.json"

    def lineage(self, name: str) -> str:
        return f"{self.run}/{name}.lineage.jsonl"

    def traces(self, name: str) -> str:
        return f"{self.run}/{name}.traces.json"

    def log(self, name: str) -> str:
        return f"{self.log_dir}/{name}.log"

    def names(self) -> list[str]:
        """Units that have a specification, a state or a lineage on disk."""
        found = set()
        for folder, ending in (
            (self.units, ".json"),
            (self.run, ".state.json"),
            (self.run, ".lineage.jsonl"),
        ):
            try:
                entries = os.listdir(folder)
            except FileNotFoundError:
                continue
            for entry in entries:
                if entry.endswith(ending) and not entry.endswith(".secret.json"):
                    name = entry[: -len(ending)]
                    if _NAME.match(name):
                        found.add(name)
        return sorted(found)


def check_name(name: str) -> str:
    """A unit's name, which is also part of file names. Raises :class:`VerbError`."""
    if not _NAME.match(name) or name.endswith((".secret", ".state")):
        raise VerbError(
            "bad-name", f"not a name for a unit: {name!r}", "use letters, digits, dot, dash, underscore"
        )
    return name


def read_text(path: str, errors: str = "strict") -> str:
    """The text of a regular file. Raises ``OSError``, for anything else too: a FIFO would keep its reader."""
    with open(path, encoding="utf-8", errors=errors, opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        return file.read()


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def read_json(path: str, remedy: str = ANEW) -> dict[str, Any] | None:
    """A JSON object, or None when there is no such file. Raises :class:`VerbError` for anything else, with
    ``remedy`` as the hint for a damaged one."""
    try:
        value = json.loads(read_text(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise VerbError(
            "unreadable", f"{path}: {error.strerror}", "run it as the user who owns that file"
        ) from error
    except (ValueError, RecursionError) as error:
        raise VerbError("damaged", f"{path} is not JSON: {error}", remedy) from error
    if not isinstance(value, dict) or not isinstance(value.get("schema"), int):
        raise VerbError("damaged", f"{path} has no schema number", remedy)
    if value["schema"] > SCHEMA:
        raise VerbError(
            "newer-schema",
            f"{path} has schema {value['schema']}, this agent knows up to {SCHEMA}",
            "it was written by a newer klops: use that one",
        )
    return value


def write_text(path: str, text: str, mode: int = 0o600) -> None:
    """Write a file beside its place and rename it; it is whole or it is the old one, also after a crash."""
    beside = f"{path}.{os.getpid()}.new"
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            os.fchmod(fd, mode)
            with open(fd, "w", encoding="utf-8", closefd=False) as file:
                file.write(text)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(beside, path)
    except OSError:
        remove(beside)
        raise


def write_json(path: str, value: dict[str, Any]) -> None:
    """Write a JSON object, mode 0600, with the schema number."""
    write_text(path, json.dumps({"schema": SCHEMA, **value}, indent=1) + "\n")


def append_line(path: str, value: dict[str, Any]) -> None:
    """Append one JSON line, mode 0600, in one write: lines of several writers don't mix.

    Raises ``OSError`` when it is not written whole. What an earlier write left without its end is closed
    first, so that it spoils no line but its own.
    """
    line = (json.dumps(value, separators=(",", ":")) + "\n").encode("utf-8")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        length = os.fstat(fd).st_size
        if length and os.pread(fd, 1, length - 1) != b"\n":
            line = b"\n" + line
        if os.write(fd, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    finally:
        os.close(fd)


def rotate(path: str, longest: int) -> None:
    """Make a file of lines that is longer than so many bytes ``PATH.1``, in place of the one before.

    Of several that find it too long one does: another would put what was begun anew in the place of all
    that came before. Raises ``OSError``.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_size <= longest:
            return
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # somebody is at it
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(fd), os.stat(path)):
                os.replace(path, path + ".1")
    finally:
        os.close(fd)


def set_aside(path: str) -> str:
    """Rename a damaged file to ``PATH.damaged``, for people to look at; returns that path."""
    aside = path + ASIDE
    os.replace(path, aside)
    return aside


def remove(path: str) -> None:
    """Remove a file that may be missing."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
