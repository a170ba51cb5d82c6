"""What settings name on this machine, and whether it is there."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from klops.errors import TaskFailed
from klops.source.git.repository import find
from klops.source.here import looking_at, place
from klops.yamlsource import nearest

if TYPE_CHECKING:
    from klops.inventory.settings import Settings
    from klops.inventory.validate import Checks, Problem


def look() -> Checks:
    """What finds the problems of settings; of hosts that share a repository git is asked once."""
    fault = cache(_fault)

    def problems(settings: Settings) -> Iterator[Problem]:
        if settings.source.repo is not None:
            found = fault(place(Path(settings.source.repo)))
            if found is not None:
                yield ("source", "repo"), f"klops.source.repo: {found.message}", found.hint
        for number, patch in enumerate(settings.stack.patches):
            for key, given in (("copy", patch.copy_from), ("diff", patch.diff)):
                lacking = None if given is None else _lacking(Path(given))
                if lacking is not None:
                    text = f"klops.stack.patches[{number}].{key}: {lacking.message}"
                    yield ("stack", "patches", number, key), text, lacking.hint

    return problems


def _fault(repo: Path) -> TaskFailed | None:
    try:
        find(repo)
    except TaskFailed as error:
        return error
    return None


def _lacking(path: Path) -> TaskFailed | None:
    try:
        with looking_at(path):
            if path.is_file():
                return None
            beside = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
    except TaskFailed as error:
        return error
    near = nearest(path.name, beside)
    hint = (
        f"did you mean {near}?"
        if near
        else "put it there, or correct the path: one that is relative starts at this file"
    )
    return TaskFailed(f"there is no file {path}", hint=hint)
