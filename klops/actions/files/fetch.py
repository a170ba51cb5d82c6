"""``fetch``: a file of the host, kept on the control node.

.. code-block:: yaml

    - fetch: {src: /var/log/vllm.log, dest: logs}            # logs/HOST/var/log/vllm.log
    - fetch: {src: /etc/machine-id, dest: ids/, flat: true}  # ids/machine-id

The host is only read, so nothing waits for its lock. What is there already is replaced once the whole file
has arrived and its checksum is right. Who may not read it on the host may not read it here.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar

from pydantic import Field

from klops.actions.base import Action, Change, Context, Params, Plan, Probe, Progress, Seen, Step, View
from klops.actions.files.slurp import unreadable
from klops.commands.listing import parse
from klops.errors import CommandFailed, TaskFailed
from klops.remote.filereads import ChecksumRead
from klops.userfolders import expanded

#: Bytes of the largest file that is fetched.
FETCH_LIMIT = 16 * 1024**3
_PIECE = 1024 * 1024
#: Characters that no name of a file may have on the control node, where that is Windows.
_NOT_ON_WINDOWS = frozenset('\\:*?"<>|')


class FetchParams(Params):
    """``dest`` is a folder that gets HOST/PATH; with ``flat`` the file, or (``FOLDER/``) its folder."""

    src: str = Field(min_length=1)
    dest: str = Field(min_length=1)
    flat: bool = False
    fail_on_missing: bool = True
    validate_checksum: bool = True


@dataclass(frozen=True)
class Kept:
    """Digests of a file of the control node; empty when there is none."""

    sha1: str = ""
    md5: str = ""


@dataclass(frozen=True)
class KeepFile(Step):
    """Copy a file of the host to the control node, beside its place, then rename it.

    ``sha1`` is what the host says it has, or "" when that isn't checked.
    """

    on_host: ClassVar[bool] = False

    src: str
    dest: Path
    size: int
    sha1: str
    #: the file's on the host
    mode: int = 0

    def change(self) -> Change:
        """``fetch SRC to DEST (N bytes)``."""
        return Change(f"fetch {self.src} to {self.dest} ({self.size} bytes)")

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Stream it: no file is held in memory."""
        try:
            self.dest.parent.mkdir(parents=True, exist_ok=True)
            part = self.dest.with_name(f".klops-{secrets.token_hex(8)}")
            try:
                with open(part, "xb", opener=self._open) as file:
                    arrived = self._receive(ctx, file)
                self._check(arrived)
                part.replace(self.dest)
            finally:
                part.unlink(missing_ok=True)
        except OSError as error:
            raise TaskFailed(f"{self.dest}: {error.strerror or error}", code="local-file") from error
        sums = {"checksum": arrived.sha1, "md5sum": arrived.md5}
        return {**sums, "remote_checksum": self.sha1 or arrived.sha1, "remote_md5sum": None}

    def _open(self, path: str, flags: int) -> int:
        """Nobody here may read it who may not there; the umask may take more away."""
        return os.open(path, flags, 0o600 | (self.mode & 0o066))

    def _receive(self, ctx: Context, file: IO[bytes]) -> Kept:
        sums = _Sums()
        errors: list[bytes] = []

        def take(data: bytes) -> None:
            if sums.size + len(data) > FETCH_LIMIT:
                raise _too_large(self.src)
            sums.add(data)
            file.write(data)
            done = 100 * sums.size / self.size if self.size else 100.0
            ctx.progress(Progress(f"fetching {self.src}", min(done, 100.0)))

        rc = ctx.remote.stream(["cat", "--", self.src], on_stdout=take, on_stderr=errors.append)
        if rc:
            said = b"".join(errors).decode("utf-8", "replace").strip()
            raise CommandFailed(f"{self.src} could not be read: {said}", rc=rc, stderr=said)
        return sums.kept

    def _check(self, arrived: Kept) -> None:
        if self.sha1 and arrived.sha1 != self.sha1:
            raise TaskFailed(
                f"checksum mismatch: {self.src} changed while it was fetched; nothing was replaced",
                hint="fetch it when nobody writes it, or set validate_checksum: false",
                code="checksum",
                values={
                    "file": self.src,
                    "dest": str(self.dest),
                    "checksum": arrived.sha1,
                    "md5sum": arrived.md5,
                    "remote_checksum": self.sha1,
                    "remote_md5sum": None,
                },
            )


