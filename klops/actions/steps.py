"""Steps that several actions share: files, folders, links and their attributes on the host."""

from __future__ import annotations

import posixpath
import secrets
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from klops.actions.base import Change, Context, Step
from klops.actions.files.attributes import found, look
from klops.actions.touched import Becomes, Touched
from klops.errors import ChangedMeanwhile, TaskFailed
from klops.remote.base import Reply
from klops.remote.placing import NOTHING, PLACING, put_input, put_reply

#: ``sh -c BACKUP NAME PATH``: a copy beside a file, named as Ansible names it; says the name.
BACKUP = r"""
to="$1.$$.$(date +%Y-%m-%d@%H:%M:%S)~"
cp -p -- "$1" "$to" && printf %s "$to"
"""


def backed_up(ctx: Context, path: str) -> str:
    """Copy a file of the host beside itself; the name of the copy."""
    return ctx.remote.run(["sh", "-c", BACKUP, "klops-backup", path], timeout=None).text


def chmod(mode: int) -> list[str]:
    """The argv that gives a mode to the paths that follow.

    Options end before the mode: behind it, ``--`` is a file where POSIXLY_CORRECT is set. Five digits,
    because GNU keeps a folder's setuid and setgid bits when given four.
    """
    return ["chmod", "--", f"{mode:05o}"]


def chown(owner: str) -> list[str]:
    """The argv that gives the paths that follow to an owner; links themselves, never what they lead to."""
    return ["chown", "-h", "--", owner]


@dataclass(frozen=True)
class WriteFile(Step):
    """Write a whole file: beside its place, then renamed; missing folders are made.

    ``before`` and ``after`` are texts for a diff, None where the content is no text. ``owner`` (numbers) is
    given back to a file that had it: a renamed file would belong to whoever wrote it. ``validate`` is a
    command line without a shell, ``%s`` stands for the new file; ``backup`` is the path (or a link to it)
    beside which what was there is kept, "" to keep nothing. ``seen`` is what the plan was made of, as
    :meth:`~klops.remote.base.Remote.put` takes it: what somebody else wrote since then is not written over.
    """

    path: str
    content: bytes
    mode: int
    before: str | None = None
    after: str | None = None
    owner: tuple[int | None, int | None] | None = None
    backup: str = ""
    validate: str = ""
    #: say what the file has become; not for one of many
    report: bool = True
    seen: str = ""

    #: ``sh -c PLACE NAME NEW PATH``; what was seen on standard input
    PLACE: ClassVar[str] = (
        PLACING
        + r"""
IFS= read -r seen || exit 74
as_seen "$seen" "$2" || exit 75
place "$1" "$2" || exit 73
LC_ALL=C ls -lnd -- "$2" && LC_ALL=C ls -ld -- "$2"
exit 0
"""
    )

    def touches(self) -> tuple[Touched, ...]:
        """The file, whole."""
        return (Touched(self.path, Becomes.FILE, self.mode, self.owner or (None, None), self.content),)

    def change(self) -> Change:
        """``write PATH (0644, N bytes)``."""
        return Change(
            f"write {self.path} ({self.mode:04o}, {len(self.content)} bytes)", self.before, self.after
        )

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Put it, its owner's from the start, and say what it is now. Raises :class:`ChangedMeanwhile`."""
        result: dict[str, Any] = {}
        beside = self._valid(ctx) if self.validate else ""
        if self.backup:
            result["backup_file"] = backed_up(ctx, self.backup)
        try:
            put = self._placed(ctx, beside) if beside else self._put(ctx, self.path, self.seen)
        except ChangedMeanwhile:
            if self.backup:
                # the next plan makes its own
                ctx.remote.run(["rm", "-f", "--", result["backup_file"]], check=False)
            raise
        if self.owner is None and not self.report:
            return result
        now = found(put)
        if now.own is None:
            now = look(ctx.remote, self.path)
        have = (now.own.uid, now.own.gid) if now.own is not None else (None, None)
        for wanted, got in zip(self.owner or (), have, strict=False):
            if wanted is not None and got is not None and wanted != got:
                ctx.warn(f"{self.path} belonged to {self._owner}, and could not be given back")
                break
        return {**result, **now.values}

    @property
    def _owner(self) -> str:
        return owner_text(*self.owner) if self.owner is not None else ""

    def _put(self, ctx: Context, path: str, seen: str) -> Reply:
        return ctx.remote.put(self.content, path, mode=self.mode, owner=self._owner, unless_changed=seen)

    def _placed(self, ctx: Context, beside: str) -> Reply:
        argv = ["sh", "-c", self.PLACE, "klops-place", beside, self.path]
        done = ctx.remote.run(argv, stdin=put_input(b"", self.seen), check=False)
        if done.rc:
            ctx.remote.run(["rm", "-f", "--", beside], check=False)
        return put_reply(ctx.remote.name, self.path, done)

    def _valid(self, ctx: Context) -> str:
        """Where the valid file waits: what reads whole folders passes over names with a dot."""
        beside = posixpath.join(posixpath.dirname(self.path), f".klops-{secrets.token_hex(8)}")
        self._put(ctx, beside, NOTHING)
        argv = [word.replace("%s", beside) for word in shlex.split(self.validate)]
        done = ctx.remote.run(argv, check=False)
        if done.rc:
            ctx.remote.run(["rm", "-f", "--", beside], check=False)
            said = (done.error_text or done.text).strip()
            raise TaskFailed(
                f"{self.path}: not valid, {shlex.join(argv)} ended with {done.rc}"
                + (f": {said}" if said else ""),
                hint="what is there was left as it is",
                code="not-valid",
            )
        return beside


