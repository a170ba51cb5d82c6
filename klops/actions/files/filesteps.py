"""Steps of the file modules alone: links, times, copies on the host, attributes of whole trees."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from klops.actions.base import Change, Context, Step
from klops.actions.steps import backed_up, chown
from klops.actions.touched import Becomes, Touched
from klops.remote.placing import PLACING


@dataclass(frozen=True)
class CopyOnHost(Step):
    """Copy a file of the host to another place of it: beside its place, then renamed."""

    src: str
    path: str
    mode: int
    backup: bool = False

    #: ``sh -c SCRIPT NAME SRC PATH MODE``
    SCRIPT: ClassVar[str] = (
        PLACING
        + r"""
d=$(dirname -- "$2")
( umask 022; mkdir -p -- "$d" ) || exit 73
beside "$d" || exit 73
cat <"$1" >"$t" || exit 74
chmod -- "$3" "$t" && place "$t" "$2"
"""
    )

    def touches(self) -> tuple[Touched, ...]:
        """The new file; its content is not known here."""
        return (Touched(self.path, Becomes.FILE, self.mode),)

    def change(self) -> Change:
        """``copy SRC to PATH (0644)``."""
        return Change(f"copy {self.src} to {self.path} ({self.mode:04o})")

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Cat into a new file, then mv."""
        result = {"backup_file": backed_up(ctx, self.path)} if self.backup else {}
        argv = ["sh", "-c", self.SCRIPT, "klops-copy", self.src, self.path, f"{self.mode:05o}"]
        ctx.remote.run(argv, timeout=None)
        return result


@dataclass(frozen=True)
class MakeLink(Step):
    """Make a link, symbolic or (``hard``) not: beside its place, then renamed over what was there.

    ``had`` says what is replaced. ``folder``: an empty folder makes way for it.
    """

    path: str
    target: str
    had: str = ""
    hard: bool = False
    folder: bool = False

    #: ``sh -c SCRIPT NAME TARGET PATH OPTION FOLDER``; made in a folder of its own: no link can be made over
    #: a file that mktemp made
    SCRIPT: ClassVar[str] = (
        PLACING
        + r"""
beside "$(dirname -- "$2")" -d || exit 73
ln $3 -- "$1" "$t/link" || exit
if [ -n "$4" ]; then rmdir -- "$2" || exit; fi
place "$t/link" "$2"
"""
    )

    def touches(self) -> tuple[Touched, ...]:
        """The link, and whatever is seen through it."""
        leads = posixpath.join(posixpath.dirname(self.path), self.target)
        return (Touched(self.path, below=True, leads=leads),)

    def change(self) -> Change:
        """``link PATH -> TARGET``."""
        was = f" (was {self.had})" if self.had else ""
        return Change(f"{'hard link' if self.hard else 'link'} {self.path} -> {self.target}{was}")

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Ln, then mv."""
        option, folder = "" if self.hard else "-s", "yes" if self.folder else ""
        ctx.remote.run(["sh", "-c", self.SCRIPT, "klops-link", self.target, self.path, option, folder])
        return None


@dataclass(frozen=True)
class Touch(Step):
    """Make an empty file, or set the times of what is there.

    ``atime`` and ``mtime``: ``now``, ``preserve``, or what ``touch -t`` takes (``CCYYMMDDhhmm.SS``).
    """

    path: str
    atime: str = "now"
    mtime: str = "now"

    def touches(self) -> tuple[Touched, ...]:
        """The mode of a new file is up to the host's umask."""
        return (Touched(self.path),)

    def change(self) -> Change:
        """``touch PATH``."""
        return Change(f"touch {self.path}")

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Touch, once for each kind of time."""
        if self.atime == self.mtime == "preserve":
            ctx.remote.run(["sh", "-c", ': >>"$1"', "klops-touch", self.path])
            return None
        kinds = [("", self.atime)] if self.atime == self.mtime else [("-a", self.atime), ("-m", self.mtime)]
        for which, time in kinds:
            if time != "preserve":
                argv = [
                    "touch",
                    *filter(None, [which]),
                    *([] if time == "now" else ["-t", time]),
                    "--",
                    self.path,
                ]
                ctx.remote.run(argv)
        return None


@dataclass(frozen=True)
class SetBelow(Step):
    """Set the owner (as chown takes it), or else the mode, of many paths of a tree."""

    root: str
    paths: tuple[str, ...]
    owner: str = ""
    mode: int = 0

    #: ``sh -c SCRIPT NAME MODE PATHS``; what has become a link since it was listed would be followed
    CHMOD: ClassVar[str] = 'm=$1; shift; exec find "$@" -prune ! -type l -exec chmod -- "$m" {} +'

    def touches(self) -> tuple[Touched, ...]:
        """Many, at once."""
        return (Touched(self.root, below=True),)

    def change(self) -> Change:
        """``chmod 00644: 12 paths below ROOT``."""
        what = f"chown -h {self.owner}" if self.owner else f"chmod {self.mode:05o}"
        return Change(f"{what}: {len(self.paths)} paths below {self.root}")

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Through xargs: the paths may be more than a command line holds."""
        names = b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in self.paths)
        if self.owner:
            argv = chown(self.owner)
        else:
            argv = ["sh", "-c", self.CHMOD, "klops-chmod", f"{self.mode:05o}"]
        ctx.remote.run(["xargs", "-0", *argv], stdin=names, timeout=None)
        return None
