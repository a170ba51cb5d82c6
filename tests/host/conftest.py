"""Rehearsal hosts, an sshd, and this machine as a remote, for the tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from klops.remote.base import Remote
from klops.remote.factory import open_remote
from klops.remote.local import LocalRemote
from tests.host.accounts import remove_left_over
from tests.host.sshd import Sshd, connection_to, start_sshd
from tests.rehearsals import make_rehearsal, real_vllm, rehearsal

__all__ = ["make_rehearsal", "real_vllm", "rehearsal", "remote", "sshd"]


@pytest.fixture(scope="session", autouse=True)
def _nothing_left_over() -> None:
    """Accounts and sudo rules of a run that was killed are nobody's any more."""
    if os.geteuid() == 0:
        remove_left_over()


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """An sshd of the module's own."""
    daemon = start_sshd(tmp_path_factory.mktemp("sshd"))
    yield daemon
    daemon.close()


@pytest.fixture(params=["ssh", "local"])
def remote(request: pytest.FixtureRequest, sshd: Sshd) -> Iterator[Remote]:
    """This machine, reached in each of the two ways."""
    there: Remote = open_remote(connection_to(sshd)) if request.param == "ssh" else LocalRemote()
    yield there
    there.close()
