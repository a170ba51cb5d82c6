"""In which form an inventory file is written: told from its name and its content, never by trial and error.

Ansible tries one reader after the other and takes the first that doesn't fail. Here one form is chosen, so
that a mistake in a file is told as a mistake of that form. The choice is the one Ansible ends at, but for
this: a file called ``.yml`` that is neither YAML groups nor begins with an INI section is a wrong YAML file.
"""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path

from klops.errors import Location, Mistake, SourceErrors
from klops.inventory.iniform import is_section
from klops.yamlsource import BOM, MappingNode, parse

_YAML = (".yml", ".yaml", ".json")


class Form(Enum):
    """A form of inventory file."""

    YAML = "YAML"
    INI = "INI"
    PROGRAM = "a program"


def form_of(path: Path, data: bytes) -> Form:
    """The form of a file. Raises :class:`SourceErrors` for one that can't be read at all."""
    program = data.startswith(b"#!") or b"\0" in data[:1024]
    if program and os.name == "nt":
        hint = "run it elsewhere and keep what it prints as a .json file"
        raise _refused(path, "executable inventories are not supported on Windows", hint)
    # the bit alone says nothing on file systems that have no other mode
    if program and os.access(path, os.X_OK):
        return Form.PROGRAM
    if b"\0" in data[:1024]:
        raise _refused(path, "neither text nor an executable program", "")
    if path.suffix == ".toml":
        raise _refused(path, "TOML inventories are not supported", "write it as YAML or INI")
    if path.suffix and path.suffix not in _YAML:
        return Form.INI
    if path.suffix == ".json":
        return Form.YAML
    text = data.decode("utf-8", "replace").removeprefix(BOM)
    lines = [line.strip() for line in text.splitlines()]
    first = next((line for line in lines if line and not line.startswith(("#", ";"))), "")
    if is_section(first):
        return Form.INI
    if path.suffix or not first or first.startswith(("---", "%", "{")) or first.endswith(":"):
        return Form.YAML
    try:
        return Form.YAML if isinstance(parse(text, str(path)), MappingNode) else Form.INI
    except SourceErrors:
        return Form.INI


def _refused(path: Path, message: str, hint: str) -> SourceErrors:
    return SourceErrors([Mistake(Location(str(path)), message, hint)])