@dataclass(frozen=True)
class MakeDirectory(Step):
    """Make a folder and those above it that are missing.

    ``mode`` and ``owner`` are, as in Ansible, those of all that are made; ``owner`` as chown takes it
    (``1000``, ``:998``), "" to leave it.
    """

    path: str
    mode: int = 0o755
    owner: str = ""

    #: ``sh -c SCRIPT NAME PATH MODE OWNER``; all are made shut, then handed over from the lowest up: whoever
    #: gets one could put something of their own in the place of what is below it
    SCRIPT: ClassVar[str] = r"""
p=$1 m=$2 o=$3
set --
while ! [ -d "$p" ]; do set -- "$p" "$@"; p=$(dirname -- "$p"); done
made=
for f do
  # what is made goes where the list of the missing was, the lowest first
  [ -n "$made" ] || set --
  made=yes
  # another host may make the same folder just now, on storage that they share
  if mkdir -m 0700 -- "$f"; then set -- "$f" "$@"; else [ -d "$f" ] || exit; fi
done
for f do
  chmod -- "$m" "$f" || exit
  [ -z "$o" ] || chown -h -- "$o" "$f" || exit
done
"""

    def touches(self) -> tuple[Touched, ...]:
        """The folder, which is empty."""
        uid, _, gid = self.owner.partition(":")
        owner = (int(uid) if uid else None, int(gid) if gid else None)
        return (Touched(self.path, Becomes.DIRECTORY, self.mode, owner),)

    def change(self) -> Change:
        """``make folder PATH (0755)``."""
        owner = f", owner {self.owner}" if self.owner else ""
        return Change(f"make folder {self.path} ({self.mode:04o}{owner})")

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Mkdir from the top, then chmod and chown from below."""
        argv = ["sh", "-c", self.SCRIPT, "klops-mkdir", self.path, f"{self.mode:05o}", self.owner]
        ctx.remote.run(argv)
        return None


@dataclass(frozen=True)
class SetMode(Step):
    """Change the mode of what is there."""

    path: str
    have: int
    want: int

    def touches(self) -> tuple[Touched, ...]:
        """The mode."""
        return (Touched(self.path, Becomes.SAME, self.want),)

    def change(self) -> Change:
        """``mode of PATH: 0600 -> 0644``."""
        return Change(f"mode of {self.path}: {self.have:04o} -> {self.want:04o}")

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Chmod."""
        ctx.remote.run([*chmod(self.want), self.path])
        return None


@dataclass(frozen=True)
class SetOwner(Step):
    """Change owner, group or both (numbers; None: as it is)."""

    path: str
    uid: int | None
    gid: int | None
    have: tuple[int, int] | None = None
    #: of what a link leads to, where that has no path of its own yet
    follows: bool = False

    def touches(self) -> tuple[Touched, ...]:
        """The owner."""
        return (Touched(self.path, Becomes.SAME, owner=(self.uid, self.gid)),)

    def change(self) -> Change:
        """``owner of PATH: 0:0 -> 1000:``."""
        had = "{}:{} -> ".format(*self.have) if self.have else ""
        return Change(f"owner of {self.path}: {had}{self._wanted}")

    @property
    def _wanted(self) -> str:
        return owner_text(self.uid, self.gid)

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Chown."""
        argv = chown(self._wanted)
        if self.follows:
            argv.remove("-h")
        ctx.remote.run([*argv, self.path])
        return None


@dataclass(frozen=True)
class Remove(Step):
    """Remove a path with all that is below it."""

    path: str
    kind: str

    def touches(self) -> tuple[Touched, ...]:
        """Nothing is left."""
        return (Touched(self.path, Becomes.ABSENT),)

    def change(self) -> Change:
        """``remove KIND PATH``."""
        return Change(f"remove {self.kind} {self.path}")

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Rm -rf."""
        ctx.remote.run(["rm", "-rf", "--", self.path], timeout=None)
        return None


def owner_text(uid: int | None, gid: int | None) -> str:
    """Ids as chown takes them: ``1000``, ``1000:998``, ``:998``; "" for none."""
    user = "" if uid is None else str(uid)
    return user if gid is None else f"{user}:{gid}"


def as_text(content: bytes) -> str | None:
    """Content as text for a diff, or None when it is none."""
    if b"\0" in content:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None
