"""Steps that several actions share: files, folders, links and their attributes on the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from klops.actions.base import Change, Context, Step


@dataclass(frozen=True)
class WriteFile(Step):
    """Write a whole file: beside its place, then renamed; missing folders are made.

    ``before`` and ``after`` are texts for a diff, None where the content is no text. ``owner`` (numbers) is
    given back to a file that had it: a renamed file would belong to whoever wrote it.
    """

    path: str
    content: bytes
    mode: int
    before: str | None = None
    after: str | None = None
    owner: tuple[int, int] | None = None

    def change(self) -> Change:
        """``write PATH (0644, N bytes)``."""
        return Change(
            f"write {self.path} ({self.mode:04o}, {len(self.content)} bytes)", self.before, self.after
        )

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Put it, and give it back to its owner."""
        ctx.remote.put(self.content, self.path, mode=self.mode)
        if self.owner is not None:
            owner = "{}:{}".format(*self.owner)
            if ctx.remote.run(["chown", owner, "--", self.path], check=False).rc:
                ctx.warn(f"{self.path} belonged to {owner}, and could not be given back")
        return None


@dataclass(frozen=True)
class MakeDirectory(Step):
    """Make a folder and those above it; ``mode`` is that of the folder itself."""

    path: str
    mode: int = 0o755

    def change(self) -> Change:
        """``make folder PATH (0755)``."""
        return Change(f"make folder {self.path} ({self.mode:04o})")

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """mkdir -p; -m is not bent by the umask."""
        ctx.remote.run(["mkdir", "-p", "-m", f"{self.mode:04o}", "--", self.path])
        return None


@dataclass(frozen=True)
class SetMode(Step):
    """Change the mode of what is there."""

    path: str
    have: int
    want: int

    def change(self) -> Change:
        """``mode of PATH: 0600 -> 0644``."""
        return Change(f"mode of {self.path}: {self.have:04o} -> {self.want:04o}")

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """chmod; five digits, because GNU keeps a folder's setuid and setgid bits when given four."""
        ctx.remote.run(["chmod", f"{self.want:05o}", "--", self.path])
        return None


@dataclass(frozen=True)
class SetOwner(Step):
    """Change owner, group or both (numbers; None: as it is)."""

    path: str
    uid: int | None
    gid: int | None
    have: tuple[int, int] | None = None

    def change(self) -> Change:
        """``owner of PATH: 0:0 -> 1000:``."""
        had = "{}:{} -> ".format(*self.have) if self.have else ""
        return Change(f"owner of {self.path}: {had}{self._wanted}")

    @property
    def _wanted(self) -> str:
        uid = "" if self.uid is None else str(self.uid)
        return uid if self.gid is None else f"{uid}:{self.gid}"

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Chown."""
        ctx.remote.run(["chown", self._wanted, "--", self.path])
        return None


@dataclass(frozen=True)
class MakeLink(Step):
    """Make a symbolic link, in place of one that points elsewhere."""

    path: str
    target: str
    had: str = ""

    def change(self) -> Change:
        """``link PATH -> TARGET``."""
        was = f" (was {self.had})" if self.had else ""
        return Change(f"link {self.path} -> {self.target}{was}")

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Ln; -n, so that a link to a folder is replaced and not entered."""
        ctx.remote.run(["ln", "-sfn", "--", self.target, self.path])
        return None


@dataclass(frozen=True)
class Remove(Step):
    """Remove a path with all that is below it."""

    path: str
    kind: str

    def change(self) -> Change:
        """``remove KIND PATH``."""
        return Change(f"remove {self.kind} {self.path}")

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Rm -rf."""
        ctx.remote.run(["rm", "-rf", "--", self.path], timeout=None)
        return None


@dataclass(frozen=True)
class Touch(Step):
    """Make an empty file, or set the times of what is there to now."""

    path: str

    def change(self) -> Change:
        """``touch PATH``."""
        return Change(f"touch {self.path}")

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Touch."""
        ctx.remote.run(["touch", "--", self.path])
        return None


def as_text(content: bytes) -> str | None:
    """Content as text for a diff, or None when it is none."""
    if b"\0" in content:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None
