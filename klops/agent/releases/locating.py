"""Which file a package would be imported from: asked of the container's Python, as it is outside of klops.

Nothing of the package is run: its place is looked up as an import would do it.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from typing import Any, Mapping, Sequence

from klops.agent.errors import VerbError
from klops.agent.packages import sites

#: Seconds for Python to start: what an image has in its site-packages may do a lot then.
_PATIENCE = 120.0
_ASK = """
import json, os, sys, sysconfig, types
def find(name):
    path, spec = None, None
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        full = ".".join(parts[:end])
        for finder in sys.meta_path:
            look = getattr(finder, "find_spec", None)
            spec = look(full, path) if look else None
            if spec is not None:
                break
        if spec is None:
            return None
        path = spec.submodule_search_locations
        if end < len(parts):
            # what is below it may ask for its path, and it is never imported
            above = types.ModuleType(full)
            above.__path__ = path
            sys.modules.setdefault(full, above)
    if spec.has_location and spec.origin:
        return spec.origin
    return (list(path or ()) + [None])[0]
told = {"stdlib": sysconfig.get_paths()["stdlib"], "found": {name: find(name) for name in sys.argv[1:]}}
sys.stdout.flush()
os.write(1, b"\\n" + json.dumps(told).encode("ascii") + b"\\n")
os._exit(0)  # nothing that an image has done at the end speaks after it
"""


def ask(packages: Sequence[str], first: Sequence[str]) -> Mapping[str, Any]:
    """``{stdlib, found: {package: file, or folder of one without __init__, or None}}``.

    ``first`` come before those that PYTHONPATH has, as they do for a unit. Raises :class:`VerbError`.
    """
    import subprocess  # most releases ask nothing

    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    path = [*first, *([env["PYTHONPATH"]] if env.get("PYTHONPATH") else [])]
    if path:
        env["PYTHONPATH"] = ":".join(path)
    try:
        done = subprocess.run(
            [sys.executable, "-c", _ASK, *packages],
            env=env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _silent(f"said nothing within {_PATIENCE:g} s") from error
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise _silent(f"ended with status {done.returncode}: {said[-1] if said else 'it said nothing'}")
    try:
        told: Mapping[str, Any] = json.loads(lines[-1])
    except ValueError as error:
        raise _silent(f"said {lines[-1].decode('utf-8', 'replace')!r} last") from error
    return told


@functools.lru_cache(maxsize=None)
def folders() -> Sequence[str]:
    """Where packages are installed, the one to install to first. Raises :class:`VerbError`."""
    site = sites.ask(sys.executable)
    others = [one for one in site.path if one.endswith(("/site-packages", "/dist-packages"))]
    return list(dict.fromkeys([site.purelib, site.platlib, *others]))


def _silent(why: str) -> VerbError:
    return VerbError(
        "no-answer",
        f"{sys.executable} was asked what it imports, and {why}",
        "container.python names the interpreter that vllm is installed with; try it by hand",
    )
