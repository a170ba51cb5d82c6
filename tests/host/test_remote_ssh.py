"""What ssh connections go through: keys, crowds, silence, cuts, jump hosts, odd login shells, sudo."""

from __future__ import annotations

import dataclasses
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from klops.errors import (
    AuthenticationFailed,
    CommandFailed,
    CommandTimeout,
    ConnectionLost,
    HostKeyRejected,
    HostUnreachable,
    UsageError,
)
from klops.inventory.connection import Connection
from klops.remote import link
from klops.remote.factory import open_remote
from klops.remote.reads import CommandRead
from klops.remote.trust import look
from klops.secret import Secret
from tests.host.accounts import Account, sudo_rule
from tests.host.processes import running, until_runs
from tests.host.proxy import Proxy
from tests.host.sshd import Sshd, connection_to, free_port, make_key, start_sshd
from tests.waiting import until

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    daemon = start_sshd(tmp_path_factory.mktemp("sshd"))
    yield daemon
    daemon.close()


@pytest.fixture(scope="module")
def accounts_sshd() -> Iterator[Sshd]:
    """An sshd whose sessions have the homes of their accounts, in a folder that every user may enter."""
    with tempfile.TemporaryDirectory(prefix="klops-sshd-") as place:
        Path(place).chmod(0o755)
        daemon = start_sshd(place, own_home=False)
        yield daemon
        daemon.close()


def trusting(
    sshd: Sshd, known_hosts: Path, *, port: int | None = None, args: tuple[str, ...] = ()
) -> Connection:
    """The connection with another file of known hosts."""
    return connection_to(sshd, port=port, args=("-o", f"UserKnownHostsFile={known_hosts}", *args))


def through(sshd: Sshd, proxy: Proxy, folder: Path) -> Connection:
    """The connection by way of the proxy, whose port is trusted."""
    known = folder / "known_hosts"
    known.write_text(sshd.known_hosts.read_text().replace(f"]:{sshd.port}", f"]:{proxy.port}"))
    return trusting(sshd, known, port=proxy.port)


# keys


def test_an_unknown_key_is_refused_with_the_fix(sshd: Sshd, tmp_path: Path) -> None:
    remote = open_remote(trusting(sshd, tmp_path / "none", args=("-o", "StrictHostKeyChecking=no")))
    with pytest.raises(HostKeyRejected, match=r"is unknown: ssh-ed25519 SHA256:.*accept any key") as caught:
        remote.read([CommandRead("a", ("true",))])
    assert "klops hosts trust host1" in caught.value.hint
    assert remote.commands_run == 0


def test_a_changed_key_is_refused_and_both_are_named(sshd: Sshd, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    kind, blob = (tmp_path / "other.pub").read_text().split()[:2]
    known = tmp_path / "known_hosts"
    known.write_text(f"# mine\n[127.0.0.1]:{sshd.port} {kind} {blob}\n")
    connection = trusting(sshd, known)
    with pytest.raises(HostKeyRejected, match=f"HAS CHANGED.*SHA256:.*{known}:2"):
        open_remote(connection).run(["true"])
    (shown,) = look(connection)
    assert shown.verdict.kind == "changed"
    shown.record()
    assert known.read_text().startswith("# mine\n")
    assert len(known.read_text().splitlines()) == 2
    assert open_remote(connection).run(["echo", "in"]).text == "in\n"


def test_trust_records_the_key_without_logging_in(sshd: Sshd, tmp_path: Path) -> None:
    connection = dataclasses.replace(trusting(sshd, tmp_path / "new" / "known_hosts"), private_key_file=None)
    (shown,) = look(connection)
    assert shown.verdict.kind == "unknown"
    listed = subprocess.run(
        ["ssh-keygen", "-lf", str(sshd.known_hosts)], capture_output=True, text=True, check=True
    ).stdout
    assert shown.key.fingerprint in listed
    shown.record()
    assert [s.verdict.kind for s in look(connection)] == ["known"]


def test_the_recorded_type_of_key_is_asked_for(tmp_path: Path) -> None:
    rsa = tmp_path / "rsa"
    subprocess.run(["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", str(rsa)], check=True)
    daemon = start_sshd(tmp_path / "sshd", extra_config=f"HostKey {rsa}")
    try:
        for public in (rsa.with_suffix(".pub"), tmp_path / "sshd" / "host_key.pub"):
            kind, blob = public.read_text().split()[:2]
            known = tmp_path / "one"
            known.write_text(f"[127.0.0.1]:{daemon.port} {kind} {blob}\n")
            remote = open_remote(trusting(daemon, known))
            assert remote.run(["echo", kind]).text == f"{kind}\n"
            remote.close()
    finally:
        daemon.close()


# failures, told apart


def test_row_E32_each_failure_to_connect_has_its_own_words(sshd: Sshd, tmp_path: Path) -> None:
    def failure(connection: Connection) -> HostUnreachable:
        with pytest.raises(HostUnreachable) as caught:
            open_remote(connection).run(["true"])
        return caught.value

    good = connection_to(sshd)
    assert "connection refused" in failure(dataclasses.replace(good, port=free_port())).message
    assert "does not resolve" in failure(dataclasses.replace(good, address="no-such-name.invalid")).message
    wrong = tmp_path / "wrong"
    make_key(wrong)
    denied = failure(dataclasses.replace(good, private_key_file=str(wrong)))
    assert isinstance(denied, AuthenticationFailed)
    assert f"key {wrong}" in denied.message
    absent = failure(dataclasses.replace(good, private_key_file=str(tmp_path / "absent")))
    assert "is not there" in absent.message
    locked = tmp_path / "locked"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "made-up", "-f", str(locked)], check=True)
    encrypted = failure(dataclasses.replace(good, private_key_file=str(locked)))
    assert "ssh-add" in encrypted.hint


