"""What goes wrong around the supervisor, said on standard error: ``docker logs`` shows it."""

from __future__ import annotations

import contextlib
import os
import sys

#: Characters of an error's own words.
_LONGEST = 200


def say(text: str) -> None:
    """One line. Nobody has to listen: a log of the container that can't be written is no reason to end."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"klops supervisor: {text}\n")
        sys.stderr.flush()


class Troubles:
    """Troubles that last: each is said when it comes and when it is over, not at every look."""

    def __init__(self) -> None:
        self._lasting: dict[str, str] = {}

    def met(self, what: str, error: OSError) -> None:
        """``what`` could not be done."""
        text = f"{what}: {reason(error)}"
        if self._lasting.get(what) != text:
            self._lasting[what] = text
            say(f"{text}; goes on without")

    def over(self, what: str) -> None:
        """``what`` was done."""
        if self._lasting.pop(what, None) is not None:
            say(f"{what}: works again")


def fault(error: Exception) -> str:
    """An error that nobody reckoned with: its kind, its own words, and the place where it came up."""
    import traceback

    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(place.filename)}:{place.lineno}"
    return f"{type(error).__name__}: {str(error)[:_LONGEST]} ({where})"


def reason(error: OSError) -> str:
    """An error of the system in words."""
    return error.strerror or os.strerror(error.errno or 0)
