"""Connection variables, typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from klops.errors import SourceErrors
from klops.inventory import Connection, Inventory, load
from klops.secret import Secret
from tests.unit.inventory.conftest import Write


@pytest.fixture(autouse=True)
def no_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KLOPS_SSH_PASSWORD", raising=False)
    monkeypatch.delenv("KLOPS_BECOME_PASSWORD", raising=False)


def with_host(write: Write, variables: str) -> Inventory:
    return write(f"g: {{hosts: {{h: {{{variables}}}}}}}")


def test_nothing_given_leaves_it_to_ssh(write: Write) -> None:
    assert with_host(write, "").connection("h") == Connection(name="h", address="h")


def test_everything_given(write: Write) -> None:
    connection = with_host(
        write,
        "ansible_host: 192.0.2.7, ansible_port: 2022, ansible_user: no, ansible_ssh_private_key_file: ~/k,"
        " ansible_become: yes, ansible_become_password: 012, ansible_password: 'made up', ansible_timeout: 3,"
        " ansible_ssh_common_args: \"-o ProxyJump='a b' -v\", ansible_ssh_extra_args: -4,"
        " ansible_ssh_args: -C -o ControlMaster=auto, ansible_become_user: alice, ansible_become_method: sudo"
        ","
        " ansible_shell_type: sh",
    ).connection("h")
    assert connection == Connection(
        name="h",
        address="192.0.2.7",
        port=2022,
        user="no",
        private_key_file="~/k",
        become=True,
        become_password=Secret("012"),
        password=Secret("made up"),
        become_user="alice",
        common_args=("-C", "-o", "ControlMaster=auto", "-o", "ProxyJump=a b", "-v", "-4"),
        connect_timeout=3.0,
    )
    assert "made up" not in repr(connection)


def test_passwords_from_the_environment(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLOPS_SSH_PASSWORD", "made up 1")
    monkeypatch.setenv("KLOPS_BECOME_PASSWORD", "made up 2")
    inventory = write("g: {hosts: {h: , i: {ansible_password: own}}}")
    connection = inventory.connection("h")
    assert connection.password == Secret("made up 1")
    assert connection.become_password == Secret("made up 2")
    assert inventory.connection("i").password == Secret("own")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        *[("ssh", "ssh"), ("local", "local"), ("paramiko", "ssh"), ("paramiko_ssh", "ssh"), ("smart", "ssh")],
        *[("ansible.builtin.ssh", "ssh"), ("ansible.builtin.local", "local")],
    ],
)
def test_kinds(write: Write, kind: str, expected: str) -> None:
    assert with_host(write, f"ansible_connection: {kind}").connection("h").kind == expected


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ("ansible_connection: docker", "ansible_connection: 'docker' is not supported"),
        ("ansible_connection: loca", "ansible_connection: 'loca' is not supported (did you mean local?)"),
        ("ansible_port: 022", "ansible_port is a number from 1 to 65535, not '022'"),
        ("ansible_port: 22:22", "ansible_port is a number from 1 to 65535, not '22:22'"),
        ("ansible_port: 65536", "ansible_port is a number from 1 to 65535, not '65536'"),
        ("ansible_become: perhaps", "ansible_become is true or false, not 'perhaps'"),
        ("ansible_become_method: su", "ansible_become_method: 'su' is not supported (did you mean sudo?)"),
        ("ansible_port: 80000", "not '80000' (a digit too many? 8000 would be one)"),
        ("ansible_port: 022", "not '022' (write 22)"),
        ("ansible_port: 22:22", "not '22:22' (one port: that of sshd on the host)"),
        ("ansible_host: '{{ ip }}'", "templates are not supported in ansible_host (write the value itself)"),
        ("ansible_user: [a]", "ansible_user is a single value"),
        ('ansible_ssh_common_args: "-o \'x"', "ansible_ssh_common_args cannot be split into words"),
        ("ansible_timeout: soon", "ansible_timeout is a number of seconds above 0, not 'soon'"),
    ],
)
def test_mistakes(write: Write, variables: str, message: str) -> None:
    inventory = with_host(write, variables)
    with pytest.raises(SourceErrors) as caught:
        inventory.connection("h")
    (mistake,) = caught.value.mistakes
    assert message in str(mistake)
    assert (mistake.location.file, mistake.location.line) == ("hosts.yml", 1)


def test_several_mistakes_at_once(write: Write) -> None:
    inventory = with_host(write, "ansible_port: x, ansible_become: z")
    with pytest.raises(SourceErrors) as caught:
        inventory.connection("h", extra={"ansible_connection": "telnet"})
    assert [str(m.location) for m in caught.value.mistakes] == ["-e", "hosts.yml:1:31", "hosts.yml:1:50"]


@pytest.mark.parametrize(
    ("word", "expected"),
    [("1", True), ("'0'", False), ("Y", True), ("n", False), ("'True'", True), ("off", False)],
)
def test_words_for_become(write: Write, word: str, expected: bool) -> None:
    assert with_host(write, f"ansible_become: {word}").connection("h").become is expected


def test_which_of_several_names_wins(write: Write) -> None:
    """As Ansible's lookup of its options says: the more special name."""
    connection = with_host(
        write,
        "ansible_host: a, ansible_ssh_host: b, ansible_port: 1, ansible_ssh_port: 2, ansible_user: a,"
        " ansible_ssh_user: b, ansible_password: a, ansible_ssh_pass: b, ansible_ssh_password: c,"
        " ansible_private_key_file: a, ansible_ssh_private_key_file: b, ansible_timeout: 1,"
        " ansible_ssh_timeout: 2, ansible_become_user: a, ansible_sudo_user: b,"
        " ansible_become_password: a, ansible_become_pass: b, ansible_sudo_pass: c",
    ).connection("h")
    assert (connection.address, connection.port, connection.user) == ("b", 2, "b")
    assert (connection.password, connection.private_key_file) == (Secret("c"), "b")
    assert (connection.connect_timeout, connection.become_user) == (2.0, "b")
    assert connection.become_password == Secret("c")


def test_the_words_of_ssh_arguments_reach_the_ssh_settings(write: Write) -> None:
    """Ansible's own default of ansible_ssh_args is taken, and does nothing here."""
    from klops.remote.sshconfig import parse_args

    connection = with_host(
        write,
        "ansible_ssh_args: -C -o ControlMaster=auto -o ControlPersist=60s,"
        " ansible_ssh_common_args: -J jump.example.org, ansible_ssh_extra_args: -o ServerAliveInterval=15",
    ).connection("h")
    assert parse_args(connection.common_args)["proxyjump"] == ["jump.example.org"]


def test_a_password_that_was_asked_for_is_weaker_than_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KLOPS_SSH_PASSWORD", "made-up from the environment")
    (tmp_path / "hosts.yml").write_text("all: {hosts: {a: {}, b: {ansible_password: made-up of the host}}}\n")
    inventory = load([str(tmp_path / "hosts.yml")]).knowing({"KLOPS_SSH_PASSWORD": Secret("made-up typed")})
    passwords = [inventory.beside(tmp_path).connection(name).password for name in ("a", "b")]
    assert [p and p.reveal() for p in passwords] == ["made-up typed", "made-up of the host"]
