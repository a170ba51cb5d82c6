"""How cron programs read the command of a line, after their sources."""

from __future__ import annotations


def vixie(command: str) -> str:
    """As do_command.c of Vixie's cron and Debian's: ``\\%`` is ``%``, ``\\\\`` is one backslash."""
    return _run(command, pairs="%\\")


def cronie(command: str) -> str:
    """As do_command.c of ISC cron and cronie: ``\\%`` is ``%``, other backslashes stay."""
    return _run(command, pairs="%")


def busybox(command: str) -> str:
    """As crond.c of busybox: all is for the shell."""
    return command


def _run(command: str, *, pairs: str) -> str:
    out: list[str] = []
    escaped = False
    for char in command:
        if escaped:
            if char in pairs:
                out.pop()
            out.append(char)
            escaped = False
            continue
        if char == "%":
            break
        out.append(char)
        escaped = char == "\\"
    return "".join(out)
