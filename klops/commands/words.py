"""Words of a POSIX shell made of texts in which ``~`` and ``$NAME`` stand for what the host has for them.

Ansible expands both in paths and in arguments of a command, by Python on the host. Here the host's shell does
it, and only that: everything else in a word is quoted.
"""

from __future__ import annotations

import re
import shlex

_HOME = re.compile(r"~(?:[A-Za-z0-9_][A-Za-z0-9_.-]*)?(?:/|\Z)")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
#: Variables that a shell has without being given them.
_OF_THE_SHELL = frozenset({"IFS", "OPTIND", "PPID", "PS1", "PS2", "PS4"})
_PLAIN = re.compile(r"[A-Za-z0-9_./,:@%+=-]", re.ASCII)
_MAGIC = frozenset("*?[]!^")


def word(text: str, *, globs: bool = False) -> str:
    """``text`` as one word for a shell; a variable that isn't set stays as written.

    ``globs``: ``*``, ``?`` and ``[...]`` stay patterns.

    >>> word("~/a b")
    "~/'a b'"
    >>> word("x$HOME")
    'x"${HOME-\\\\$HOME}"'
    >>> word("/a/*.so;", globs=True)
    '/a/*.so\\\\;'
    """
    quote = _pattern if globs else shlex.quote
    home = _HOME.match(text)
    at = home.end() if home else 0
    parts = [text[:at]]
    for match in _VARIABLE.finditer(text, at):
        name = match[1] or match[2]
        if not _NAME.fullmatch(name) or name in _OF_THE_SHELL:
            continue
        if match.start() > at:
            parts.append(quote(text[at : match.start()]))
        as_written = match[0].replace("$", r"\$").replace("}", r"\}")
        parts.append(f'"${{{name}-{as_written}}}"')
        at = match.end()
    if at < len(text):
        parts.append(quote(text[at:]))
    return "".join(parts) or "''"


def expands(text: str) -> bool:
    """Whether there is anything in ``text`` for the host to expand."""
    return word(text) != shlex.quote(text)


def _pattern(text: str) -> str:
    """``text`` with all but the characters of patterns quoted, one by one: quotes would end a ``[...]``."""
    return "".join(
        char
        if char in _MAGIC or _PLAIN.fullmatch(char)
        else shlex.quote(char)
        if char == "\n"
        else f"\\{char}"
        for char in text
    )
