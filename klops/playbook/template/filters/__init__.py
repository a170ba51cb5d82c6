"""Filters and tests of templates beyond Jinja2's own, with the names and the meaning they have in Ansible.

All are pure: they read no file, run no program and never take data for a template. Only the tests of
:mod:`.paths` look at this machine, at whether a path is there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from klops.playbook.template.filters import (
    dates,
    dicts,
    digests,
    formats,
    lists,
    numbers,
    paths,
    results,
    texts,
    values,
    versions,
)
from klops.playbook.template.filters.refused import REFUSED_FILTERS, REFUSED_TESTS
from klops.playbook.template.pending import Pending
from klops.yamlsource import nearest

_PREFIXES = ("", "ansible.builtin.", "ansible.legacy.")


def settled(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` for values that are there: one that isn't known yet raises NotKnown."""

    @functools.wraps(function)
    def work(*args: Any, **options: Any) -> Any:
        for value in (*args, *options.values()):
            if isinstance(value, Pending):
                value.fail()
        return function(*args, **options)

    return work


def _named(tables: Iterable[Mapping[str, Callable[..., Any]]]) -> dict[str, Callable[..., Any]]:
    return {
        prefix + name: function
        for table in tables
        for name, function in table.items()
        for prefix in _PREFIXES
    }


_TOPICS = (dates, dicts, digests, formats, lists, numbers, paths, texts, values)
FILTERS: Mapping[str, Callable[..., Any]] = _named(
    {name: settled(function) for name, function in topic.FILTERS.items()} for topic in _TOPICS
)
TESTS: Mapping[str, Callable[..., bool]] = _named(
    [
        # these ask of a result only what is certain of it
        results.TESTS,
        *(
            {name: settled(function) for name, function in topic.TESTS.items()}
            for topic in (lists, numbers, paths, texts, values, versions)
        ),
    ]
)


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """What to say of the name of a ``filter`` or ``test`` that isn't there."""
    bare = name.rpartition(".")[2]
    instead = (REFUSED_FILTERS if kind == "filter" else REFUSED_TESTS).get(bare)
    if instead:
        return f"the {kind} {name} isn't there: {instead}"
    near = nearest(bare, known)
    return f"no {kind} is called {name!r}" + (f": did you mean {near}?" if near else "")
