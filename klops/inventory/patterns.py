"""Ansible's host patterns, stricter in one thing: a name that nobody has is an error, not a warning.

``a:b`` and ``a,b`` are unions, ``:&`` intersects, ``:!`` takes away, ``*?`` are wildcards, ``~`` begins a
regular expression, ``group[0]``, ``group[-1]``, ``group[0:7]`` count within what the name stands for (both
ends included). klops adds ``host[01:08]``: it expands when no group or host is called ``host``.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence

from klops.errors import UsageError
from klops.inventory.model import Graph
from klops.inventory.ranges import expand
from klops.yamlsource import nearest

_SUBSCRIPT = re.compile(r"(?P<name>.+)\[(?:(?P<at>-?[0-9]+)|(?P<first>[0-9]+):(?P<last>[0-9]*))\]")
_RANGE = re.compile(r"\[[^\[\]:]*:[^\[\]]*\]")
_GLOB = re.compile(r"[*?\[]")


def select(graph: Graph, patterns: Sequence[str], limit: str | None = None) -> list[str]:
    """Names of hosts that ``patterns`` stand for, each once, within ``limit``.

    Raises :class:`UsageError` for an empty pattern, a name nobody has, and an empty outcome.
    """
    found = _union(graph, patterns)
    if limit is not None:
        within = set(_union(graph, [limit]))
        found = [host for host in found if host in within]
    if not found:
        shown = ",".join(patterns) + ("" if limit is None else f" limited to {limit}")
        raise UsageError(f"no host is left of {shown}", hint="klops inventory graph shows hosts and groups")
    return found


def split(pattern: str) -> list[str]:
    """The parts of a pattern, split at ``,`` and ``:`` outside of brackets.

    As in Ansible a colon in a regular expression can't be told from a union. Both may stand in one pattern;
    Ansible then takes the colons for parts of a name that nobody has.
    """
    return [part.strip() for part in re.split(r"[,:](?![^\[]*\])", pattern)]


def _union(graph: Graph, patterns: Sequence[str]) -> list[str]:
    # the name of a host may hold colons: it is an IPv6 address then
    parts = [
        part for pattern in patterns for part in ([pattern] if pattern in graph.hosts else split(pattern))
    ]
    if not parts or not all(part.lstrip("&!") for part in parts):
        raise UsageError("an empty host pattern stands for nothing", hint="name hosts or groups, or say all")
    plain = [part for part in parts if part[0] not in "&!"] or ["all"]
    found: dict[str, None] = {}
    for part in plain:
        found.update(dict.fromkeys(_one(graph, part)))
    for part in parts:
        if part[0] == "&":
            wanted = set(_one(graph, part[1:]))
            found = {host: None for host in found if host in wanted}
    for part in parts:
        if part[0] == "!":
            for host in _one(graph, part[1:]):
                found.pop(host, None)
    return list(found)


def _one(graph: Graph, pattern: str) -> list[str]:
    if pattern in graph.hosts:
        return [pattern]
    if pattern[0] == "~":
        return _matching(graph, pattern, _compiled(pattern))
    subscript = _SUBSCRIPT.fullmatch(pattern)
    name = subscript["name"] if subscript else pattern
    known = name in graph.groups or name in graph.hosts or (subscript and _GLOB.search(name))
    if not known and _RANGE.search(pattern):
        return _expanded(graph, pattern)
    hosts = _named(graph, name)
    if subscript is None:
        return hosts
    if subscript["at"] is not None:
        at = int(subscript["at"])
        chosen = hosts[at : at + 1] if at >= 0 else hosts[len(hosts) + at :][:1] if -at <= len(hosts) else []
    else:
        chosen = hosts[int(subscript["first"]) : int(subscript["last"]) + 1 if subscript["last"] else None]
    if not chosen:
        raise UsageError(
            f"{pattern}: {name} has {len(hosts)} hosts", hint="hosts count from 0, -1 is the last"
        )
    return chosen


def _expanded(graph: Graph, pattern: str) -> list[str]:
    try:
        names = expand(pattern)
    except ValueError as error:
        raise UsageError(f"{pattern}: {error}", hint="write host[01:08]") from None
    return [host for name in names for host in _named(graph, name)]


def _named(graph: Graph, pattern: str) -> list[str]:
    """Hosts of a group, a host, or what a wildcard matches."""
    if pattern == "*":
        pattern = "all"
    if pattern in graph.groups:
        return graph.members(pattern)
    if pattern in graph.hosts:
        return [pattern]
    if _GLOB.search(pattern):
        return _matching(graph, pattern, re.compile(fnmatch.translate(pattern)))
    near = nearest(pattern, [*graph.hosts, *graph.groups])
    hint = f"did you mean {near}?" if near else "klops inventory graph shows hosts and groups"
    raise UsageError(f"no host or group is called {pattern}", hint=hint)


def _matching(graph: Graph, pattern: str, matcher: re.Pattern[str]) -> list[str]:
    found: dict[str, None] = {}
    groups = [name for name in graph.groups if matcher.match(name)]
    for name in groups:
        found.update(dict.fromkeys(graph.members(name)))
    hosts = [name for name in graph.hosts if matcher.match(name)]
    found.update(dict.fromkeys(hosts))
    if not groups and not hosts:
        raise UsageError(
            f"{pattern} matches no host or group", hint="klops inventory graph shows hosts and groups"
        )
    return list(found)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern[1:])
    except re.error as error:
        raise UsageError(
            f"{pattern} is no regular expression: {error}", hint="see Python's re module"
        ) from None
