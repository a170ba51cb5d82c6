"""``klops.agent``: klops' folders on the host, and the agent that works in the container."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from klops.actions.base import Action, Change, Context, Params, Plan, Probe, Seen, Step, View
from klops.actions.own import hostpass, hostreads, hostview
from klops.actions.own.hostview import reply
from klops.commands import docker, listing
from klops.remote import agentpackage
from klops.remote.reads import CommandRead, DigestRead, ListRead

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

#: Folders below the root and their modes. Specifications, sockets and logs are nobody else's business.
#: Metrics are for who collects them; both klops on the host and the agent write there.
FOLDERS = (
    *(("", 0o755), ("agent", 0o755), ("metrics", 0o755)),
    *(("units", 0o700), ("run", 0o700), ("log", 0o700)),
)
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
class Compile(Step):
    """Have a package compiled that came while its container runs: the supervisor does that when it starts.

    Until then each verb would compile what it needs, and that is most of the time it takes.
    """

    settings: Settings
    digest: str

    def change(self) -> Change:
        """The package."""
        return Change(f"compile agent {self.digest} in the container")

    def carry_out(self, ctx: Context) -> None:
        """The container's own Python does it. Without that all works, and takes longer."""
        done = ctx.remote.run(hostreads.agent_argv(self.settings, "compile"), check=False)
        said = done.error_text.strip().splitlines()
        if done.rc != 0 or said:
            ctx.warn(
                f"the agent is not compiled, so it is slower: {said[-1] if said else f'status {done.rc}'}"
            )


@dataclass(frozen=True)
class Prune(Step):
    """Remove packages that are neither current nor among the newest, with what was compiled from them."""

    paths: tuple[str, ...]
    #: how a command is run in the container, () when none runs
    inside: tuple[str, ...]

    def change(self) -> Change:
        """The files."""
        return Change(f"remove {', '.join(self.paths)}")

    def carry_out(self, ctx: Context) -> None:
        """Remove them by name; what is left is no reason to fail.

        The container's user compiles, so what was compiled may be another's than the folder: it is removed
        through the container, which has the folder under the same path.
        """
        argv = ["rm", "-rf", "--", *self.paths]
        done = ctx.remote.run(argv, check=False)
        if done.rc != 0 and self.inside:
            done = ctx.remote.run([*self.inside, *argv], check=False)
        if done.rc != 0:
            said = done.error_text.strip().splitlines() or [f"status {done.rc}"]
            ctx.warn(f"old agents could not be removed, they stay: {said[-1]}")


class Agent(Action[AgentParams]):
    """Brings the agent to the host, once a digest."""

    name: ClassVar[str] = "klops.agent"
    params = AgentParams

    def probe(self, params: AgentParams, view: View) -> Probe:
        """The folders, this package, the link, what else is there, the newest first, and which is in use."""
        settings = view.settings
        root = settings.root
        package = agentpackage.build()
        return Probe(
            reads=(
                ListRead("folders", tuple(_path(root, name) for name, _ in FOLDERS)),
                DigestRead("package", f"{root}/agent/{package.digest}.pyz"),
                ListRead("link", (f"{root}/agent/current",)),
                CommandRead("packages", ("ls", "-1t", "--", f"{root}/agent")),
                hostpass.read(settings),
                *hostreads.host(settings),
            )
        )

    def plan(self, params: AgentParams, view: View, seen: Seen) -> Plan:
        """Folders first, then the package, then the link, then the old ones."""
        settings = view.settings
        root = settings.root
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
        file, target = f"{root}/agent/{package.digest}.pyz", f"{package.digest}.pyz"
        if reply(seen.replies, "package").text.strip() != package.sha256:
            steps.append(Upload(file, len(package.data)))
        link = listing.parse(reply(seen.replies, "link").text).get(f"{root}/agent/current")
        before = link.target if link is not None else ""
        if before != target:
            steps.append(SwitchLink(f"{root}/agent/current", target, before))
        host = hostview.look(seen.replies, settings)
        if before != target and host.running and host.agent is not None:
            steps.append(Compile(settings, package.digest))
        steps += hostpass.steps(seen.replies, settings)
        in_use = _in_use(host)
        if in_use is not None:
            names = reply(seen.replies, "packages").text.splitlines()
            stale = tuple(f"{root}/agent/{name}" for name in _stale(names, {package.digest, *in_use}))
            prefix, container = hostreads.docker_prefix(settings), settings.container.name
            inside = docker.execute(prefix, container) if host.running else ()
            steps += [Prune(stale, inside)] if stale else []
        result: Mapping[str, Any] = {"digest": package.digest}
        return Plan(steps=tuple(steps), result=result, message=f"agent {package.digest}")


def _path(root: str, name: str) -> str:
    return f"{root}/{name}" if name else root


def _in_use(host: hostview.HostView) -> set[str] | None:
    """Digests of packages that a living supervisor starts gates from; None when that can't be told."""
    if host.trouble() is not None:
        return None
    if host.at_rest:
        return set()
    if host.agent is None:
        return None
    supervisor = host.agent.get("supervisor")
    return {str(supervisor.get("agent"))} if isinstance(supervisor, Mapping) else set()


def _stale(names: list[str], keep: set[str]) -> list[str]:
    """What to remove of a folder listing, the newest first: old packages and what bears their digest."""
    digests = [match.group(1) for name in names if (match := _PACKAGE.match(name))]
    others = [digest for digest in digests if digest not in keep]
    old = others[KEPT - 1 :]
    return [name for name in names if any(name == digest or name.startswith(digest + ".") for digest in old)]
