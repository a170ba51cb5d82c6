"""Compiled modules beside the package, made by verbs that may write, used by all.

A zip of sources is compiled anew at every start, which costs more than everything else a short verb does.
"""

from __future__ import annotations

import marshal
import os
import shutil
import sys
import zipfile
from importlib.util import MAGIC_NUMBER

#: Flags, time and size of a source: not looked at in a module without one.
_NO_SOURCE = b"\0" * 12


def folder(package: str) -> str:
    """Where the modules of a package lie for this version of Python."""
    return f"{package[: -len('.pyz')]}.cache-{sys.implementation.cache_tag}"


def write(package: str) -> None:
    """Compile all modules, beside their place, then renamed. Does nothing when they are there already."""
    target = folder(package)
    if not package.endswith(".pyz") or os.path.isdir(target):
        return
    beside = f"{target}.{os.getpid()}.new"
    umask = os.umask(0o022)
    try:
        _compile(package, beside)
        os.rename(beside, target)
        _clear(target)
    except OSError as error:
        shutil.rmtree(beside, ignore_errors=True)
        if not os.path.isdir(target):  # else another was faster
            sys.stderr.write(f"klops: no compiled modules beside {package}, so verbs are slower: {error}\n")
    finally:
        os.umask(umask)


def _clear(target: str) -> None:
    """Remove what others have begun: of one that was killed, as with its container, nobody else does.

    One that lives still fails at it, finds the place taken, and is content.
    """
    parent, name = os.path.split(target)
    for entry in os.listdir(parent):
        if entry.startswith(name + ".") and entry.endswith(".new"):
            shutil.rmtree(os.path.join(parent, entry), ignore_errors=True)


def _compile(package: str, into: str) -> None:
    with zipfile.ZipFile(package) as archive:
        for name in archive.namelist():
            if name.startswith("klops/"):
                path = os.path.join(into, name[:-3] + ".pyc")
                os.makedirs(os.path.dirname(path), exist_ok=True)
                code = compile(archive.read(name), f"{package}/{name}", "exec", dont_inherit=True)
                with open(path, "wb") as file:
                    file.write(MAGIC_NUMBER + _NO_SOURCE + marshal.dumps(code))
