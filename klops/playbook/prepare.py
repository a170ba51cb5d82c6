"""What a run needs to know of its hosts before anything runs: variables, settings, secrets, connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from klops.errors import Mistake, SourceErrors, UsageError
from klops.playbook.selection import PlaySelection
from klops.secret import Redactor

if TYPE_CHECKING:
    from klops.inventory import Inventory
    from klops.inventory.connection import Connection
    from klops.inventory.settings import Settings


@dataclass(frozen=True)
class Prepared:
    """Settings and variables by play and host, connections by host."""

    settings: list[dict[str, Settings]] = field(default_factory=list)
    variables: list[dict[str, dict[str, Any]]] = field(default_factory=list)
    connections: dict[str, Connection] = field(default_factory=dict)


def prepare(
    plays: Sequence[PlaySelection], inventory: Inventory, extra: Mapping[str, Any], redactor: Redactor
) -> Prepared:
    """Look at all hosts of all plays; the redactor learns their secrets.

    Raises one :class:`SourceErrors` (or :class:`UsageError`) with all mistakes of all hosts.
    """
    found = Prepared()
    wrong = _Wrong()
    for selection in plays:
        settings: dict[str, Settings] = {}
        variables: dict[str, dict[str, Any]] = {}
        for host in selection.hosts:
            given: dict[str, Mapping[str, Any]] = {"play": selection.play.vars, "extra": extra}
            variables[host] = inventory.variables(host, **given)
            with wrong:
                connection = inventory.connection(host, **given)
                for secret in (connection.password, connection.become_password):
                    if secret is not None:
                        redactor.add(secret)
                found.connections.setdefault(host, connection)
            with wrong:
                settings[host] = inventory.settings(host, **given)
                settings[host].resolve_secrets(redactor)
        found.settings.append(settings)
        found.variables.append(variables)
    wrong.raise_all()
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
