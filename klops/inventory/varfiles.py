"""group_vars/ and host_vars/ beside the inventory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from klops.errors import Mistake, SourceErrors
from klops.inventory.model import Layer
from klops.yamlsource import MappingNode, load_file, mistakes_of

#: a name without an extension comes first: it may be a directory
_EXTENSIONS = ("", ".yml", ".yaml", ".json")


class VariableFiles:
    """Reads variables of groups and hosts from the directories beside each source; every file once."""

    def __init__(self, sources: Sequence[Path]) -> None:
        beside = (source if source.is_dir() else source.parent for source in sources)
        #: the directories that may hold group_vars and host_vars, the weakest first
        self.directories = list(dict.fromkeys(beside))
        self._read: dict[Path, list[Layer]] = {}

    def of_group(self, name: str) -> list[list[Layer]]:
        """Variables of a group for each directory, the stronger ones last."""
        return [self._layers(directory / "group_vars", name) for directory in self.directories]

    def of_host(self, name: str) -> list[list[Layer]]:
        """Variables of a host for each directory, the stronger ones last."""
        return [self._layers(directory / "host_vars", name) for directory in self.directories]

    def _layers(self, folder: Path, name: str) -> list[Layer]:
        if folder / name not in self._read:
            layers: list[Layer] = []

            def read(path: Path) -> None:
                layers.append(_layer(path))

            files = _files(folder, name)
            mistakes = [mistake for path in files for mistake in mistakes_of(partial(read, path))]
            if mistakes:
                raise SourceErrors(mistakes)
            self._read[folder / name] = layers
        return self._read[folder / name]


def _files(folder: Path, name: str) -> Iterator[Path]:
    for extension in _EXTENSIONS:
        path = folder / (name + extension)
        if path.is_dir():
            yield from _inside(path)
            return
        if path.exists():
            yield path
            return


def _inside(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.startswith(".") or path.name.endswith("~"):
            continue
        if path.is_dir():
            if not path.suffix:
                yield from _inside(path)
        elif path.suffix in _EXTENSIONS:
            yield path


def _layer(path: Path) -> Layer:
    node = load_file(path)
    if node is None:
        return {}
    if not isinstance(node, MappingNode):
        raise SourceErrors([Mistake(node.location, "a file of variables is a mapping", "write NAME: VALUE")])
    wrong = [key for key, _ in node.entries if not re.fullmatch(r"[A-Za-z_]\w*", key.text)]
    if wrong:
        hint = "use letters, digits and _"
        raise SourceErrors(
            [Mistake(key.location, f"{key.text!r} is no variable's name", hint) for key in wrong]
        )
    return {key.text: value for key, value in node.entries}
