"""Builders of docker command lines, and readers of what docker says when it can't."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from klops.commands.containerspec import ContainerSpec

#: Bound of the engine's own log of a container: the units have rotated logs of their own below ROOT/log.
LOG_OPTIONS = (("max-file", "3"), ("max-size", "10m"))


def prefix(host: str | None = None, *, sudo: bool = False) -> tuple[str, ...]:
    """How docker is called: through ``sudo -n`` (never asking), against another engine than the default."""
    return (*(("sudo", "-n") if sudo else ()), "docker", *(("-H", host) if host else ()))


def version(docker: tuple[str, ...]) -> tuple[str, ...]:
    """Client and engine versions as JSON; fails where no engine answers."""
    return (*docker, "version", "--format", "{{json .}}")


def info(docker: tuple[str, ...]) -> tuple[str, ...]:
    """What the engine knows of itself, as JSON: data root, runtimes."""
    return (*docker, "info", "--format", "{{json .}}")


def inspect(docker: tuple[str, ...], container: str) -> tuple[str, ...]:
    """A container as a JSON list of one."""
    return (*docker, "inspect", "--type", "container", container)


def image(docker: tuple[str, ...], name: str) -> tuple[str, ...]:
    """An image as a JSON list of one."""
    return (*docker, "image", "inspect", name)


def execute(docker: tuple[str, ...], container: str, *argv: str) -> tuple[str, ...]:
    """A command in a running container, its standard input empty."""
    return (*docker, "exec", container, *argv)


def create(docker: tuple[str, ...], spec: ContainerSpec) -> tuple[str, ...]:
    """Make a container, without starting it; prints its id.

    Create and start are two commands: a start that fails leaves a known id to remove, and nothing else.
    """
    argv = [*docker, "create", "--pull", "never", "--name", spec.name]
    argv += ["--network", "host", "--init", "--restart", "always"]
    for host, container in spec.devices:
        argv += ["--device", f"{host}:{container}"]
    argv += ["--shm-size", str(spec.shm)]
    for cap in spec.caps:
        argv += ["--cap-add", cap]
    for option in spec.security:
        argv += ["--security-opt", option]
    for volume in spec.volumes:
        argv += ["--volume", volume]
    for name, value in spec.env:
        argv += ["--env", f"{name}={value}"]
    for name, value in spec.ulimits:
        argv += ["--ulimit", f"{name}={value}"]
    if spec.runtime:
        argv += ["--runtime", spec.runtime]
    argv += ["--stop-timeout", str(spec.stop_timeout), "--log-driver", "json-file"]
    for name, value in LOG_OPTIONS:
        argv += ["--log-opt", f"{name}={value}"]
    for name, value in spec.labels:
        argv += ["--label", f"{name}={value}"]
    entrypoint, *rest = spec.command
    return (*argv, "--entrypoint", entrypoint, spec.image, *rest)


def start(docker: tuple[str, ...], container: str) -> tuple[str, ...]:
    """Start a container that was made or has stopped."""
    return (*docker, "start", container)


def stop(docker: tuple[str, ...], container: str, seconds: int) -> tuple[str, ...]:
    """Stop a container: TERM, and KILL after ``seconds``."""
    return (*docker, "stop", "-t", str(seconds), container)


def remove(docker: tuple[str, ...], container: str) -> tuple[str, ...]:
    """Remove a stopped container and its anonymous volumes; never by force."""
    return (*docker, "rm", "-v", container)


def logs(docker: tuple[str, ...], container: str, lines: int) -> tuple[str, ...]:
    """The last lines of a container's own output."""
    return (*docker, "logs", "--tail", str(lines), container)


@dataclass(frozen=True)
class EngineProblem:
    """Why no engine answers: ``kind`` is missing, denied or down."""

    kind: str
    message: str


def engine_problem(rc: int, stdout: str, stderr: str, *, sudo: bool = False) -> EngineProblem | None:
    """What the reply to :func:`version` says: None when an engine answered."""
    said = stderr.strip() or stdout.strip()
    first = said.splitlines()[-1] if said else f"docker version ended with status {rc}"
    if rc == 0:
        try:
            known = json.loads(stdout[max(stdout.find("{"), 0) :])
        except ValueError:
            known = None
        if isinstance(known, dict) and known.get("Server"):
            return None
        return EngineProblem("down", first)
    low = said.lower()
    if sudo and ("password is required" in low or "sudoers" in low or "may not run" in low):
        return EngineProblem("denied", first)
    if "permission denied" in low:
        return EngineProblem("denied", first)
    if rc == 127 or "command not found" in low:
        return EngineProblem("missing", first)
    return EngineProblem("down", first)


@dataclass(frozen=True)
class Container:
    """A container as inspected. ``state`` is docker's word: created, running, paused, exited ..."""

    id: str
    name: str
    state: str
    image: str
    exit_code: int = 0
    error: str = ""
    #: id of the image it was made from; its tag may name another one by now
    image_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict)


def parse_inspect(stdout: str) -> Container | None:
    """The container of ``docker inspect``'s answer; None when it holds none."""
    try:
        found = json.loads(stdout[max(stdout.find("["), 0) :])
    except ValueError:
        return None
    if not isinstance(found, list) or not found or not isinstance(found[0], dict):
        return None
    raw: dict[str, Any] = found[0]
    state = raw.get("State") or {}
    config = raw.get("Config") or {}
    return Container(
        id=str(raw.get("Id", "")),
        name=str(raw.get("Name", "")).lstrip("/"),
        state=str(state.get("Status", "")),
        image=str(config.get("Image", "")),
        exit_code=int(state.get("ExitCode") or 0),
        error=str(state.get("Error") or ""),
        image_id=str(raw.get("Image") or ""),
        labels=config.get("Labels") or {},
        raw=raw,
    )


@dataclass(frozen=True)
class Image:
    """An image as inspected. ``env`` is what it sets itself; ``digests`` are those of its registries."""

    id: str
    env: Mapping[str, str] = field(default_factory=dict)
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    size: int = 0


def parse_image(stdout: str) -> Image | None:
    """The image of ``docker image inspect``'s answer; None when it holds none."""
    try:
        found = json.loads(stdout[max(stdout.find("["), 0) :])
    except ValueError:
        return None
    if not isinstance(found, list) or not found or not isinstance(found[0], dict):
        return None
    raw: dict[str, Any] = found[0]
    config = raw.get("Config") or {}
    return Image(
        id=str(raw.get("Id", "")),
        env=dict(str(item).partition("=")[::2] for item in config.get("Env") or ()),
        entrypoint=tuple(map(str, config.get("Entrypoint") or ())),
        command=tuple(map(str, config.get("Cmd") or ())),
        digests=tuple(map(str, raw.get("RepoDigests") or ())),
        size=int(raw.get("Size") or 0),
    )


def no_such_container(stderr: str) -> bool:
    """Whether docker says that there is no container of that name (the words differ by version)."""
    low = stderr.lower()
    return "no such container" in low or "no such object" in low
