"""Folders of the users of this machine: where klops keeps what is its own, and ``~`` in names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath


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


def expanded(name: str) -> Path:
    """A name of a file, with the home for ``~`` or ``~user`` before it.

    That of a user whom this machine doesn't have stays as it is, as in a shell: whoever looks there is told
    that there is nothing.
    """
    given = Path(name)
    try:
        return given.expanduser()
    except RuntimeError:
        return given
