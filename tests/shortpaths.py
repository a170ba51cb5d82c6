"""A folder with a short path: that of a Unix socket has at most 107 bytes, and folders of pytest are deep."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder below /tmp, removed with all that is left in it."""
    folder = Path(tempfile.mkdtemp(prefix="klops-", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
