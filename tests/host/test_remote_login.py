"""Ways to be let in: a password, an agent, an encrypted key, another user's rights; and a changed gate."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from klops.errors import AuthenticationFailed, CommandFailed, HostKeyRejected
from klops.inventory.connection import Connection
from klops.remote.factory import open_remote
from klops.remote.reads import CommandRead
from klops.secret import Secret
from tests.host.accounts import Account, sudo_rule
from tests.host.sshd import Sshd, connection_to, make_key, start_sshd

pytestmark = pytest.mark.host

PASSWORD = "made-up 'pass' $word é"
PASSPHRASE = "made-up phrase"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own are the test user's alone."""
    with tempfile.TemporaryDirectory(prefix="klops-login-") as place:
        Path(place).chmod(0o755)
        yield Path(place)


@pytest.fixture(scope="module")
def sshd(folder: Path) -> Iterator[Sshd]:
    """An sshd that takes passwords too, and lets accounts have their homes."""
    daemon = start_sshd(folder / "sshd", own_home=False, extra_config="PasswordAuthentication yes")
    yield daemon
    daemon.close()


@pytest.fixture(scope="module")
def account(folder: Path) -> Iterator[Account]:
    """A user with a password."""
    made = Account("login", shutil.which("sh") or "/bin/sh", folder / "home")
    try:
        made.set_password(PASSWORD)
        yield made
    finally:
        made.remove()


def without_key(sshd: Sshd, user: str) -> Connection:
    """The connection of a user who has no key of the test's."""
    found = dataclasses.replace(connection_to(sshd), user=user, private_key_file=None)
    return dataclasses.replace(found, common_args=(*found.common_args, "-o", "IdentitiesOnly=no"))


def test_a_password(sshd: Sshd, account: Account) -> None:
    connection = without_key(sshd, account.name)
    remote = open_remote(dataclasses.replace(connection, password=Secret(PASSWORD)))
    assert remote.run(["id", "-un"]).text == f"{account.name}\n"
    remote.close()
    with pytest.raises(AuthenticationFailed, match="a password") as caught:
        open_remote(dataclasses.replace(connection, password=Secret("wrong"))).run(["true"])
    assert "wrong" not in caught.value.message
    with pytest.raises(AuthenticationFailed):
        open_remote(connection).run(["true"])


def test_an_agent(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = without_key(sshd, sshd.user)
    monkeypatch.setenv("HOME", str(tmp_path))
    said = subprocess.run(
        ["ssh-agent", "-s", "-a", str(tmp_path / "agent")], capture_output=True, text=True, check=True
    )
    pid = int(said.stdout.partition("SSH_AGENT_PID=")[2].partition(";")[0])
    try:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        with pytest.raises(AuthenticationFailed, match="the ssh agent"):
            open_remote(connection).run(["true"])
        subprocess.run(["ssh-add", "-q", str(sshd.key_file)], check=True)
        remote = open_remote(connection)
        assert remote.run(["echo", "in"]).text == "in\n"
        remote.close()
    finally:
        os.kill(pid, signal.SIGTERM)


def test_an_encrypted_key(sshd: Sshd, tmp_path: Path) -> None:
    key = tmp_path / "locked"
    shutil.copyfile(sshd.key_file, key)
    key.chmod(0o600)
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", PASSPHRASE, "-f", str(key)], check=True)
    connection = dataclasses.replace(connection_to(sshd), private_key_file=str(key))
    remote = open_remote(dataclasses.replace(connection, key_passphrase=Secret(PASSPHRASE)))
    assert remote.run(["echo", "in"]).text == "in\n"
    remote.close()
    with pytest.raises(AuthenticationFailed) as caught:
        open_remote(connection).run(["true"])
    assert "KLOPS_SSH_KEY_PASSPHRASE" in caught.value.hint
    with pytest.raises(AuthenticationFailed, match="not let in") as caught:
        open_remote(dataclasses.replace(connection, key_passphrase=Secret("wrong phrase"))).run(["true"])
    assert "passphrase" in caught.value.hint
    assert "wrong phrase" not in caught.value.message


def test_a_changed_key_of_a_jump_host(sshd: Sshd, tmp_path: Path) -> None:
    gate = start_sshd(tmp_path / "gate")
    known = tmp_path / "known_hosts"
    try:
        other = tmp_path / "other"
        make_key(other)
        shown = " ".join(Path(f"{other}.pub").read_text().split()[:2])
        known.write_text(sshd.known_hosts.read_text() + f"[127.0.0.1]:{gate.port} {shown}\n")
        config = tmp_path / "config"
        config.write_text(
            f"Host gate\n  HostName 127.0.0.1\n  Port {gate.port}\n  IdentityFile {gate.key_file}\n"
            f"Host *\n  UserKnownHostsFile {known}\n  GlobalKnownHostsFile none\n  User {sshd.user}\n"
        )
        connection = dataclasses.replace(connection_to(sshd), common_args=("-F", str(config), "-J", "gate"))
        with pytest.raises(HostKeyRejected, match=r"jump host gate: THE KEY OF .* HAS CHANGED") as caught:
            open_remote(connection).run(["true"])
        assert str(known) in caught.value.message
        # nobody was logged in, neither there nor behind it
        assert "Accepted" not in gate.log.read_text()
        assert caught.value.hint.endswith("klops hosts trust host1")
    finally:
        gate.close()


def test_another_user_over_the_same_connection(sshd: Sshd, account: Account, folder: Path) -> None:
    with (
        sudo_rule(f"{sshd.user} ALL=(ALL) NOPASSWD: ALL"),
        closing(open_remote(connection_to(sshd))) as remote,
    ):
        other = remote.clone(become=True, become_user=account.name)
        script = ["sh", "-c", 'id -un; echo "$HOME"; cat']
        done = other.run(script, stdin=b"data")
        assert done.text == f"{account.name}\n{folder / 'home'}\ndata"
        assert other.read([CommandRead("a", ("id", "-un"))])["a"].text == f"{account.name}\n"
        target = folder / "home" / "file"
        other.put(b"content", str(target), mode=0o640)
        assert (target.owner(), target.read_bytes()) == (account.name, b"content")
        assert remote.run(["id", "-un"]).text == f"{sshd.user}\n"
        assert remote.commands_run == 4
        with pytest.raises(CommandFailed, match="unknown user") as caught:
            remote.clone(become=True, become_user="klops-nobody-here").run(["true"])
        assert caught.value.code == "become"
        accepted = sshd.log.read_text().count(f"Accepted publickey for {sshd.user}")
        open_sessions = open_remote(connection_to(sshd))
        open_sessions.run(["true"])
        assert sshd.log.read_text().count(f"Accepted publickey for {sshd.user}") == accepted + 1
        open_sessions.close()
