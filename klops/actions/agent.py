"""``klops.agent``: klops' folders on the host, and the agent that works in the container."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from klops.actions.base import Action, Change, Context, Params, Plan, Probe, Seen, Step, View
from klops.actions.hostview import reply
from klops.commands import listing
from klops.remote import agentpackage
from klops.remote.reads import CommandRead, ListRead

#: Folders below the root and their modes. Specifications, sockets and logs are nobody else's business.
FOLDERS = (("", 0o755), ("agent", 0o755), ("units", 0o700), ("run", 0o700), ("log", 0o700))
#: Packages kept, the newest ones, so that an older klops finds its own again.
KEPT = 3

_PACKAGE = re.compile(r"^([0-9a-f]{12,64})\.pyz$")


class AgentParams(Params):
    """Takes no parameters."""


@dataclass(frozen=True)
class MakeFolder(Step):
    """Make a folder, or correct its mode."""

    path: str
    mode: int
    exists: bool

    def change(self) -> Change:
        """The folder and its mode."""
        if self.exists:
            return Change(f"mode {self.mode:04o} of {self.path}")
        return Change(f"make folder {self.path} (mode {self.mode:04o})")

    def carry_out(self, ctx: Context) -> None:
        """Make it with everything above it, then set the mode: mkdir's own would be cut by the umask."""
        script = 'mkdir -p -- "$1" && chmod "$2" "$1"'
        ctx.remote.run(["sh", "-c", script, "sh", self.path, f"{self.mode:04o}"])


@dataclass(frozen=True)
class Upload(Step):
    """Upload the agent under the name of its digest."""

    path: str
    size: int

    def change(self) -> Change:
        """The file."""
        return Change(f"upload {self.path} ({self.size / 1024:.0f} KiB)")

    def carry_out(self, ctx: Context) -> None:
        """Write it; the remote checks the size and renames."""
        ctx.remote.put(agentpackage.build().data, self.path, mode=0o644)


@dataclass(frozen=True)
class SwitchLink(Step):
    """Point ``current`` to a package, in one step: who starts meanwhile finds the old one or the new."""

    link: str
    target: str
    before: str

    def change(self) -> Change:
        """The link and where it points."""
        return Change(
            f"point {self.link} to {self.target}", self.before and f"{self.before}\n", f"{self.target}\n"
        )

    def carry_out(self, ctx: Context) -> None:
        """Make the link beside its place and rename it over the old one, which is a link to a file."""
        script = 'ln -sf -- "$2" "$1.new" && mv -f -- "$1.new" "$1"'
        ctx.remote.run(["sh", "-c", script, "sh", self.link, self.target])


@dataclass(frozen=True)
class Prune(Step):
    """Remove packages that are neither current nor among the newest, with what was compiled from them."""

    paths: tuple[str, ...]

    def change(self) -> Change:
        """The files."""
        return Change(f"remove {', '.join(self.paths)}")

    def carry_out(self, ctx: Context) -> None:
        """Remove them by name."""
        ctx.remote.run(["rm", "-rf", "--", *self.paths])


class Agent(Action[AgentParams]):
    """Brings the agent to the host, once a digest."""

    name: ClassVar[str] = "klops.agent"
    params = AgentParams

    def probe(self, params: AgentParams, view: View) -> Probe:
        """The folders, this package, the link, and what else is there, the newest first."""
        root = view.settings.root
        package = agentpackage.build()
        return Probe(
            reads=(
                ListRead("folders", tuple(_path(root, name) for name, _ in FOLDERS)),
                ListRead("package", (f"{root}/agent/{package.digest}.pyz", f"{root}/agent/current")),
                CommandRead("packages", ("ls", "-1t", "--", f"{root}/agent")),
            )
        )

    def plan(self, params: AgentParams, view: View, seen: Seen) -> Plan:
        """Folders first, then the package, then the link, then the old ones."""
        root = view.settings.root
        package = agentpackage.build()
        steps: list[Step] = []
        folders = listing.parse(reply(seen.replies, "folders").text)
        for name, mode in FOLDERS:
            path = _path(root, name)
            entry = folders.get(path)
            if entry is None:
                steps.append(MakeFolder(path, mode, exists=False))
            elif name and entry.type == "directory" and entry.mode & 0o777 & ~mode:
                # only what is too open is closed; a root that somebody has narrowed stays so
                steps.append(MakeFolder(path, mode, exists=True))
        entries = listing.parse(reply(seen.replies, "package").text)
        file, target = f"{root}/agent/{package.digest}.pyz", f"{package.digest}.pyz"
        entry = entries.get(file)
        if entry is None or entry.type != "file" or entry.size != len(package.data):
            steps.append(Upload(file, len(package.data)))
        link = entries.get(f"{root}/agent/current")
        before = link.target if link is not None else ""
        if before != target:
            steps.append(SwitchLink(f"{root}/agent/current", target, before))
        stale = _stale(reply(seen.replies, "packages").text.splitlines(), package.digest)
        if stale:
            steps.append(Prune(tuple(f"{root}/agent/{name}" for name in stale)))
        result: Mapping[str, Any] = {"digest": package.digest}
        return Plan(steps=tuple(steps), result=result, message=f"agent {package.digest}")


def _path(root: str, name: str) -> str:
    return f"{root}/{name}" if name else root


def _stale(names: list[str], current: str) -> list[str]:
    """What to remove of a folder listing, the newest first: old packages and what bears their digest."""
    digests = [match.group(1) for name in names if (match := _PACKAGE.match(name))]
    others = [digest for digest in digests if digest != current]
    old = others[KEPT - 1 :]
    return [name for name in names if any(name == digest or name.startswith(digest + ".") for digest in old)]
