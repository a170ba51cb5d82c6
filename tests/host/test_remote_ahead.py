"""Connections that are opened before anybody asks: who gets them, and who hears of what went wrong."""

from __future__ import annotations

import dataclasses
import json
import shlex
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from klops.errors import HostUnreachable, UsageError
from klops.inventory.connection import Connection
from klops.remote.ahead import Ahead
from klops.remote.factory import open_remote
from klops.remote.link import Link
from klops.remote.ssh import SshRemote
from tests.host.proxy import Proxy
from tests.host.sshd import Sshd, connection_to, free_port, start_sshd
from tests.host.support import klops
from tests.waiting import until

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    # a second session at once would be refused
    daemon = start_sshd(tmp_path_factory.mktemp("sshd"), extra_config="MaxSessions 1")
    yield daemon
    daemon.close()


@pytest.fixture
def ahead() -> Iterator[Ahead]:
    with closing(Ahead()) as opened:
        yield opened


def through(sshd: Sshd, proxy: Proxy, folder: Path) -> Connection:
    known = folder / "known_hosts"
    known.write_text(sshd.known_hosts.read_text().replace(f"]:{sshd.port}", f"]:{proxy.port}"))
    return connection_to(sshd, port=proxy.port, args=("-o", f"UserKnownHostsFile={known}"))


def test_the_first_command_goes_over_it_and_the_next_ones_too(
    sshd: Sshd, ahead: Ahead, tmp_path: Path
) -> None:
    with Proxy(sshd.port) as proxy:
        connection = through(sshd, proxy, tmp_path)
        ahead.begin(connection)
        until(lambda: proxy.accepted, what="it connects though nobody asked for anything")
        with closing(ahead.open_remote(connection)) as remote:
            assert [remote.run(["echo", word]).text for word in ("one", "two")] == ["one\n", "two\n"]
            assert remote.commands_run == 2
            with closing(ahead.open_remote(connection)) as another:
                assert another.run(["echo", "own"]).text == "own\n"
        assert proxy.accepted == 2, "it goes to the first alone"


def test_with_other_settings_it_is_not_used(sshd: Sshd, ahead: Ahead, tmp_path: Path) -> None:
    with Proxy(sshd.port) as proxy:
        connection = through(sshd, proxy, tmp_path)
        ahead.begin(connection)
        other = connection_to(sshd)
        with closing(ahead.open_remote(other)) as remote:
            assert remote.run(["echo", "other"]).text == "other\n"
        until(lambda: proxy.accepted, what="it connects")
        ahead.close()
        until(lambda: not proxy.busy, what="what nobody wanted is closed")


def test_one_that_broke_meanwhile_is_made_anew(sshd: Sshd, tmp_path: Path) -> None:
    with Proxy(sshd.port) as proxy:
        link = Link.of(through(sshd, proxy, tmp_path))
        link.begin()
        assert link._begun is not None
        session = link._begun.result(30)
        proxy.cut()
        until(lambda: session.closed, what="the cut is noticed")
        with closing(SshRemote("host1", link)) as remote:
            assert remote.run(["echo", "again"]).text == "again\n"
        assert proxy.accepted == 2


def test_what_went_wrong_is_told_to_who_asks_first_as_if_it_had_been_tried_then(
    sshd: Sshd, ahead: Ahead
) -> None:
    connection = dataclasses.replace(connection_to(sshd), port=free_port())
    ahead.begin(connection)
    with closing(open_remote(connection)) as plain, pytest.raises(HostUnreachable) as usual:
        plain.run(["true"])
    with closing(ahead.open_remote(connection)) as remote, pytest.raises(HostUnreachable) as told:
        remote.run(["true"])
    assert (told.value.message, told.value.hint) == (usual.value.message, usual.value.hint)


def test_nobody_waits_for_a_host_that_does_not_answer(sshd: Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ahead = Ahead()
        ahead.begin(connection_to(sshd, port=listener.getsockname()[1]))
        peer, _ = listener.accept()
        with peer:
            peer.settimeout(30)
            assert peer.recv(4) == b"SSH-"
            ahead.close()
            # it is still there: close() did not wait for a banner that never comes
            peer.settimeout(0)
            rest = iter(lambda: peer.recv(4096), b"")
            with pytest.raises(BlockingIOError):
                list(rest)


def test_settings_that_cannot_be_met_and_hosts_without_ssh(sshd: Sshd, ahead: Ahead) -> None:
    with pytest.raises(UsageError, match="ProxyCommand"):
        ahead.begin(connection_to(sshd, args=("-o", "ProxyCommand=nc %h %p")))
    local = Connection("here", "here", kind="local")
    ahead.begin(local)
    with closing(ahead.open_remote(local)) as remote:
        assert remote.run(["echo", "here"]).text == "here\n"


def test_a_command_that_ends_before_its_run_leaves_no_connection(sshd: Sshd, tmp_path: Path) -> None:
    with Proxy(sshd.port) as proxy:
        connection = through(sshd, proxy, tmp_path)
        inventory = tmp_path / "hosts.yml"
        variables = {
            "ansible_host": connection.address,
            "ansible_port": proxy.port,
            "ansible_user": sshd.user,
            "ansible_ssh_private_key_file": str(sshd.key_file),
            "ansible_ssh_common_args": shlex.join(connection.common_args),
            "klops": {"container": {"no_such_setting": 1}},
        }
        inventory.write_text(json.dumps({"all": {"hosts": {"host1": variables}}}))
        done = klops("sync", "host1", "-i", str(inventory))
        assert done.rc == 2
        assert "no_such_setting" in done.stderr
        until(lambda: not proxy.busy, what="the connection is gone")