class Fetch(Action[FetchParams]):
    """Keep a file of the host."""

    name = "fetch"
    params = FetchParams

    def probe(self, params: FetchParams, view: View) -> Probe:
        """The file's size and checksum."""
        return Probe((ChecksumRead("file", params.src),))

    def plan(self, params: FetchParams, view: View, seen: Seen) -> Plan:
        """Fetch what differs from the file that is here, which is looked at as it is now."""
        reply = seen.replies["file"]
        if not reply.ok:
            failure = unreadable(params.src, reply)
            if params.fail_on_missing:
                raise failure
            message = f"{failure.message}, ignored"
            return Plan(result={"file": params.src, "msg": message}, message=message)
        path, size, remote, listed = (
            field.decode("utf-8", "surrogateescape") for field in reply.stdout.split(b"\0", 3)
        )
        if int(size) > FETCH_LIMIT:
            raise _too_large(path)
        dest = destination(params, path, view)
        here = kept(dest)
        if here.sha1 == remote:
            sums = {"checksum": here.sha1, "md5sum": here.md5}
            return Plan(result={"file": path, "dest": str(dest), **sums})
        entry = next(iter(parse(listed).values()), None)
        step = KeepFile(
            path,
            dest,
            int(size),
            remote if params.validate_checksum else "",
            entry.mode if entry is not None else 0,
        )
        return Plan((step,), result={"dest": str(dest), "remote_checksum": remote})


def destination(params: FetchParams, src: str, view: View) -> Path:
    """Where the file goes; a relative ``dest`` is seen from the playbook's folder.

    Raises :class:`TaskFailed` for a name that would lead out of ``dest``.
    """
    base = expanded(params.dest)
    if str(base).startswith("~"):
        raise TaskFailed(
            f"dest {params.dest} is in the home of a user whom this machine doesn't have",
            hint="correct the name of the user",
            code="local-file",
        )
    if not base.is_absolute():
        base = Path(str(view.variables.get("playbook_dir", "."))).resolve() / base
    if not params.flat:
        return base.joinpath(_name(view.host), *map(_name, filter(None, src.split("/"))))
    if params.dest.endswith(("/", os.sep)):
        base /= _name(posixpath.basename(src))
    if base.is_dir():
        raise TaskFailed(
            f"{base} is a folder", hint="end dest with / to put the file into it", code="local-file"
        )
    return base


def kept(path: Path) -> Kept:
    """The digests of a file of the control node."""
    if not path.is_file():
        return Kept()
    sums = _Sums()
    try:
        with path.open("rb") as file:
            while data := file.read(_PIECE):
                sums.add(data)
    except OSError as error:
        raise TaskFailed(f"{path}: {error.strerror}", code="local-file") from error
    return sums.kept


class _Sums:
    """Size and digests of what comes by."""

    def __init__(self) -> None:
        self.size = 0
        self._sha1 = hashlib.sha1(usedforsecurity=False)
        self._md5 = hashlib.md5(usedforsecurity=False)

    def add(self, data: bytes) -> None:
        """Count a piece in."""
        self.size += len(data)
        self._sha1.update(data)
        self._md5.update(data)

    @property
    def kept(self) -> Kept:
        """The digests so far."""
        return Kept(self._sha1.hexdigest(), self._md5.hexdigest())


def _name(part: str) -> str:
    """One name of a path, which may be no way out of its folder."""
    if part in ("", ".", "..") or "/" in part or (os.name == "nt" and _NOT_ON_WINDOWS & set(part)):
        raise TaskFailed(
            f"{part!r} can't be a name on this machine",
            hint="write src without .., or use flat",
            code="local-file",
        )
    return part


def _too_large(path: str) -> TaskFailed:
    return TaskFailed(f"{path} has more than {FETCH_LIMIT // 1024**3} GiB", code="output-limit")
