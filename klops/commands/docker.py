"""Builders of docker command lines, and readers of what docker says when it can't."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from klops.commands.containerspec import LISTS_LABEL, MANAGED_LABEL, RUN_LABEL, SPEC_LABEL, ContainerSpec

#: Of the engine's own log of a container: its bounds, as the units have rotated logs of their own; and the
#: mark that klops made it. Labels a container also has from its image, which somebody may have committed from
#: a container of klops; the options of its log it has from nobody but its maker.
LOG_OPTIONS = (("labels", MANAGED_LABEL), ("max-file", "3"), ("max-size", "10m"))
#: Seconds that a container has to stop when it was made without saying how many.
STOP_TIMEOUT = 10


def prefix(host: str | None = None, *, sudo: bool = False) -> tuple[str, ...]:
    """How docker is called: through ``sudo -n`` (never asking), against another engine than the default."""
    return (*(("sudo", "-n") if sudo else ()), "docker", *(("-H", host) if host else ()))


def prefix_of(argv: Sequence[str]) -> tuple[str, ...]:
    """The part of a command line that :func:`prefix` makes; () when it doesn't call docker."""
    at = 2 if tuple(argv[:2]) == ("sudo", "-n") else 0
    if tuple(argv[at : at + 1]) != ("docker",):
        return ()
    return tuple(argv[: at + 3] if tuple(argv[at + 1 : at + 2]) == ("-H",) else argv[: at + 1])


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


def copy_in(docker: tuple[str, ...], source: str, container: str, path: str) -> tuple[str, ...]:
    """Copy a file of the host (``-``: a tar on standard input) to a path in a container, running or not."""
    return (*docker, "cp", source, f"{container}:{path}")


def create(
    docker: tuple[str, ...], spec: ContainerSpec, labels: Sequence[tuple[str, str]] = ()
) -> tuple[str, ...]:
    """Make a container, without starting it; prints its id. ``labels`` come beside those of the spec.

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
    for name, value in (*spec.labels, *labels):
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


def rename(docker: tuple[str, ...], container: str, name: str) -> tuple[str, ...]:
    """Give a container, running or not, another name."""
    return (*docker, "rename", container, name)


def restart_policy(docker: tuple[str, ...], container: str, policy: str) -> tuple[str, ...]:
    """Set when the engine starts a container by itself: ``no``, ``always``, ``on-failure:3`` ..."""
    return (*docker, "update", "--restart", policy, container)


def commit(docker: tuple[str, ...], container: str, image: str, like: Image | None = None) -> tuple[str, ...]:
    """Make an image of a container with what was written in it.

    Without the labels of klops, which would make every container of that image look like one of its own.
    ``like``: it runs what that image does, and not what the container ran; where that is nothing, a shell.
    """
    blank = " ".join(f"{label}=" for label in (MANAGED_LABEL, SPEC_LABEL, LISTS_LABEL, RUN_LABEL))
    changes = [f"LABEL {blank}"]
    if like is not None:
        # an empty list would leave the container's; with [""] docker takes the command as it is
        entrypoint = list(like.entrypoint) or [""]
        command = list(like.command) or ([] if like.entrypoint else ["/bin/sh"])
        changes += [f"ENTRYPOINT {json.dumps(entrypoint)}", f"CMD {json.dumps(command)}"]
    words = [word for change in changes for word in ("--change", change)]
    return (*docker, "commit", *words, container, image)


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

    @property
    def made(self) -> bool:
        """Whether klops made it."""
        options = ((self.raw.get("HostConfig") or {}).get("LogConfig") or {}).get("Config") or {}
        return self.labels.get(MANAGED_LABEL) == "1" and options.get("labels") == MANAGED_LABEL

    @property
    def startable(self) -> bool:
        """Whether ``docker start`` is all that it takes."""
        return self.state in ("created", "exited")

    @property
    def at_rest(self) -> bool:
        """Whether surely none of its processes lives: one that is paused still holds all its cards."""
        return self.startable or self.state == "dead"

    @property
    def up(self) -> bool:
        """Whether its processes live and work, or docker is about to start them again."""
        return self.state in ("running", "restarting")

    @property
    def restart(self) -> str:
        """Its restart policy as :func:`restart_policy` takes it."""
        policy = (self.raw.get("HostConfig") or {}).get("RestartPolicy") or {}
        name, most = str(policy.get("Name") or "no"), int(policy.get("MaximumRetryCount") or 0)
        return f"{name}:{most}" if name == "on-failure" and most else name

    @property
    def stop_timeout(self) -> int:
        """Seconds between TERM and KILL when it is stopped without saying how many."""
        given = (self.raw.get("Config") or {}).get("StopTimeout")
        return STOP_TIMEOUT if given is None else int(given)


def parse_inspect(stdout: str, wanted: str) -> Container | None:
    """The container of ``docker inspect``'s answer; None when it holds none of that name or (whole) id.

    Where nothing has the name docker takes it for the beginning of an id, and shows whatever has that.
    """
    try:
        found = json.loads(stdout[max(stdout.find("["), 0) :])
    except ValueError:
        return None
    if not isinstance(found, list) or not found or not isinstance(found[0], dict):
        return None
    raw: dict[str, Any] = found[0]
    state = raw.get("State") or {}
    config = raw.get("Config") or {}
    identity, name = str(raw.get("Id", "")), str(raw.get("Name", "")).lstrip("/")
    if wanted not in (identity, name):
        return None
    return Container(
        id=identity,
        name=name,
        state=str(state.get("Status", "")),
        image=str(config.get("Image", "")),
        exit_code=int(state.get("ExitCode") or 0),
        error=str(state.get("Error") or ""),
        image_id=str(raw.get("Image") or ""),
        labels=config.get("Labels") or {},
        raw=raw,
    )


#: How engines say that a name is taken, by the container of which id.
_TAKEN = re.compile(r"[Cc]onflict.*?is already in use by container \"?([0-9a-f]+)")
#: How they say that a device isn't there: when the container is made or, most of them, when it is started.
_NO_DEVICE = re.compile(r'adding custom device "([^"]+)": no such file or directory')


def name_taken_by(stderr: str) -> str:
    """Id of the container that has the name already, from what ``create`` or ``rename`` said; "" if none."""
    found = _TAKEN.search(stderr)
    return found.group(1) if found else ""


def missing_device(stderr: str) -> str:
    """The device that isn't on the host, from what ``create`` or ``start`` said; "" if that isn't why."""
    found = _NO_DEVICE.search(stderr)
    return found.group(1) if found else ""


def repository(image: str) -> str:
    """An image's name without its tag or digest: ``host:5000/a:1`` is ``host:5000/a``."""
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return head + slash + last.partition(":")[0]


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
    """Whether docker says that there is no container of that name (the words differ by version).

    One that several ids begin with is no name either.
    """
    low = stderr.lower()
    return any(words in low for words in ("no such container", "no such object", "with provided prefix"))


def no_engine(stderr: str) -> bool:
    """Whether the client says that it reaches no engine."""
    low = stderr.lower()
    return "cannot connect to the docker daemon" in low or "error during connect" in low
