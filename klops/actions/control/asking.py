"""A line typed by whoever runs klops, for a task that asks for one. Waiting for it can be interrupted."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator

from klops.errors import ConfirmationNeeded

#: Seconds between two looks at whether the run was interrupted.
_LOOK = 0.2


def ask(text: str, *, echo: bool, look: Callable[[], None]) -> str:
    """Show ``text`` on standard error and give the line that is typed, without its end.

    ``look`` is called again and again meanwhile; what it raises ends the question.
    Raises :class:`ConfirmationNeeded` when there is no terminal to ask on.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfirmationNeeded(
            f"{text.strip()} There is no terminal to ask on.",
            hint="run klops on a terminal, give seconds, or skip the task by a condition or tag",
        )
    if os.name == "nt":
        return _ask_on_windows(text, echo)
    _say(f"{text} ")
    with _no_echo(echo):
        line = _line(look)
    if not echo:
        _say("\n")
    return line


def _ask_on_windows(text: str, echo: bool) -> str:
    import getpass

    if not echo:
        return getpass.getpass(f"{text} ")
    _say(f"{text} ")
    return sys.stdin.readline().rstrip("\r\n")


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def _line(look: Callable[[], None]) -> str:
    """One line of the terminal; it hands over whole lines, so nothing behind it is taken."""
    import select

    while not select.select([sys.stdin], [], [], _LOOK)[0]:
        look()
    return sys.stdin.readline().rstrip("\r\n")


@contextlib.contextmanager
def _no_echo(echo: bool) -> Iterator[None]:
    if echo or os.name == "nt":
        yield
        return
    import termios

    before = termios.tcgetattr(sys.stdin)
    silent = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
