"""``lookup``, ``query`` and ``q``: values from this machine for templates, with Ansible's names and meaning.

What a lookup gives is data and never a template; only the lookup ``template`` renders a text, its file's. No
lookup runs a program or asks the network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from klops.errors import KlopsError, TaskFailed
from klops.log import get_logger
from klops.playbook.template.lookups import files, lists, names
from klops.playbook.template.lookups.base import Context
from klops.playbook.template.pending import Pending
from klops.yamlsource import nearest

_ON_CONTROL = "run it as a task with delegate_to: localhost and register what it says"
_SECRETS = "write lookup('env', 'NAME') or give -e @FILE; under klops: a secret setting such as {env: NAME}"
_PREFIXES = ("", "ansible.builtin.", "ansible.legacy.")

#: name -> lookup: (context, terms, options) to the list of what it found
LOOKUPS: Mapping[str, Callable[..., list[Any]]] = {
    prefix + name: work
    for table in (files.LOOKUPS, lists.LOOKUPS, names.LOOKUPS)
    for name, work in table.items()
    for prefix in _PREFIXES
}
_REFUSED = {
    "pipe": f"lookups run no programs: {_ON_CONTROL} (command: ...)",
    "lines": f"lookups run no programs: {_ON_CONTROL} (command: ...), then use stdout_lines",
    "url": f"lookups don't ask the network: {_ON_CONTROL} (uri: ..., return_content: true)",
    "password": f"lookups write no files: {_SECRETS}",
    "unvault": _SECRETS,
    "config": "there is no ansible.cfg here",
    "csvfile": "use lookup('file', ...) with split, or keep the table in a vars file",
    "ini": "use lookup('file', ...) with regex_search, or keep the values in a vars file",
    "inventory_hostnames": "use groups, and the filters union and difference",
}


def unknown_lookup(name: str) -> str:
    """What to say of a lookup that isn't there."""
    bare = name.rpartition(".")[2]
    if bare in _REFUSED:
        return f"the lookup {bare} isn't there: {_REFUSED[bare]}"
    near = nearest(bare, LOOKUPS)
    return f"no lookup is called {name!r}" + (f": did you mean {near}?" if near else "")


class Lookups:
    """The functions for one scope. ``render`` renders the text of a template file."""

    def __init__(
        self, variables: Mapping[str, Any], beside: Sequence[Path], render: Callable[..., str]
    ) -> None:
        self._context = Context(variables, tuple(beside), render)

    @property
    def functions(self) -> Mapping[str, Callable[..., Any]]:
        """What templates call, by name."""
        return {"lookup": self._lookup, "query": self._query, "q": self._query}

    def _lookup(self, name: str, *terms: Any, wantlist: bool = False, **options: Any) -> Any:
        """What was found: the one thing, texts joined by commas, or else a list."""
        found = self._found(name, terms, options)
        if found is None:
            return [] if wantlist else None
        if wantlist or not found:
            return found
        if len(found) == 1:
            return found[0]
        return ",".join(found) if all(isinstance(item, str) for item in found) else found

    def _query(self, name: str, *terms: Any, wantlist: bool = True, **options: Any) -> Any:
        """What was found, always a list."""
        return self._lookup(name, *terms, wantlist=wantlist, **options)

    def _found(self, name: str, terms: Sequence[Any], options: dict[str, Any]) -> list[Any] | None:
        errors = options.pop("errors", "strict")
        if errors not in ("strict", "warn", "ignore"):
            raise TaskFailed(f"lookup: errors={errors!r} is none of strict, warn, ignore", code="template")
        work = LOOKUPS.get(name)
        if work is None:
            raise TaskFailed(unknown_lookup(str(name)), code="template")
        for value in (*terms, *options.values()):
            if isinstance(value, Pending):
                value.fail()
        try:
            return work(self._context, list(terms), options)
        except KlopsError as error:
            if errors == "strict":
                raise
            if errors == "warn":
                get_logger("klops.playbook").warning("lookup found nothing", lookup=name, error=error.message)
            return None
