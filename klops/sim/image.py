"""An image without a registry: empty folders, over which the machine's own userland is mounted read-only."""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from klops.sim.engine import Engine

REPOSITORY = "klops-rehearsal"
#: ``sbin`` is a real folder: ``docker run --init`` mounts its init there.
_FOLDERS = (
    "dev",
    "etc",
    "home",
    "mnt",
    "opt",
    "proc",
    "root",
    "run",
    "sbin",
    "srv",
    "sys",
    "usr",
    "var",
    "var/lib",
)
_OPEN_FOLDERS = ("tmp", "var/tmp")
#: On a machine with a merged /usr these are links into it; elsewhere they are folders, and mounted as well.
_USERLAND = ("bin", "lib", "lib32", "lib64", "libx32")


def skeleton(mark: str) -> bytes:
    """The tar of the base. ``mark`` makes it one of a kind, so that it can be removed with its rehearsal."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in (*_FOLDERS, *_OPEN_FOLDERS, *(n for n in _USERLAND if _is_folder(n))):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name in _OPEN_FOLDERS else 0o755
            tar.addfile(entry)
        for name in _USERLAND:
            if Path("/", name).is_symlink():
                entry = tarfile.TarInfo(name)
                entry.type, entry.linkname = tarfile.SYMTYPE, str(Path("/", name).readlink())
                tar.addfile(entry)
        content = mark.encode()
        entry = tarfile.TarInfo(".klops-rehearsal")
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def make(engine: Engine, mark: str) -> str:
    """Import the base; its name, ``klops-rehearsal:<digest>``."""
    data = skeleton(mark)
    name = f"{REPOSITORY}:{hashlib.sha256(data).hexdigest()[:12]}"
    engine.docker("import", "-", name, stdin=data)
    return name


def volumes(more: Sequence[str] = ()) -> list[str]:
    """What its containers must have mounted, read-only: userland, this Python, and ``more``."""
    python = Path(sys.executable).resolve()
    wanted = ["/usr", "/etc", *(f"/{n}" for n in _USERLAND if _is_folder(n))]
    wanted += [sys.prefix, sys.base_prefix, str(python.parent.parent), *more]
    found: list[str] = []
    for path in wanted:
        inside = any(path == other or path.startswith(other + "/") for other in found)
        if not inside and path != "/":
            found.append(path)
    return [f"{path}:{path}:ro" for path in found]


def _is_folder(name: str) -> bool:
    path = Path("/", name)
    return path.is_dir() and not path.is_symlink()
