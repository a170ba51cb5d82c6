"""unarchive of an archive of the host: compared and unpacked by the host's own programs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from klops.actions.archive.archives import handler
from klops.actions.archive.parameters import UnarchiveParams, result, shown, text, unreadable
from klops.actions.base import Change, Context, Plan, Seen, Step
from klops.actions.touched import Touched
from klops.errors import TaskFailed

_UNKNOWN = "the host's tar can't compare an archive with what is there"
#: lines of ``tar -d`` that speak of no difference: of the folders that were stripped, and at its end
_NOISE = re.compile(r"tar: : Warning: |tar: Exiting with failure status|tar: Removing leading ")
#: options of tar that busybox, unlike GNU, wants to be told
_UNPACKED_BY = {
    "TgzArchive": ("-z",),
    "TarBzipArchive": ("-j",),
    "TarXzArchive": ("-J",),
    "TarZstdArchive": ("--zstd",),
}
#: parts of the answer to an ArchiveRead
_PARTS = 5
_OWNERS = re.compile(r"(?:Uid|Gid) differs$")


@dataclass(frozen=True)
class UnpackThere(Step):
    """Unpack an archive of the host with the host's programs."""

    argv: tuple[str, ...]
    src: str
    dest: str
    differences: tuple[str, ...]

    def touches(self) -> tuple[Touched, ...]:
        """The folder, and what the host's program makes in it."""
        return (Touched(self.dest, below=True),)

    def change(self) -> Change:
        """``unpack SRC into DEST: DIFFERENCE, ...``."""
        what = shown(self.differences)
        return Change(f"unpack {self.src} into {self.dest}" + (f": {what}" if what else ""))

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """However long it takes."""
        ctx.remote.run(self.argv, timeout=None)
        return None


def plan(params: UnarchiveParams, dest: Mapping[str, Any], seen: Seen) -> Plan:
    """Unpack unless nothing differs; ``dest`` is what stat says of the folder.

    With options that no read may have, the comparison is one of something else, and tells nothing.
    """
    reply = seen.replies["archive"]
    parts = reply.stdout.split(b"\0")
    if not reply.ok or len(parts) < _PARTS:
        raise unreadable(params, reply)
    src, magic, names, compared, different = (text(part) for part in parts[:_PARTS])
    kind = handler(bytes.fromhex(magic))
    listed = names.splitlines()
    for name in listed:
        if name.startswith("/") or ".." in name.split("/"):
            raise TaskFailed(f"{name} would get out of dest", code="archive")
    root = seen.replies["me"].text.strip() == "0"
    registered = result(params, dest, kind, listed)
    argv = _argv(params, kind, src, dest["path"])
    if not compared or len(params.known_options) != len(params.extra_opts):
        unknown = "" if params.creates else _UNKNOWN
        return Plan((UnpackThere(argv, src, dest["path"], ()),), registered, unknown=unknown)
    lines = tuple(line for line in different.splitlines() if line and _counts(line, root))
    steps = (UnpackThere(argv, src, dest["path"], lines),) if lines else ()
    return Plan(steps, registered)


def _counts(line: str, root: bool) -> bool:
    return not _NOISE.match(line) and (root or not _OWNERS.search(line))


def _argv(params: UnarchiveParams, kind: str, src: str, dest: str) -> tuple[str, ...]:
    if kind == "ZipArchive":
        fresh = "-uo" if params.keep_newer else "-o"
        leave = ("-x", *params.exclude) if params.exclude else ()
        return ("unzip", fresh, "-q", *params.extra_opts, src, *params.include, *leave, "-d", dest)
    newer = ("--keep-newer-files",) if params.keep_newer else ()
    leave = tuple(f"--exclude={pattern}" for pattern in params.exclude)
    return (
        "tar",
        *_UNPACKED_BY.get(kind, ()),
        "-xpf",
        src,
        "-C",
        dest,
        *newer,
        *params.extra_opts,
        *leave,
        # what follows is never an option
        *(("--", *params.include) if params.include else ()),
    )
