"""From files, folders, programs and lists of hosts to an :class:`Inventory`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from klops.errors import Location, Mistake, SourceErrors
from klops.inventory.builder import Builder
from klops.inventory.fleet import Inventory
from klops.inventory.forms import Form, form_of
from klops.inventory.iniform import IniReader
from klops.inventory.scriptform import ProgramReader
from klops.inventory.sources import host_list, inventory_files, is_host_list
from klops.inventory.varfiles import VariableFiles
from klops.inventory.yamlform import YamlReader
from klops.yamlsource import BOM, Node, load_file, parse

_LINE_ENDS = re.compile(rb"\r\n|\r|\n")


def load(sources: Sequence[str]) -> Inventory:
    """Read inventory sources, the later ones stronger.

    Raises :class:`SourceErrors` with the mistakes of all files; settings are checked by
    :meth:`Inventory.check`.
    """
    builder = Builder()
    paths: list[Path] = []
    for source in sources:
        builder.file = ""
        if is_host_list(source):
            for name in builder.collect(partial(host_list, source)) or ():
                builder.hosts("ungrouped", name, {}, Location(f"-i {source}"))
            continue
        paths.append(Path(source))
        for path in builder.collect(partial(inventory_files, Path(source))) or ():
            builder.collect(partial(_file, builder, path))
    builder.finish()
    files = VariableFiles([path if path.is_dir() else path.parent for path in paths])
    # group_vars and host_vars are read now, so that their mistakes are told together with the others
    mistakes = [*builder.mistakes, *files.mistakes(builder.graph.groups, builder.graph.hosts)]
    if mistakes:
        raise SourceErrors(mistakes)
    return Inventory(builder.graph, files)


def _file(builder: Builder, path: Path) -> None:
    """Read one inventory file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SourceErrors([Mistake(Location(str(path)), f"cannot be read: {error.strerror}")]) from error
    form = form_of(path, data)
    builder.file = str(path)
    before = len(builder.mistakes)
    if form is Form.PROGRAM:
        builder.collect(ProgramReader(builder, path).read)
    elif form is Form.YAML:
        YamlReader(builder).read(builder.collect(partial(_tree, path, data, builder.mistakes)))
    else:
        builder.collect(lambda: IniReader(builder, str(path)).read(_lines(path, data)))
    if form is not Form.PROGRAM:
        builder.mistakes[before:] = _told(builder.mistakes[before:], path, data, form)


def _tree(path: Path, data: bytes, noted: list[Mistake]) -> Node | None:
    try:
        # not read again: a pipe, as of -i <(PROGRAM), gives its content once
        return parse(data.decode("utf-8"), str(path), noted)
    except UnicodeDecodeError:
        return load_file(path, noted)


def _told(mistakes: list[Mistake], path: Path, data: bytes, form: Form) -> list[Mistake]:
    """Mistakes of a file with what it was taken for, where its name doesn't say it."""
    if mistakes and data.startswith(b"#!"):
        text = "begins as a program does, isn't executable and is no inventory of another form"
        return [Mistake(Location(str(path), 1, 1), text, f"chmod +x {path}")]
    if path.suffix in (".ini", ".yml", ".yaml", ".json") and (form is Form.INI) is (path.suffix == ".ini"):
        return mistakes
    return [
        Mistake(found.location, f"{found.message}; the file is read as {form.value}", found.hint)
        for found in mistakes
    ]


def _lines(path: Path, data: bytes) -> list[str]:
    """Lines of an INI file; a comment may hold bytes that are no UTF-8, as in Ansible."""
    found: list[str] = []
    mistakes: list[Mistake] = []
    for number, line in enumerate(_LINE_ENDS.split(data.removeprefix(BOM.encode())), 1):
        try:
            found.append(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            found.append("")
            if not line.lstrip().startswith((b"#", b";")):
                column = len(line[: error.start].decode("utf-8")) + 1
                where = Location(str(path), number, column)
                mistakes.append(Mistake(where, "this is not UTF-8 text", "save the file as UTF-8"))
            continue
        if BOM in found[-1]:
            where = Location(str(path), number, found[-1].index(BOM) + 1)
            mistakes.append(Mistake(where, "a byte order mark in mid-file", "delete it"))
    if mistakes:
        raise SourceErrors(mistakes)
    return found
