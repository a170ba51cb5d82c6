"""Preflight: the model of every service, as the container will see it. Pure."""

from __future__ import annotations

import difflib
import posixpath
from collections.abc import Sequence
from typing import TYPE_CHECKING

from klops.actions.own import hostreads
from klops.actions.own.findings import Finding
from klops.actions.own.hostview import HostView, reply
from klops.commands import docker, listing
from klops.commands.mounts import Mount, host_path
from klops.remote.base import Replies
from klops.remote.reads import CommandRead, ListRead, Read

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

#: What describes a model in its folder, by the two conventions that vLLM reads.
_DESCRIPTIONS = ("config.json", "params.json")


def mounts_of(settings: Settings) -> list[Mount]:
    """Folders of the host that the container sees: klops' own root, and the volumes."""
    root = Mount(settings.root, settings.root)
    return [root, *(Mount.of(volume) for volume in settings.container.volumes)]


def model_reads(settings: Settings) -> list[Read]:
    """For each service: its model's folder on the host, or a look into the container where no volume is."""
    reads: list[Read] = []
    mounts = mounts_of(settings)
    for name, service in settings.services.items():
        outside = host_path(service.model, mounts)
        if outside is None:
            argv = docker.execute(
                hostreads.docker_prefix(settings), settings.container.name, "test", "-e", service.model
            )
            reads.append(CommandRead(f"model.{name}.inside", argv))
            continue
        described = [posixpath.join(outside, description) for description in _DESCRIPTIONS]
        reads.append(ListRead(f"model.{name}", (outside, *described), follow=True))
        reads.append(ListRead(f"model.{name}.link", (outside,)))
        reads.append(CommandRead(f"model.{name}.near", ("ls", "-1", "--", posixpath.dirname(outside))))
    return reads


def model_findings(settings: Settings, host: HostView, replies: Replies) -> list[Finding]:
    """What is wrong with the models' paths."""
    found: list[Finding] = []
    mounts = mounts_of(settings)
    for name, service in settings.services.items():
        outside = host_path(service.model, mounts)
        if outside is None:
            found += _uncovered(name, service.model, host, replies)
        else:
            found += _covered(name, service.model, outside, mounts, replies)
    return found


def _hint(name: str) -> str:
    return (
        f"set klops.services.{name}.model to the directory as the container sees it: vLLM takes a path that "
        "isn't there for the name of a model on a hub, and fails with HFValidationError"
    )


def _uncovered(name: str, model: str, host: HostView, replies: Replies) -> list[Finding]:
    """No volume holds the path: it can only be in the container's own file system."""
    hint = "add the host's folder to klops.container.volumes as HOST:CONTAINER:ro"
    if host.engine is not None or host.container_error:
        return []  # already told, and nothing can be known
    if host.container is None:
        return [Finding("model-missing", f"model of {name}: {model}: no volume covers it", hint)]
    if not host.running:
        return [
            Finding(
                "model-missing",
                f"model of {name}: {model}: no volume covers it, and the container does not run, so whether "
                "its own file system holds it is not known",
                hint,
                warning=True,
            )
        ]
    if reply(replies, f"model.{name}.inside").ok:
        return []
    message = f"model of {name}: {model} is not in the container, and no volume covers it"
    return [Finding("model-missing", message, hint)]


def _covered(name: str, model: str, outside: str, mounts: Sequence[Mount], replies: Replies) -> list[Finding]:
    what = f"model of {name}: {model}"
    entries = listing.parse(reply(replies, f"model.{name}").text)
    itself = entries.get(outside)
    link = listing.parse(reply(replies, f"model.{name}.link").text).get(outside)
    if link is not None and link.target.startswith("/") and host_path(link.target, mounts) is None:
        return [
            Finding(
                "model-missing",
                f"{what} is a link to {link.target}, which no volume covers: a dead end in the container",
                "add the link's target to klops.container.volumes under the same path",
            )
        ]
    if itself is None:
        siblings = reply(replies, f"model.{name}.near").text.splitlines()
        names = nearest_names(posixpath.basename(outside), siblings)
        near = [posixpath.join(posixpath.dirname(posixpath.normpath(model)), sibling) for sibling in names]
        message = f"{what} does not exist (on the host: {outside})"
        if near:
            message += f"; near it: {', '.join(near)}"
        return [Finding("model-missing", message, _hint(name))]
    if itself.type == "directory" and len(entries) == 1:
        message = f"{what} holds neither {' nor '.join(_DESCRIPTIONS)} (on the host: {outside})"
        return [Finding("model-missing", message, _hint(name))]
    return []


def nearest_names(wanted: str, names: Sequence[str], most: int = 3) -> list[str]:
    """Names that may have been meant: those that begin the same first, then those that look alike.

    >>> nearest_names("Qwen3.8", ["Qwen3.8-27B-W8A8-INT8-Dynamic", "GLM-4.7"])
    ['Qwen3.8-27B-W8A8-INT8-Dynamic']
    """
    low = wanted.lower()
    starting = [name for name in names if name.lower().startswith(low)] if low else []
    alike = difflib.get_close_matches(wanted, names, n=most, cutoff=0.5)
    return list(dict.fromkeys([*starting, *alike]))[:most]