def test_dropped_before_the_banner(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "BANNER_TRIES", 4)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        asked = []

        def hang_up() -> None:
            for _ in range(4):
                peer, _ = listener.accept()
                asked.append(peer)
                peer.close()

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        with pytest.raises(HostUnreachable, match="before its banner"):
            open_remote(connection_to(sshd, port=listener.getsockname()[1])).run(["true"])
        thread.join(5)
    assert len(asked) == 4


# crowds


def test_row_E32_twenty_hosts_at_once_against_max_startups(tmp_path: Path) -> None:
    daemon = start_sshd(tmp_path, extra_config="MaxStartups 3:100:3\nMaxSessions 2")

    def one_host(number: int) -> list[str]:
        remote = open_remote(connection_to(daemon, f"host{number}"))
        channels = [remote, *(remote.clone() for _ in range(3))]
        try:
            with ThreadPoolExecutor(4) as pool:
                return [
                    f.result().text for f in [pool.submit(c.run, ["echo", str(number)]) for c in channels]
                ]
        finally:
            remote.close()

    try:
        with ThreadPoolExecutor(20) as pool:
            assert list(pool.map(one_host, range(20))) == [[f"{n}\n"] * 4 for n in range(20)]
    finally:
        daemon.close()


# silence and cuts


def test_row_E34_a_link_that_swallows_everything(sshd: Sshd, tmp_path: Path) -> None:
    target = tmp_path / "upload"
    with Proxy(sshd.port) as proxy, ThreadPoolExecutor(2) as pool:
        waiting, uploading = (open_remote(through(sshd, proxy, tmp_path)) for _ in range(2))
        command = pool.submit(waiting.run, ["sleep", "985.1"])
        until_runs("sleep", "985.1")
        upload = pool.submit(uploading.put, bytes(128 * 1024 * 1024), str(target))

        def under_way() -> bool:
            return any(part.stat().st_size for part in tmp_path.glob(".klops-*"))

        until(lambda: upload.done() or under_way(), what="the upload is under way")
        assert not upload.done()
        proxy.swallow.set()
        with pytest.raises(
            ConnectionLost, match=r"connection lost during sleep 985\.1: no answer for 14 s.*may still run"
        ):
            command.result()
        with pytest.raises(ConnectionLost, match=r"no answer for 14 s"):
            upload.result()
        assert not target.exists()
    # the host never heard of it, as the error says
    for pid in running("sleep", "985.1"):
        os.kill(pid, signal.SIGTERM)


def test_what_watches_its_input_ends_with_the_link(sshd: Sshd, tmp_path: Path) -> None:
    watching = ["cat", "-", str(tmp_path / "absent")]
    with Proxy(sshd.port) as proxy, ThreadPoolExecutor(1) as pool:
        remote = open_remote(through(sshd, proxy, tmp_path))
        follower = pool.submit(
            remote.stream, watching, on_stdout=lambda _: None, on_stderr=lambda _: None, keep_stdin=True
        )
        until_runs(*watching)
        proxy.cut()
        with pytest.raises(ConnectionLost):
            follower.result()
        until(lambda: not running(*watching), timeout=10, what="cat saw the end of its input")


