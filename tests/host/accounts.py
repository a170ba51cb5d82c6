"""Users of this machine that tests make and remove: a login shell, a password or sudo rights of their own.

Their names, and those of the files with sudo rules, tell which process made them: what a killed run left
behind is found by that and removed by the next one.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path

import psutil

_PREFIX = "klops-t-"
_RULES = Path("/etc/sudoers.d")
_numbers = count(1)


class Account:
    """A user with one shell, a home, and no password until it is given one. It is good until tomorrow.

    ``label``: a few letters that tell it from others in messages.
    """

    def __init__(self, label: str, shell: str, home: Path) -> None:
        self.name = _name(label)
        tomorrow = datetime.now(timezone.utc) + timedelta(days=1)
        argv = ["useradd", "--create-home", "--home-dir", str(home), "--shell", shell, "--password", "*"]
        argv += ["--expiredate", tomorrow.strftime("%Y-%m-%d"), self.name]
        subprocess.run(argv, check=True, capture_output=True)

    def set_password(self, password: str) -> None:
        """Let it log in with a password."""
        subprocess.run(["chpasswd"], input=f"{self.name}:{password}\n", text=True, check=True)

    def remove(self) -> None:
        """Take it away again."""
        _remove(self.name)


@contextmanager
def sudo_rule(*lines: str) -> Iterator[None]:
    """Lines of sudoers(5) that hold for a while."""
    path = _RULES / _name("rule")
    # sudo passes over names with a dot: it never sees half a file
    draft = path.with_name(f"{path.name}.new")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o440), "w") as out:
            out.writelines(f"{line}\n" for line in lines)
        draft.rename(path)
        yield
    finally:
        draft.unlink(missing_ok=True)
        path.unlink(missing_ok=True)


def remove_left_over() -> None:
    """Remove rules and accounts of runs that are no more."""
    rules = list(_RULES.glob(f"{_PREFIX}*")) if os.access(_RULES, os.R_OK | os.X_OK) else []
    for path in rules:
        if not _made_by_a_living_one(path.name):
            path.unlink(missing_ok=True)
    for user in pwd.getpwall():
        if user.pw_name.startswith(_PREFIX) and not _made_by_a_living_one(user.pw_name):
            _remove(user.pw_name)


def _name(label: str) -> str:
    return f"{_PREFIX}{_token(psutil.Process())}-{next(_numbers)}-{label}"


def _token(process: psutil.Process) -> str:
    """A process, in characters that names of users may have: its pid, and when it began."""
    return f"{process.pid}-{int(process.create_time()) & 0xFFFFF:05x}"


def _made_by_a_living_one(name: str) -> bool:
    pid = name.removeprefix(_PREFIX).partition("-")[0]
    try:
        return name.startswith(f"{_PREFIX}{_token(psutil.Process(int(pid)))}-")
    except (ValueError, psutil.NoSuchProcess):
        return False


def _remove(name: str) -> None:
    subprocess.run(["userdel", "--force", name], check=True, capture_output=True)
