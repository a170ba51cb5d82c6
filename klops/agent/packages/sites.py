"""Where the container's Python has its distributions."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, NamedTuple

from klops.agent.errors import VerbError

#: Asked of the interpreter as it usually runs: the agent's own runs without ``site`` and doesn't know them.
#: What a .pth file prints comes before; what it has printed at the end doesn't come.
_QUESTION = """
import json, os, sys, sysconfig
paths = sysconfig.get_paths()
where = [paths[name] for name in ("purelib", "platlib", "data", "scripts")]
print("\\n" + json.dumps([sys.path, *where]), flush=True)
os._exit(0)
"""
#: Seconds for an interpreter to start, on a host at its limit.
_PATIENCE = 60.0


class Site(NamedTuple):
    """Folders, absolute. ``path``: all that distributions are looked for in, in that order; installers write
    to ``purelib`` and ``platlib`` (mostly the same) and ``scripts``, below ``prefix`` at any rate."""

    python: str
    path: tuple[str, ...]
    purelib: str
    platlib: str
    prefix: str
    scripts: str


def ask(python: str = sys.executable) -> Site:
    """The folders of an interpreter. Raises :class:`VerbError`."""
    import subprocess  # it loads much, and most who know of sites ask for none

    argv = [python, "-I", "-B", "-c", _QUESTION]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False, cwd="/"
        )
        answer: list[Any] = json.loads(done.stdout.decode("utf-8", "replace").strip().rpartition("\n")[2])
        path, purelib, platlib, prefix, scripts = answer
    except subprocess.TimeoutExpired as error:
        raise _unusable(python, f"said nothing within {_PATIENCE:g} s") from error
    except ValueError as error:
        said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise _unusable(python, said or "did not say where its packages are") from error
    folders = dict.fromkeys([purelib, platlib, *(folder for folder in path if os.path.isdir(folder))])
    return Site(python, tuple(folders), purelib, platlib, prefix, scripts)


def _unusable(python: str, why: str) -> VerbError:
    return VerbError("python-unusable", f"{python}: {why}", "see klops.container.python")


def below(path: str, folder: str) -> bool:
    """Whether an absolute path is a folder or lies below it, as both are written."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def relative(site: Site, file: str) -> str:
    """A file as patches name it: relative to site-packages. Raises :class:`VerbError` for one outside."""
    for folder in (site.purelib, site.platlib):
        path = os.path.normpath(os.path.join(folder, file))
        if below(path, folder) and path != folder:
            return path[len(folder.rstrip("/")) + 1 :]
    raise VerbError(
        "unsafe-path", f"{file!r} is not below {site.purelib}", "name it relative to site-packages: vllm/x.py"
    )


def absolute(site: Site, file: str) -> str:
    """Where a file of a patch lies: in platlib when it is only there, else in purelib."""
    path = os.path.join(site.purelib, file)
    if site.platlib != site.purelib and not os.path.lexists(path):
        other = os.path.join(site.platlib, file)
        return other if os.path.lexists(other) else path
    return path
