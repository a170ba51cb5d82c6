"""A readlink that answers too late, for races of those who find a link that a crash has left."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path


def put_readlink(folder: Path, link: Path, stale: str, fresh: str) -> None:
    """A ``readlink`` for ``PATH``: when it has read ``stale``, somebody makes the link anew, as ``fresh``."""
    where = shlex.quote(str(link))
    lines = [
        "#!/bin/sh",
        f'found=$({shutil.which("readlink")} "$@") || exit',
        'echo "$found"',
        f'[ "$1" = {where} ] && [ "$found" = {shlex.quote(stale)} ] || exit 0',
        f"rm {where} && ln -s {shlex.quote(fresh)} {where}",
    ]
    program = folder / "readlink"
    program.write_text("\n".join(lines) + "\n")
    program.chmod(0o755)
