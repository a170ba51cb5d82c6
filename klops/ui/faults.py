"""Errors as text: message, place with a caret, and what to do next. Pure but for reading the named files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from klops.errors import CommandFailed, KlopsError, Mistake, SourceErrors
from klops.inventory.masking import masked_line
from klops.ui.prose import fold

#: Mistakes shown in full; more than these are counted.
SHOWN = 50
#: Characters of a longer line that are shown before and after its mistake: a file that a program wrote may be
#: one line of a megabyte.
AROUND = 200


def read_line(file: str, line: int) -> str:
    """Line ``line`` (from 1) of ``file``; "" when there is none to show."""
    try:
        lines = Path(file).read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return lines[line - 1] if 0 < line <= len(lines) else ""


def snippet(mistake: Mistake, source: str) -> str:
    """The line of a mistake with a caret under its column; "" when there is no line.

    >>> from klops.errors import Location
    >>> print(snippet(Mistake(Location("a.yml", 3, 5), "wrong"), "  - what: 1"))
        3 |   - what: 1
          |     ^
    """
    if not source.strip():
        return ""
    number = f"{mistake.location.line:>5}"
    # nothing was read far enough to know what is secret
    shown, column = masked_line(source.replace("\t", " "), mistake.location.column)
    if len(shown) > 2 * AROUND:
        start = max(0, column - 1 - AROUND)
        shown, column = shown[start : start + 2 * AROUND], column and column - start
    lines = [f"{number} | {shown}"]
    if column:
        lines.append(f"{' ' * len(number)} | {' ' * (column - 1)}^")
    return "\n".join(lines)


def describe(
    error: KlopsError, *, lines: Callable[[str, int], str] = read_line, width: int | None = None
) -> str:
    """The whole text of an error, without a final newline; its message folded to ``width`` cells."""
    if isinstance(error, SourceErrors):
        return _describe_mistakes(error, lines)
    text = f"error: {error.message}"
    if width:
        text = "\n".join(part for line in text.split("\n") for part in fold(line, width))
    if error.hint:
        text += f"\n  fix: {error.hint}"
    return text


def _describe_mistakes(error: SourceErrors, lines: Callable[[str, int], str]) -> str:
    count = len(error.mistakes)
    parts = [f"error: {count} mistake{'s' if count != 1 else ''}; nothing was run"]
    for mistake in error.mistakes[:SHOWN]:
        parts.append(f"{mistake.location}: {mistake.message}")
        source = snippet(mistake, lines(mistake.location.file, mistake.location.line))
        if source:
            parts.append(source)
        if mistake.hint:
            parts.append(f"  fix: {mistake.hint}")
    if count > SHOWN:
        parts.append(f"and {count - SHOWN} more")
    return "\n".join(parts)


def document(error: KlopsError) -> dict[str, Any]:
    """The JSON of a command that failed as a whole: ``{"ok": false, "hosts": {}, "error": {...}}``."""
    body: dict[str, Any] = dict(error.as_json())
    if isinstance(error, SourceErrors):
        body["mistakes"] = [
            {
                "file": mistake.location.file,
                "line": mistake.location.line,
                "column": mistake.location.column,
                "message": mistake.message,
                "hint": mistake.hint,
            }
            for mistake in error.mistakes
        ]
    return {"ok": False, "hosts": {}, "error": body}


def unsaid(error: KlopsError) -> dict[str, str]:
    """Standard output and error of a command that failed, by name, where the message doesn't end with it."""
    if not isinstance(error, CommandFailed):
        return {}
    streams = {"stdout": error.stdout.strip("\r\n"), "stderr": error.stderr.strip("\r\n")}
    return {
        name: text
        for name, text in streams.items()
        if text.strip() and not error.message.endswith(text.strip())
    }


def next_command(error: KlopsError, host: str) -> str:
    """The command to try next for a host that failed; "" when the hint has said it all."""
    if error.code == "command-failed" and error.hint:
        return ""
    return {
        "host-key": f"klops hosts trust {host}",
        "unreachable": f"klops exec --host {host} -- true",
        "connection-lost": f"klops status {host}",
        "lock-held": f"klops lock status {host}",
        "timeout": f"klops status {host}",
        "agent": f"klops logs {host}",
        "command-failed": f"klops status {host}",
    }.get(error.code, "")
