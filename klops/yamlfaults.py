"""What is wrong with a text that is no YAML, in words that name the fix."""

from __future__ import annotations

import re

from klops.errors import Location, Mistake

#: a value in braces that nobody quoted
_BARE = re.compile(r"(?:[:-]\s+|^\s*)(\{\{.*?\}\})")


def place(text: str, index: int, file: str) -> Location:
    """Where the character at ``index`` of a text stands."""
    return Location(file, text.count("\n", 0, index) + 1, index - (text.rfind("\n", 0, index) + 1) + 1)


def syntax_mistake(error: Exception, text: str, file: str) -> Mistake:
    """One mistake from a parser's error. A tab is named first: it is what people trip over."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        # the reader's own error: a character that YAML forbids, at an index of the text
        where = place(text, getattr(error, "position", 0), file)
        hint = "delete it, or write it as an escape in double quotes"
        return Mistake(where, "a character that YAML forbids", hint)
    lines = text.split("\n")
    for number in range(min(mark.line + 1, len(lines)), max(mark.line - 1, 0), -1):
        tab = re.match(r" *\t", lines[number - 1])
        if tab:
            return Mistake(Location(file, number, tab.end()), f"tab at line {number}", "indent with spaces")
    where = Location(file, mark.line + 1, mark.column + 1)
    context, problem = getattr(error, "context", None) or "", getattr(error, "problem", None) or ""
    message = f"{context} {problem}".strip()
    if "'\\t'" in message:
        return Mistake(where, f"tab at line {where.line}", "write a space")
    line = lines[mark.line] if mark.line < len(lines) else ""
    bare = _BARE.search(line)
    if bare:
        return Mistake(where, f"not valid YAML: {message}", quoted(line[bare.start(1) :].strip()))
    if problem.startswith("mapping values are not allowed"):
        if re.search(r":\s", line[: mark.column]):
            return Mistake(where, f"not valid YAML: {message}", "quote the text: it holds ': '")
        return Mistake(where, *_indentation(where.line, where.line - 1))
    begun = getattr(error, "context_mark", None)
    if context.startswith("while parsing a block") and begun is not None:
        if begun.line < mark.line and not line[: mark.column].strip():
            return Mistake(where, *_indentation(where.line, begun.line + 1, begun.column + 1))
        if re.search(r"""[:-]\s+["']""", line[: mark.column]):
            hint = "quote the whole value, and double a quote within it"
            return Mistake(where, f"not valid YAML: {message}", hint)
    return Mistake(where, f"not valid YAML: {message}")


def quoted(text: str) -> str:
    """The hint to quote a text, written out."""
    mark = "'" if '"' in text else '"'
    return f"quote it: {mark}{text}{mark}"


def _indentation(line: int, before: int, column: int = 0) -> tuple[str, str]:
    """What to say, and a hint, of a line that does not stand below ``before`` as it should.

    ``column`` is where what begins at ``before`` stands; 0: unknown.
    """
    fits = f"what begins at line {before}" if column else f"line {before} above it"
    how = (
        f"begin it at column {column}, or deeper within" if column else "begin it where its neighbours begin"
    )
    return f"not valid YAML: the indentation of line {line} does not fit {fits}", how
