"""Where klops keeps what is its own in the folders of the user who runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath, PurePosixPath, PureWindowsPath


def base(
    env: Mapping[str, str], variable: str, below: str, *, windows: bool, home: Callable[[], str]
) -> PurePath:
    """The folder for one kind of file: ``LOCALAPPDATA`` on Windows, elsewhere what ``variable`` of XDG says.

    ``below``: that folder below the home where ``variable`` says nothing. ``home`` is called where only the
    user's own folder tells.
    """
    kind: type[PurePath] = PureWindowsPath if windows else PurePosixPath
    named, usual = ("LOCALAPPDATA", "AppData/Local") if windows else (variable, below)
    found = kind(env.get(named, ""))
    # by the rules of XDG a relative one is none
    return found if found.is_absolute() else kind(home()) / usual
