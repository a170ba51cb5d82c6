"""What settings name on this machine, and whether it is there."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from klops.errors import TaskFailed
from klops.source.git.repository import find
from klops.yamlsource import nearest

if TYPE_CHECKING:
    from klops.inventory.settings import Settings
    from klops.inventory.validate import Checks, Problem


def look() -> Checks:
    """What finds the problems of settings; of hosts that share a repository git is asked once."""
    fault = cache(_fault)

    def problems(settings: Settings) -> Iterator[Problem]:
        if settings.source.repo is not None:
            found = fault(Path(settings.source.repo).expanduser().absolute())
            if found is not None:
                yield ("source", "repo"), f"klops.source.repo: {found.message}", found.hint
        for number, patch in enumerate(settings.stack.patches):
            for key, given in (("copy", patch.copy_from), ("diff", patch.diff)):
                if given is not None and not Path(given).is_file():
                    text = f"klops.stack.patches[{number}].{key}: there is no file {given}"
                    yield ("stack", "patches", number, key), text, _near(Path(given))

    return problems


def _fault(repo: Path) -> TaskFailed | None:
    try:
        find(repo)
    except TaskFailed as error:
        return error
    return None


def _near(path: Path) -> str:
    beside = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
    near = nearest(path.name, beside)
    return (
        f"did you mean {near}?"
        if near
        else "put it there, or correct the path: one that is relative starts at this file"
    )
