"""The clean-up of the machine that klops itself is installed on: the agent's module, without a helper."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from klops.actions.own import hostreads, hostview
from klops.actions.own.reap import findings, judge
from klops.actions.own.reap.findings import Look
from klops.actions.own.reap.steps import LONGEST, Before, place
from klops.commands import reaping
from klops.errors import AgentError, UsageError
from klops.inventory.settings import Settings
from klops.remote.base import Reply

if TYPE_CHECKING:
    from klops.remote.base import Completed, Remote


@dataclass(frozen=True)
class Here:
    """What is to be known of this machine: nobody reads its inventory."""

    root: str = "/var/lib/klops"
    container: str = "klops"
    device_dir: str = "/dev"
    grace: float = 60.0
    #: unowned processes to end as well, as ``PID:START``
    include: tuple[str, ...] = ()
    check: bool = False

    @property
    def settings(self) -> Settings:
        """As settings. Raises :class:`UsageError`."""
        given = {
            "root": self.root,
            "container": {"name": self.container},
            "cards": {"device_dir": self.device_dir},
        }
        try:
            return Settings.model_validate(given)
        except ValidationError as error:
            first = error.errors()[0]
            raise UsageError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error

    @property
    def command(self) -> str:
        """What was typed, without what is to be ended."""
        usual = Here()
        words = ["klops", "reap", "--local"]
        for option in ("root", "container", "device_dir"):
            if getattr(self, option) != getattr(usual, option):
                words += [f"--{option.replace('_', '-')}", getattr(self, option)]
        return shlex.join(words)

    @property
    def args(self) -> list[str]:
        """Options of the verb that both looks have."""
        return ["--grace", f"{self.grace:g}", *(["--check"] if self.check else [])]


def clean_up(
    here: Here, remote: Remote, note: Callable[[str], None]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The result object and warnings. Raises AgentError, and TaskFailed, which has the object as well.

    UsageError where nothing of klops' is below the root: a clean-up would make that folder. ``note`` is told
    at once how the answer is to be read.
    """
    settings = here.settings
    if not any(Path(here.root, name).exists() for name in ("agent", "run")):
        raise UsageError(
            f"--root {here.root}: nothing of klops' is there", hint="it is klops.root of this machine"
        )
    reads = (hostreads.pids(settings), hostreads.device_links(settings), *hostreads.cards(settings))
    replies = remote.read((*hostreads.host(settings), *reads))
    host = hostview.look(replies, settings)
    trouble = host.trouble()
    if trouble is not None and host.engine is None:
        raise trouble  # without an engine there is no container to mistake
    for text in unclear(here, host):
        note(text)
    before = Before.of(host, replies, settings)

    def look_at(here: Here) -> Look:
        lines = ["helper - -", json.dumps(_whole(here, host))]
        also = _inside(here, host, settings, remote)
        if also is not None:
            lines += [f"{reaping.INSIDE} {also.rc}", *_objects(also.text)]
        said = Reply(0, "\n".join(lines).encode(), also.stderr if also is not None else b"")
        return findings.read(said, before.names, before.inside)

    named = frozenset(map(judge.identity, here.include))
    if named or here.check:
        look = look_at(replace(here, check=True))
        refused = judge.refused(look, named)
        if refused is not None:
            raise refused.but(values=look.document)
    if not here.check:
        look = look_at(here)
        return before.result(remote, settings, look, lambda _: None), judge.warnings(
            look, named, here.command
        )
    look = look.with_memory(before.memory, before.busy)
    result = {**look.document, "freed_mib": 0}
    failure = judge.failure(look, before.memory, before.busy, before.ours)
    if failure is not None:
        raise failure.but(values=result)
    return result, judge.warnings(look, named, here.command)


def unclear(here: Here, host: hostview.HostView) -> list[str]:
    """What this machine doesn't tell, and what that means for the answer."""
    found = []
    if not host.cards_from:
        found.append(
            "xpu-smi was not found or gives no answer, so cards are called by their nodes, and what memory "
            "they have in use is not known"
        )
    if host.engine is None and host.container is None and not host.container_error:
        known = host.adoption.name if host.adoption is not None else _in_pass(Path(here.root, "pass"))
        other = known if known not in ("", here.container) else "NAME"
        found.append(
            f"no container {here.container} is here, so processes in containers count as others'; if "
            f"klops' has another name: --container {shlex.quote(other)}"
        )
    return found


def _in_pass(path: Path) -> str:
    """The container that the scheduled pass is for; "" where there is none, or it can't be read."""
    try:
        line = re.search(r"^name=(.*)$", path.read_text("utf-8", "replace"), re.MULTILINE)
        return "".join(shlex.split(line[1])) if line is not None else ""
    except (OSError, ValueError):  # it is a hint only
        return ""


def _whole(here: Here, host: hostview.HostView) -> Mapping[str, Any]:
    """What the module says of the machine. Raises AgentError with its words."""
    from klops.agent.errors import VerbError, system_error
    from klops.agent.options import Options
    from klops.agent.reaping import verb

    argv = ["reap", "--host", "--root", here.root, "--device-dir", here.device_dir, *here.args]
    if host.container is not None and host.ours:
        # in one of somebody else's nothing is asked
        argv += ["--container", host.container.id, "--kind", "made" if host.made else "adopted"]
    for one in here.include:
        argv += ["--include", one]
    try:
        try:
            return verb.reap(Options(argv))
        except OSError as error:
            raise system_error(error) from error
    except VerbError as error:
        known = error.as_json()
        raise AgentError(known["message"], hint=known.get("hint", ""), code=known["code"]) from error


def _inside(here: Here, host: hostview.HostView, settings: Settings, remote: Remote) -> Completed | None:
    """The same of klops' container, for what is left in its shared memory; None where none of it runs."""
    if not (host.ours and host.running):
        return None
    script = reaping.container(place(settings), here.args)
    return remote.run(["sh", "-c", script], check=False, timeout=LONGEST)


def _objects(text: str) -> list[str]:
    """What the agent says, without the line about whom it looks at."""
    return [line for line in text.splitlines() if line.startswith("{")]
