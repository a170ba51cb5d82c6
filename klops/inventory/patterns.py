"""Ansible's host patterns, stricter where Ansible only warns: a name that nobody has, and an empty outcome.

``a:b`` and ``a,b`` are unions, ``:&`` intersects, ``:!`` takes away, ``*?[]`` are wildcards, ``~`` begins a
regular expression, ``group[0]``, ``group[-1]``, ``group[0:7]`` count within what the name stands for (both
ends included). ``localhost`` is there without an inventory. klops adds ``host[01:08]``: it expands when no
group or host is called ``host``.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence

from klops.errors import UsageError
from klops.inventory.implicit import implicit
from klops.inventory.model import Graph
from klops.inventory.ranges import expand
from klops.userfolders import expanded
from klops.yamlsource import nearest

_SUBSCRIPT = re.compile(r"(?P<name>.+)\[(?:(?P<at>-?[0-9]+)|(?P<first>[0-9]+):(?P<last>[0-9]*))\]")
#: a form that Ansible gave up, and still takes with a warning
_OLD_SUBSCRIPT = re.compile(r".+\[[0-9]+-[0-9]*\]")
_RANGE = re.compile(r"\[[^\[\]:]*:[^\[\]]*\]")
_GLOB = re.compile(r"[*?\[]")


def select(graph: Graph, patterns: Sequence[str], limit: str | None = None) -> list[str]:
    """Names of hosts that ``patterns`` stand for, each once, within ``limit``.

    Raises :class:`UsageError` for an empty pattern, a name nobody has, and an empty outcome.
    """
    found = _union(graph, patterns)
    if limit is not None:
        within = set(limited(graph, limit))
        found = [host for host in found if host in within]
    if not found:
        shown = ",".join(patterns) + ("" if limit is None else f" limited to {limit}")
        raise UsageError(f"no host is left of {shown}", hint="klops inventory graph shows hosts and groups")
    return found


def limited(graph: Graph, limit: str) -> list[str]:
    """Names of hosts that a ``--limit`` stands for; ``@FILE`` in it stands for the lines of that file.

    Raises :class:`UsageError` as :func:`select`, and for a file that can't be read or has no lines.
    """
    patterns: list[str] = []
    for part in _comma_list(limit):
        patterns.extend(_lines(part[1:]) if part.startswith("@") else [part])
    return _union(graph, patterns)


def split(graph: Graph, pattern: str) -> list[str]:
    """The parts of a pattern, split at ``,``, ``:`` and blanks outside of brackets.

    The name of a host may hold colons: it is an IPv6 address then. As in Ansible a colon in a regular
    expression can't be told from a union. Commas and colons may stand in one pattern; Ansible then takes the
    colons for parts of a name that nobody has.
    """
    parts: list[str] = []
    for part in _comma_list(pattern):
        if part.lstrip("&!") in graph.hosts or implicit(graph, part.lstrip("&!")):
            parts.append(part)
        else:
            # a blank beside a colon is no separator of its own
            parts.extend(re.split(r"\s*:\s*(?![^\[]*\])|\s+(?![^\[]*\])", part))
    return parts


def _comma_list(pattern: str) -> list[str]:
    return [part.strip() for part in re.split(r",(?![^\[]*\])", pattern)]


def _lines(name: str) -> list[str]:
    path = expanded(name)
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UsageError(f"the limit file {name} cannot be read: {reason}", hint="check its path") from None
    if found := [line for line in lines if line]:
        return found
    raise UsageError(f"the limit file {name} is empty", hint="write one pattern in each line")


def _union(graph: Graph, patterns: Sequence[str]) -> list[str]:
    parts = [part for pattern in patterns for part in split(graph, pattern)]
    if not parts or not all(part.lstrip("&!") for part in parts):
        raise UsageError("an empty host pattern stands for nothing", hint="name hosts or groups, or say all")
    plain = [part for part in parts if part[0] not in "&!"] or ["all"]
    meant: dict[str, list[str]] = {}
    errors: dict[str, UsageError] = {}
    for part in (*plain, *parts):
        try:
            meant[part] = [part] if part in graph.hosts else _one(graph, part.lstrip("&!"))
        except UsageError as error:
            errors.setdefault(error.message, error)
    if errors:
        # all names at once, as mistakes in a file
        hints = dict.fromkeys(error.hint for error in errors.values())
        raise UsageError("; ".join(errors), hint="; ".join(hints))
    found = dict.fromkeys(host for part in plain for host in meant[part])
    for part in parts:
        if part[0] == "&":
            found = {host: None for host in found if host in meant[part]}
    for part in parts:
        if part[0] == "!":
            for host in meant[part]:
                found.pop(host, None)
    return list(found)


def _one(graph: Graph, pattern: str) -> list[str]:
    """Hosts of one part without its mark; one that a group and a wildcard both give stands there twice."""
    if pattern[0] == "~":
        return _matching(graph, pattern, _compiled(pattern))
    if _OLD_SUBSCRIPT.fullmatch(pattern):
        raise UsageError(f"{pattern}: a subscript has a colon", hint=f"write {pattern.replace('-', ':')}")
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
        text = f"{pattern}: {name} has {_counted(len(hosts))}"
        raise UsageError(text, hint="hosts count from 0, -1 is the last")
    return chosen


def _counted(number: int) -> str:
    return f"{number} host" + "s" * (number != 1)


def _expanded(graph: Graph, pattern: str) -> list[str]:
    try:
        names = expand(pattern)
    except ValueError as error:
        raise UsageError(f"{pattern}: {error}", hint="write host[01:08]") from None
    return [host for name in names for host in _named(graph, name)]


def _named(graph: Graph, pattern: str) -> list[str]:
    """Hosts of a group, a host, or what a wildcard matches."""
    if _GLOB.search(pattern):
        return _matching(graph, pattern, re.compile(fnmatch.translate(pattern)))
    found: list[str] = []
    if pattern in graph.groups:
        found += graph.members(pattern)
    # a group's name hides that of a host, but for one with a dot: Ansible takes it for a wildcard
    if pattern in graph.hosts and (pattern not in graph.groups or "." in pattern):
        found.append(pattern)
    if found or pattern in graph.groups:
        return found
    if (host := implicit(graph, pattern)) is not None:
        return [host]
    near = nearest(pattern, [*graph.hosts, *graph.groups])
    hint = f"did you mean {near}?" if near else "klops inventory graph shows hosts and groups"
    raise UsageError(f"no host or group is called {pattern}", hint=hint)


def _matching(graph: Graph, pattern: str, matcher: re.Pattern[str]) -> list[str]:
    groups = [name for name in graph.groups if matcher.match(name)]
    hosts = [name for name in graph.hosts if matcher.match(name)]
    if not groups and not hosts:
        raise UsageError(
            f"{pattern} matches no host or group", hint="klops inventory graph shows hosts and groups"
        )
    return [*_members(graph, groups), *hosts]


def _members(graph: Graph, groups: Sequence[str]) -> Iterator[str]:
    for name in groups:
        yield from graph.members(name)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern[1:])
    except re.error as error:
        raise UsageError(
            f"{pattern} is no regular expression: {error}", hint="see Python's re module"
        ) from None
