"""Files and folders of this machine that settings name. Whoever runs klops may have no way to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from klops.errors import TaskFailed


def place(given: Path) -> Path:
    """Where it is, from the root on. In the home of a user that this machine doesn't have it is nowhere, and
    stays as it is: whoever looks there is told.
    """
    try:
        return given.expanduser().absolute()
    except RuntimeError:
        return given


@contextmanager
def looking_at(path: Path, code: str = "") -> Iterator[None]:
    """What keeps a look at a path from being taken becomes a TaskFailed, with that code if there is one."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # the second is of Path.expanduser
        raise TaskFailed(
            f"{path} can't be looked at: {error}",
            hint="correct the path, or have whoever runs klops enter each folder of it",
            code=code,
        ) from error