def test_a_terminal_whose_link_breaks_is_no_exit_status(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Path(os.devnull).open() as nothing, Proxy(sshd.port) as proxy, ThreadPoolExecutor(1) as pool:
        # pytest's own standard input is no file
        monkeypatch.setattr("sys.stdin", nothing)
        remote = open_remote(through(sshd, proxy, tmp_path))
        session = pool.submit(remote.interactive, ["sleep", "985.31"], tty=True)
        until_runs("sleep", "985.31")
        proxy.cut()
        with pytest.raises(ConnectionLost, match=r"connection lost during sleep 985\.31"):
            session.result()
        # sshd hangs up a terminal
        until(lambda: not running("sleep", "985.31"), timeout=10, what="the session is gone")
        # a session that a signal ends has no status either, and its link stands
        killed = pool.submit(remote.interactive, ["sh", "-c", "kill -9 $$"], tty=True)
        assert killed.result() == 255


def test_a_port_that_never_says_a_word(sshd: Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        connection = connection_to(sshd, port=silent.getsockname()[1])
        with pytest.raises(HostUnreachable, match="no banner came in 1 s"):
            open_remote(dataclasses.replace(connection, connect_timeout=1.0)).run(["true"])


def test_a_read_is_sent_again_after_a_cut_and_a_change_is_not(sshd: Sshd, tmp_path: Path) -> None:
    with Proxy(sshd.port) as proxy:
        remote = open_remote(through(sshd, proxy, tmp_path))
        remote.run(["true"])
        fifo = tmp_path / "fifo"
        subprocess.run(["mkfifo", str(fifo)], check=True)

        def cut_when_it_waits() -> None:
            until_runs("cat", str(fifo))
            first = running("cat", str(fifo))
            proxy.cut()
            for pid in first:
                os.kill(pid, signal.SIGKILL)
            while set(first) & set(running("cat", str(fifo))):
                time.sleep(0.02)
            # the second try is answered
            fifo.write_text("second")

        helper = threading.Thread(target=cut_when_it_waits)
        helper.start()
        assert remote.read([CommandRead("a", ("cat", str(fifo)))])["a"].text == "second"
        helper.join()
        assert proxy.accepted == 2

        counter = tmp_path / "counter"

        def cut_when_it_has_begun() -> None:
            until(counter.exists, timeout=30, what="the change has begun")
            proxy.cut()

        helper = threading.Thread(target=cut_when_it_has_begun)
        helper.start()
        with pytest.raises(ConnectionLost, match=r"process [0-9]+ may still run there"):
            remote.run(["sh", "-c", f"echo x >>{counter}; sleep 985.2"])
        helper.join()
        assert counter.read_text() == "x\n"
        for pid in running("sleep", "985.2"):
            os.kill(pid, signal.SIGTERM)
        # and the next command makes a new connection
        assert remote.run(["echo", "again"]).text == "again\n"


def test_a_connection_that_died_while_idle_is_made_anew(sshd: Sshd, tmp_path: Path) -> None:
    with Proxy(sshd.port) as proxy:
        remote = open_remote(through(sshd, proxy, tmp_path))
        remote.run(["true"])
        proxy.cut()
        assert remote.run(["echo", "x"]).text == "x\n"
        assert proxy.accepted == 2


# ways there


def test_jump_host(sshd: Sshd, tmp_path: Path) -> None:
    inner = start_sshd(tmp_path / "inner")
    try:
        known = tmp_path / "known_hosts"
        config = tmp_path / "config"
        config.write_text(
            f"Host gate\n  HostName 127.0.0.1\n  Port {sshd.port}\n  IdentityFile {sshd.key_file}\n"
            f"Host *\n  UserKnownHostsFile {known}\n  GlobalKnownHostsFile none\n  User {sshd.user}\n"
        )
        connection = Connection(
            name="host1",
            address="127.0.0.1",
            port=inner.port,
            private_key_file=str(inner.key_file),
            common_args=("-F", str(config), "-J", "gate"),
        )
        with pytest.raises(HostKeyRejected, match="jump host gate"):
            open_remote(connection).run(["true"])
        recorded = [shown.record() for shown in look(connection)]
        assert recorded == [str(known)] * 2
        remote = open_remote(connection)
        assert remote.run(["sh", "-c", "echo $SSH_CONNECTION"]).text.split()[3] == str(inner.port)
        with pytest.raises(CommandTimeout, match="was ended"):
            remote.run(["sleep", "987.6"], timeout=1)
        assert running("sleep", "987.6") == []
        remote.close()
        old = dataclasses.replace(
            connection, common_args=("-F", str(config), "-o", "ProxyCommand=ssh -W %h:%p -q gate")
        )
        remote = open_remote(old)
        assert remote.run(["echo", "old"]).text == "old\n"
        remote.close()
        refused = dataclasses.replace(connection, common_args=("-o", "ProxyCommand=nc %h %p"))
        with pytest.raises(UsageError, match="ProxyCommand"):
            open_remote(refused)
    finally:
        inner.close()


# accounts: made for the test, with a login shell or sudo rights of their own


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own are the test user's alone."""
    with tempfile.TemporaryDirectory(prefix="klops-home-") as place:
        Path(place).chmod(0o755)
        yield Path(place)


@pytest.mark.parametrize("shell", ["dash", "bash", "fish", "tcsh"])
def test_row_E35_login_shells_and_their_noise(accounts_sshd: Sshd, folder: Path, shell: str) -> None:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    account = Account(shell, path, folder / "home")
    try:
        home = folder / "home"
        noise = "echo 'hello \x1b[1mthere'\necho complaint >&2\n" if shell == "bash" else "echo hello\n"
        for name in (".bashrc", ".tcshrc", ".config/fish/config.fish"):
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(noise)
        subprocess.run(["chown", "-R", account.name, str(home)], check=True)
        remote = open_remote(dataclasses.replace(connection_to(accounts_sshd), user=account.name))
        words = ["it's", "$HOME", "`x`", "a\nb", "!1", "\\"]
        done = remote.run(["printf", "%s\\0", *words], stdin=b"x")
        assert (done.stdout.decode().split("\0")[:-1], done.stderr) == (words, b"")
        assert remote.run(["cat"], stdin=b"data").stdout == b"data"
        assert remote.read([CommandRead("a", ("id", "-un"))])["a"].text == f"{account.name}\n"
        with pytest.raises(CommandTimeout, match="was ended"):
            remote.run(["sleep", "987.7"], timeout=1)
        assert running("sleep", "987.7") == []
        remote.close()
    finally:
        account.remove()


def test_an_account_without_a_shell_says_so(accounts_sshd: Sshd, folder: Path) -> None:
    account = Account("nologin", "/usr/sbin/nologin", folder / "home")
    try:
        remote = open_remote(dataclasses.replace(connection_to(accounts_sshd), user=account.name))
        with pytest.raises(CommandFailed, match=r"did not start.*not available"):
            remote.run(["true"])
    finally:
        account.remove()


@pytest.mark.skipif(shutil.which("sudo") is None, reason="sudo is not installed")
def test_sudo(accounts_sshd: Sshd, folder: Path) -> None:
    account = Account("sudo", shutil.which("sh") or "/bin/sh", folder / "home")
    password = "made-up 'pass' $word"
    try:
        account.set_password(password)
        connection = dataclasses.replace(connection_to(accounts_sshd), user=account.name, become=True)
        with pytest.raises(CommandFailed, match="sudo") as caught:
            open_remote(connection).run(["id", "-u"])
        assert caught.value.code == "become"
        with sudo_rule(f"Defaults:{account.name} timestamp_timeout=0", f"{account.name} ALL=(ALL) ALL"):
            sudo_with_a_password(connection, password)
        with sudo_rule(f"{account.name} ALL=(ALL) NOPASSWD: ALL"):
            sudo_without_one(connection, account)
    finally:
        account.remove()
    with pytest.raises(KeyError):
        pwd.getpwnam(account.name)


def sudo_with_a_password(connection: Connection, password: str) -> None:
    with pytest.raises(CommandFailed, match="password is required") as caught:
        open_remote(connection).run(["id", "-u"])
    assert "KLOPS_BECOME_PASSWORD" in caught.value.hint
    with pytest.raises(CommandFailed, match="did not take the password"):
        open_remote(dataclasses.replace(connection, become_password=Secret("wrong"))).run(["id", "-u"])
    remote = open_remote(dataclasses.replace(connection, become_password=Secret(password)))
    done = remote.run(["sh", "-c", "id -u; cat"], stdin=b"data")
    assert (done.stdout, done.stderr) == (b"0\ndata", b"")
    assert remote.read([CommandRead("a", ("id", "-u"))])["a"].text == "0\n"
    with pytest.raises(CommandTimeout, match="was ended"):
        remote.run(["sleep", "987.8"], timeout=2)
    assert running("sleep", "987.8") == []
    remote.close()


def sudo_without_one(connection: Connection, account: Account) -> None:
    remote = open_remote(connection)
    assert remote.run(["id", "-u"]).text == "0\n"
    # a command that goes through sudo by itself is another user's, and ended all the same
    plain = open_remote(connection, become=False)
    assert plain.run(["id", "-un"]).text == f"{account.name}\n"
    with pytest.raises(CommandTimeout, match="was ended"):
        plain.run(["sudo", "-n", "sleep", "987.9"], timeout=1)
    assert running("sleep", "987.9") == []
    remote.close()
    plain.close()
