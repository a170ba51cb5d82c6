"""group_vars/ and host_vars/ of folders: those beside the inventory, and the one beside a playbook."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from klops.errors import Mistake, SourceErrors
from klops.inventory.model import Layer
from klops.yamlsource import INSTEAD_OF_VAULT, MappingNode, Node, ScalarNode, load_file, mistakes_of

#: a name without an extension comes first: it may be a directory
_EXTENSIONS = ("", ".yml", ".yaml", ".json")


class VariableFiles:
    """Reads variables of groups and hosts from group_vars and host_vars of folders; every file once."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """``folders`` may hold group_vars and host_vars, the weakest first."""
        different = dict.fromkeys(folders)
        self._groups = [_Folder(folder / "group_vars") for folder in different]
        self._hosts = [_Folder(folder / "host_vars") for folder in different]

    def of_group(self, name: str) -> list[Sequence[Layer]]:
        """Variables of a group for each folder, the stronger ones last."""
        return [folder.layers(name) for folder in self._groups]

    def of_host(self, name: str) -> list[Sequence[Layer]]:
        """Variables of a host for each folder, the stronger ones last."""
        return [folder.layers(name) for folder in self._hosts]

    def mistakes(self, groups: Iterable[str], hosts: Iterable[str]) -> list[Mistake]:
        """Read the variables of all groups and hosts, and tell what is wrong in them."""
        found = [mistake for name in groups for mistake in mistakes_of(partial(self.of_group, name))]
        return found + [mistake for name in hosts for mistake in mistakes_of(partial(self.of_host, name))]


class _Folder:
    """One group_vars or host_vars. It is looked at once: a fleet has more hosts than files."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names = frozenset(entry.name for entry in (path.iterdir() if path.is_dir() else ()))
        self._read: dict[str, Sequence[Layer]] = {}

    def layers(self, name: str) -> Sequence[Layer]:
        """Variables under a name, of all files that it stands for."""
        if not self._names:
            return ()
        found = self._read.get(name)
        if found is None:
            written = (name + extension for extension in _EXTENSIONS)
            entry = next((entry for entry in written if entry in self._names), None)
            found = self._read[name] = () if entry is None else _layers(self._path / entry)
        return found


def _layers(path: Path) -> list[Layer]:
    layers: list[Layer] = []

    def read(file: Path) -> None:
        layers.append(_layer(file))

    files = _inside(path) if path.is_dir() else (path,)
    mistakes = [mistake for file in files for mistake in mistakes_of(partial(read, file))]
    if mistakes:
        raise SourceErrors(mistakes)
    return layers


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
    noted: list[Mistake] = []
    node = load_file(path, noted)
    noted += _wrong(node)
    if noted:
        raise SourceErrors(noted)
    return {key.text: value for key, value in node.entries} if isinstance(node, MappingNode) else {}


def _wrong(node: Node | None) -> Iterator[Mistake]:
    """What is wrong with a file of variables as a whole, and with their names."""
    if node is None:
        return
    if isinstance(node, ScalarNode) and node.text.startswith("$ANSIBLE_VAULT"):
        text = "the file is encrypted with ansible-vault, which isn't supported"
        yield Mistake(node.location, text, INSTEAD_OF_VAULT)
    elif not isinstance(node, MappingNode):
        yield Mistake(node.location, "a file of variables is a mapping", "write NAME: VALUE")
    else:
        for key, _ in node.entries:
            if not re.fullmatch(r"[A-Za-z_]\w*", key.text):
                text = f"{key.text!r} is no variable's name"
                yield Mistake(key.location, text, "use letters, digits and _")
