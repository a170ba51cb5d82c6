"""What a run needs to know of its hosts before anything runs: variables, settings, secrets, connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from klops.errors import Mistake, SourceErrors, UsageError
from klops.playbook.load.varsfiles import find_vars_file, not_found, read_vars_file
from klops.playbook.plays.fleet import learn
from klops.playbook.plays.inventorytemplates import others, renderer
from klops.playbook.plays.selection import PlaySelection
from klops.playbook.template.scope import Layer
from klops.secret import Redactor
from klops.yamlsource import Node

if TYPE_CHECKING:
    from klops.inventory import Inventory
    from klops.inventory.connection import Connection
    from klops.inventory.settings import Settings
    from klops.playbook.model import Play


@dataclass(frozen=True)
class PreparedPlay:
    """A play with the settings and the variables of its hosts, templates in the variables not rendered."""

    selection: PlaySelection
    settings: Mapping[str, Settings]
    variables: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Prepared:
    """All plays, and connections by host."""

    plays: list[PreparedPlay] = field(default_factory=list)
    connections: dict[str, Connection] = field(default_factory=dict)


def prepare(
    plays: Sequence[PlaySelection], inventory: Inventory, extra: Mapping[str, Any], redactor: Redactor
) -> Prepared:
    """Look at all hosts of all plays; the redactor learns their secrets.

    Raises one :class:`SourceErrors` (or :class:`UsageError`) with all mistakes of all hosts.
    """
    found = Prepared()
    wrong = _Wrong()
    files = _VarsFiles(wrong)
    beside: dict[Path, Inventory] = {}
    around: dict[Path, Layer] = {}
    for selection in plays:
        settings: dict[str, Settings] = {}
        variables: dict[str, dict[str, Any]] = {}
        folder = selection.play.file.parent
        if folder not in beside:
            beside[folder] = inventory
            with wrong:
                beside[folder] = inventory.beside(folder)
        own = beside[folder]
        if folder not in around:
            around[folder] = others(own, extra)
        for host in selection.hosts:
            given: dict[str, Mapping[str, Any]] = {"play": selection.play.vars, "extra": extra}
            if selection.play.vars_files:
                render = renderer(own.variables(host, **given), around[folder])
                given["play"] = {**selection.play.vars, **files.of(selection.play, render)}
            variables[host] = own.variables(host, **given)
            render = renderer(variables[host], around[folder])
            with wrong:
                connection = own.connection(host, **given, render=render)
                learn(connection, redactor)
                found.connections.setdefault(host, connection)
            with wrong:
                settings[host] = own.settings(host, **given, render=render)
                settings[host].resolve_secrets(redactor)
        found.plays.append(PreparedPlay(selection, settings, variables))
    wrong.raise_all()
    return found


class _VarsFiles:
    """Files of ``vars_files``; each is read once."""

    def __init__(self, wrong: _Wrong) -> None:
        self._wrong = wrong
        self._read: dict[Path, Mapping[str, Node]] = {}

    def of(self, play: Play, render: Callable[[str], Any]) -> dict[str, Node]:
        """The variables that the files give to one host; of one name the last file's counts."""
        found: dict[str, Node] = {}
        for entry in play.vars_files:
            with self._wrong:
                try:
                    paths = tuple(str(render(path)) for path in entry.paths)
                except UsageError as error:
                    text = f"vars_files: {error.message}"
                    raise SourceErrors([Mistake(entry.location, text, error.hint)]) from error
                file = find_vars_file(play.file, paths)
                if file is None:
                    raise SourceErrors([Mistake(entry.location, *not_found(play.file, paths))])
                if file not in self._read:
                    # a file with mistakes has told them when it is asked for again
                    self._read[file] = {}
                    self._read[file] = read_vars_file(file)
                found |= self._read[file]
        return found


class _Wrong:
    """Takes usage errors down instead of letting them pass, to raise them together."""

    def __init__(self) -> None:
        self._mistakes: dict[Mistake, None] = {}
        self._others: dict[str, UsageError] = {}

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, SourceErrors):
            self._mistakes.update(dict.fromkeys(error.mistakes))
        elif isinstance(error, UsageError):
            self._others[error.message] = error
        return isinstance(error, UsageError)

    def raise_all(self) -> None:
        """Raise what was taken down, mistakes with a place first."""
        if self._mistakes:
            raise SourceErrors(list(self._mistakes))
        if self._others:
            first = next(iter(self._others.values()))
            raise first if len(self._others) == 1 else UsageError("\n".join(self._others), hint=first.hint)
