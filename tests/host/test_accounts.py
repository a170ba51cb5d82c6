"""What a killed run leaves behind on this machine is gone with the next one."""

from __future__ import annotations

import pwd
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.host.accounts import Account, remove_left_over, sudo_rule

pytestmark = pytest.mark.host

RULES = Path("/etc/sudoers.d")
KILLED = """
import os, signal, sys
from pathlib import Path
from tests.host.accounts import Account, sudo_rule
account = Account("killed", "/bin/sh", Path(sys.argv[1]))
account.set_password("made-up")
with sudo_rule(f"{account.name} ALL=(ALL) NOPASSWD: ALL"):
    print(account.name, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def names() -> set[str]:
    return {user.pw_name for user in pwd.getpwall()}


@pytest.mark.skipif(shutil.which("sudo") is None, reason="sudo is not installed")
def test_accounts_and_rules_of_a_killed_run_are_removed_and_those_of_this_one_stay(tmp_path: Path) -> None:
    mine = Account("mine", "/bin/sh", tmp_path / "mine")
    try:
        with sudo_rule(f"{mine.name} ALL=(ALL) ALL"):
            before = set(RULES.iterdir())
            done = subprocess.run(
                [sys.executable, "-c", KILLED, str(tmp_path / "killed")],
                capture_output=True,
                text=True,
                check=False,
                cwd=Path(__file__).parents[2],
            )
            assert done.returncode == -signal.SIGKILL, done.stderr
            left = done.stdout.strip()
            (rule,) = set(RULES.iterdir()) - before
            assert rule.stat().st_mode & 0o7777 == 0o440
            assert left in names()
            remove_left_over()
            assert left not in names()
            assert not rule.exists()
            assert mine.name in names()
            assert before <= set(RULES.iterdir())
    finally:
        mine.remove()
    assert mine.name not in names()


def test_an_account_ends_by_itself(tmp_path: Path) -> None:
    account = Account("brief", "/bin/sh", tmp_path / "home")
    try:
        shadow = subprocess.run(
            ["getent", "shadow", account.name], capture_output=True, text=True, check=True
        ).stdout
        changed, expires = (int(shadow.split(":")[field]) for field in (2, 7))
        assert 0 < expires - changed <= 2
    finally:
        account.remove()
