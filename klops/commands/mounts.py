"""Paths of a container as the host knows them, and the space below a path."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Mount:
    """A folder of the host that a container sees under ``inside``."""

    outside: str
    inside: str

    @classmethod
    def of(cls, volume: str) -> Mount:
        """From ``HOST:CONTAINER[:options]``."""
        outside, _, rest = volume.partition(":")
        return cls(posixpath.normpath(outside), posixpath.normpath(rest.partition(":")[0]))


def host_path(path: str, mounts: Sequence[Mount]) -> str | None:
    """Where ``path`` of the container lies on the host, by the longest mount over it; None if there is none.

    >>> host_path("/models/a", [Mount("/data", "/models")])
    '/data/a'
    """
    wanted = posixpath.normpath(path)
    covering = [m for m in mounts if wanted == m.inside or wanted.startswith(m.inside.rstrip("/") + "/")]
    if not covering:
        return None
    best = max(covering, key=lambda mount: len(mount.inside))
    return posixpath.normpath(posixpath.join(best.outside, posixpath.relpath(wanted, best.inside)))


def ancestors(path: str) -> tuple[str, ...]:
    """``path`` and everything above it, the deepest first."""
    current = posixpath.normpath(path)
    found = [current]
    while posixpath.dirname(current) != current:
        current = posixpath.dirname(current)
        found.append(current)
    return tuple(found)


@dataclass(frozen=True)
class Space:
    """What ``df`` says of one file system, in KiB."""

    available: int
    mount: str

    @property
    def gib(self) -> float:
        """Available, in GiB."""
        return self.available / 1024**2


def parse_df(text: str) -> Space | None:
    """The first row of ``df -Pk``.

    Asked for a path and all above it, df prints a row for each that exists, in order: the first row is that
    of the nearest one.
    """
    for line in text.splitlines()[1:]:
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[3].isdecimal():
            return Space(int(fields[3]), fields[5])
    return None
