"""Docker command lines for images, and readers of what docker says while one comes. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from klops.commands.containerspec import ContainerSpec

_LAYER = re.compile(r"^([0-9a-f]{12}): (.+)$")
_LOADED = re.compile(r"^Loaded image(?: ID)?: (.+)$")
_ADVICE = re.compile(r"^(Run|See) 'docker .*--help'")
#: Words of a layer that is on the host, packed or not; the rest is on its way.
_FETCHED = ("verifying", "download complete", "extracting")
_THERE = ("pull complete", "already exists")

#: Kinds of trouble with a pull by what docker says, the surest words first: a registry that asks for a login
#: and one that doesn't know the name answer in much the same words.
_PULL_TROUBLE = (
    ("space", ("no space left on device",)),
    ("engine", ("cannot connect to the docker daemon", "is the docker daemon running")),
    ("denied", ("unauthorized", "no basic auth credentials", "authentication required")),
    ("denied-or-missing", ("pull access denied", "denied: ", "403 forbidden")),
    ("missing", ("manifest unknown", "manifest for", "name unknown", ": not found")),
    (
        "unreachable",
        (
            "connection refused",
            "connection reset",
            "no such host",
            "no route to host",
            "network is unreachable",
            "i/o timeout",
            "handshake timeout",
            "deadline exceeded",
            "request canceled",
            "certificate",
            "gave http response to https client",
            "temporary failure in name resolution",
            "server misbehaving",
            "proxyconnect",
            ": eof",
            "unexpected eof",
        ),
    ),
)


def pull(docker: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Fetch an image from its registry."""
    return (*docker, "pull", name)


def load(docker: tuple[str, ...]) -> tuple[str, ...]:
    """Load the images of the archive on standard input."""
    return (*docker, "load")


def try_out(docker: tuple[str, ...], spec: ContainerSpec, name: str, *args: str) -> tuple[str, ...]:
    """Run the program of a container to be made with other arguments, and leave nothing behind.

    In a container of the same image, volumes and environment, without cards and network.
    """
    argv = [*docker, "run", "--rm", "--pull", "never", "--name", name, "--network", "none"]
    for option in spec.security:
        argv += ["--security-opt", option]
    for volume in spec.volumes:
        argv += ["--volume", volume]
    for variable, value in spec.env:
        argv += ["--env", f"{variable}={value}"]
    return (*argv, "--entrypoint", spec.command[0], spec.image, *args)


def registry(name: str) -> str:
    """The registry that an image's name means: docker.io unless its first part is a host.

    >>> registry("127.0.0.1:5000/team/vllm:1"), registry("team/vllm:1")
    ('127.0.0.1:5000', 'docker.io')
    """
    first, slash, _ = name.partition("/")
    is_host = slash and ("." in first or ":" in first or first == "localhost")
    return first if is_host else "docker.io"


def by_content(name: str) -> bool:
    """Whether an image's name says which content it is: such a name never moves to another."""
    return "@" in name or name.startswith("sha256:")


@dataclass
class Layers:
    """The layers of a pull, as docker's lines tell of them when it writes to no terminal."""

    _words: dict[str, str] = field(default_factory=dict)

    def feed(self, line: str) -> bool:
        """Take a line; whether it was about a layer."""
        found = _LAYER.match(line.strip())
        if not found:
            return False
        self._words[found.group(1)] = found.group(2).lower()
        return True

    @property
    def total(self) -> int:
        """Layers that docker has named."""
        return len(self._words)

    @property
    def there(self) -> int:
        """Those that are unpacked on the host."""
        return sum(word.startswith(_THERE) for word in self._words.values())

    @property
    def fetched(self) -> int:
        """Those that need nothing more from the registry."""
        return self.there + sum(word.startswith(_FETCHED) for word in self._words.values())

    @property
    def percent(self) -> float | None:
        """Half of the way is to fetch a layer, half to unpack it; None while docker has named none."""
        return 50.0 * (self.fetched + self.there) / self.total if self.total else None


def loaded(output: str) -> list[str]:
    """Names, or ids where they had none, of the images that docker says it loaded."""
    found = (_LOADED.match(line.strip()) for line in output.splitlines())
    return [match.group(1) for match in found if match]


def said(text: str) -> str:
    """The line of docker's error that tells most: the last one but for its advice to read its manual."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if not _ADVICE.match(line)]
    return telling[-1] if telling else ""


def pull_trouble(text: str) -> str:
    """What went wrong with a pull: space, engine, denied, denied-or-missing, missing, unreachable, or ""."""
    low = text.lower()
    for kind, words in _PULL_TROUBLE:
        if any(word in low for word in words):
            return kind
    return ""
