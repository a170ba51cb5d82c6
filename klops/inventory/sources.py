"""What ``-i`` and ``$KLOPS_INVENTORY`` name: files, folders, or the hosts themselves."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from klops.errors import Location, Mistake, SourceErrors, UsageError

VARIABLE = "KLOPS_INVENTORY"
DEFAULT = "inventory"
#: what Ansible, too, passes over in a directory
_IGNORED = (".pyc", ".pyo", ".swp", ".bak", "~", ".rpm", ".md", ".txt", ".rst", ".orig", ".cfg", ".retry")
_NOT_INVENTORIES = ("group_vars", "host_vars", "vars_plugins")


def default_sources(cli: Sequence[str]) -> list[str]:
    """Where the inventory is: ``-i``, else ``$KLOPS_INVENTORY``, else ``./inventory``.

    The variable is a comma list of paths; with a comma at its end, as in ``host1,host2,``, it is a list of
    hosts, unless paths of those names are there.
    """
    if cli:
        return list(cli)
    value = os.environ.get(VARIABLE, "")
    if listed := [source for source in value.split(",") if source]:
        if value.rstrip().endswith(",") and not any(Path(source).exists() for source in listed):
            return [value]
        return listed
    if not Path(DEFAULT).exists():
        raise UsageError(
            "there is no inventory",
            hint=f"give -i FILE, set {VARIABLE}, or make a file or directory ./{DEFAULT}",
        )
    return [DEFAULT]


def is_host_list(source: str) -> bool:
    """Whether a source is a list of hosts: as in Ansible a comma makes it one, unless a path has it."""
    return "," in source and not Path(source).exists()


def host_list(source: str) -> list[str]:
    """The hosts of a list. Raises :class:`SourceErrors` when paths were meant, or nothing is named."""
    names = [part.strip() for part in source.split(",")]
    if paths := [name for name in names if name and Path(name).is_file()]:
        text = f"with a comma it is a list of hosts, and {paths[0]} is a file"
        raise SourceErrors([Mistake(Location(f"-i {source}"), text, "give -i once for each file")])
    if not any(names):
        raise SourceErrors([Mistake(Location(f"-i {source}"), "names no host", "write host1,host2,")])
    return [name for name in names if name]


def inventory_files(source: Path, above: tuple[Path, ...] = ()) -> list[Path]:
    """The inventory files of a source: of a directory in alphabetical order, without its variables.

    ``above`` are the directories it was found in.
    """
    if not source.exists():
        hint = "check the path; a list of hosts has a comma: -i host1,"
        raise SourceErrors([Mistake(Location(str(source)), "there is no such inventory", hint)])
    if not source.is_dir():
        return [source]
    here = source.resolve()
    if here in above:
        raise SourceErrors([Mistake(Location(str(source)), "a link to a folder above it", "delete it")])
    found: list[Path] = []
    for entry in sorted(source.iterdir(), key=lambda path: path.name):
        hidden = entry.name.startswith(".") or entry.name.endswith(_IGNORED)
        if hidden or entry.name in _NOT_INVENTORIES:
            continue
        if not entry.is_dir() and not entry.is_file():
            text = "neither a file nor a folder"
            raise SourceErrors([Mistake(Location(str(entry)), text, "delete it, or let its name end with ~")])
        found.extend(inventory_files(entry, (*above, here)))
    return found
