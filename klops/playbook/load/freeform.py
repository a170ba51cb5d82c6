"""A text after a module's name: a command, a file's name, or Ansible's old ``key=value`` pairs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

#: modules whose text goes to a program, all but these words, which Ansible takes out of it
PROGRAMS = frozenset(["command", "shell", "script"])
_TAKEN_OUT = frozenset(
    ["creates", "removes", "chdir", "executable", "warn", "stdin", "stdin_add_newline", "strip_empty_ends"]
)
#: parts between blanks; a quote or a template is one part with its blanks
_WORD = re.compile(r"""(?:\{\{.*?\}\}|\{%.*?%\}|"(?:\\.|[^"\\])*"|'[^']*'|[^\s])+""", re.DOTALL)
_PAIR = re.compile(r"(\w+)=(.*)", re.DOTALL)
_NEEDS_QUOTES = re.compile(r"""^$|^[\s&*!|>%@`'"\[\]{},?:#-]|[,\[\]{}#]|:\s|:$|^\s|\s$""")


def pairs(text: str) -> Iterator[tuple[str, str]]:
    """Words of the form ``key=value``, the quotes around values taken off."""
    for word in _WORD.findall(text):
        match = _PAIR.fullmatch(word)
        if match:
            value = match[2]
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
            yield match[1], value[1:-1] if quoted else value


def hidden_options(module: str, text: str) -> list[str]:
    """Words that Ansible would take out of a command's text as options, such as ``chdir=/srv``."""
    if module not in PROGRAMS:
        return []
    return [f"{key}={value}" for key, value in pairs(text) if key in _TAKEN_OUT]


def mapping(module: str, text: str) -> str:
    """Old ``key=value`` parameters as a mapping, to be pasted; "" when ``text`` doesn't begin with one."""
    first = _WORD.match(text.strip())
    if first is None or not _PAIR.fullmatch(first[0]):
        return ""
    return f"{module}: {{{', '.join(f'{key}: {_quoted(value)}' for key, value in pairs(text))}}}"


def args(text: str) -> str:
    """The options of :func:`hidden_options` as a mapping."""
    found = ((key, value) for key, value in pairs(text) if key in _TAKEN_OUT)
    return f"{{{', '.join(f'{key}: {_quoted(value)}' for key, value in found)}}}"


def _quoted(value: str) -> str:
    if not _NEEDS_QUOTES.search(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
