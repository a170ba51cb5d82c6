"""What the ranks of a diagnosis find on a rehearsal host: a stand-in torch, or faults around a real one."""

from __future__ import annotations

import compileall
import shutil
from pathlib import Path

_HERE = Path(__file__).parent


def write(folder: Path, *, real: bool) -> None:
    """Fill the folder that is to be on PYTHONPATH there.

    rankfaults.py, and beside it the stand-in ``torch``, or for a ``real`` one a sitecustomize.py.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(_HERE / "rankfaults.py", folder)
    if real:
        shutil.copy(_HERE / "torch_real" / "sitecustomize.py", folder)
    else:
        bare = shutil.ignore_patterns("__pycache__")
        shutil.copytree(_HERE / "torch_standin" / "torch", folder / "torch", ignore=bare)
    # mounted read-only there: else every rank would compile it anew
    compileall.compile_dir(folder, quiet=1)
