"""Files of ``vars_files``: where they are, and the variables in them."""

from __future__ import annotations

from pathlib import Path

from klops.errors import SourceErrors
from klops.playbook.load.nodes import Mistakes, as_vars
from klops.playbook.localfiles import missing, places
from klops.yamlsource import Node, load_file

_FOLDER = "vars"


def find_vars_file(play_file: Path, paths: tuple[str, ...]) -> Path | None:
    """The first of ``paths`` (rendered) that is there, looked for as other local files are, in ``vars/``."""
    for path in paths:
        for place in places((play_file,), _FOLDER, path):
            if place.is_file():
                return place
    return None


def read_vars_file(file: Path) -> dict[str, Node]:
    """Variables with their places. Raises :class:`SourceErrors` with every mistake."""
    mistakes = Mistakes()
    found = as_vars(load_file(file, mistakes.found), mistakes, f"a file of variables such as {file.name}")
    if mistakes.found:
        raise SourceErrors(mistakes.found)
    return found


def not_found(play_file: Path, paths: tuple[str, ...]) -> tuple[str, str]:
    """What to say, and a hint, when none of ``paths`` is there."""
    error = missing((play_file,), _FOLDER, paths[0])
    others = f"; nor is there {', '.join(paths[1:])}" if len(paths) > 1 else ""
    return error.message + others, error.hint
