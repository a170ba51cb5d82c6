"""A uid without a name: usual in containers."""

from __future__ import annotations

import os

import pytest

from klops.errors import UsageError
from klops.inventory.connection import Connection
from klops.remote import whoami
from klops.remote.lock import LockOwner
from klops.remote.sshconfig import load_config, resolve


@pytest.fixture(
    params=[KeyError("getpwuid(): uid not found: 4242"), OSError("No username set"), ImportError("pwd")]
)
def nameless(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def getuser() -> str:
        raise request.param

    monkeypatch.setattr("getpass.getuser", getuser)


@pytest.mark.usefixtures("nameless")
def test_records_name_the_uid() -> None:
    assert whoami.user() == f"uid {os.getuid()}"
    assert LockOwner.here().who == f"uid {os.getuid()}"


@pytest.mark.usefixtures("nameless")
def test_over_ssh_it_has_to_be_given() -> None:
    connection = Connection(
        name="h",
        address="h",
        port=None,
        user="ada",
        private_key_file=None,
        kind="ssh",
        become=False,
        become_password=None,
        password=None,
        common_args=(),
        connect_timeout=1.0,
    )
    with pytest.raises(UsageError, match=f"h: this machine has no user name for uid {os.getuid()}") as caught:
        resolve(connection, load_config("none"))
    assert "LOGNAME" in caught.value.hint
