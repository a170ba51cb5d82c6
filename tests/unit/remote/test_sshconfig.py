"""From connection settings, ssh arguments and ssh configuration to hops."""

from __future__ import annotations

from pathlib import Path

import pytest
from paramiko import SSHConfig

from klops.errors import UsageError
from klops.inventory.connection import Connection
from klops.remote.sshconfig import Target, expand_includes, parse_args, resolve


def target(text: str = "", *, args: tuple[str, ...] = (), **settings: object) -> Target:
    connection = Connection(**{"name": "h", "address": "h", "user": "me", "common_args": args, **settings})  # type: ignore[arg-type]  # made up by each test
    return resolve(connection, SSHConfig.from_text(text))


def test_the_inventory_wins_over_arguments_over_configuration() -> None:
    text = "Host h\n  HostName 10.0.0.1\n  Port 1\n  User conf\n"
    assert (target(text, user=None).address, target(text, user=None).port) == ("10.0.0.1", 1)
    assert target(text, user=None).user == "conf"
    by_args = target(text, user=None, args=("-o", "User=args", "-p", "2"))
    assert (by_args.user, by_args.port) == ("args", 2)
    assert (target(text, port=3, args=("-p", "2")).port, target(text).user) == (3, "me")


def test_arguments() -> None:
    found = parse_args(["-C", "-oPort 2", "-o", "UserKnownHostsFile=/a /b", "-J", "x,y", "-vvi", "key"])
    assert found == {
        "port": ["2"],
        "userknownhostsfile": ["/a /b"],
        "proxyjump": ["x,y"],
        "identityfile": ["key"],
    }
    for wrong in (["host"], ["-p"], ["-Z", "x"]):
        with pytest.raises(UsageError):
            parse_args(wrong)


def test_what_only_looks_like_a_number_is_no_port() -> None:
    for wrong in ("\u00b2", "ssh", ""):
        with pytest.raises(UsageError, match="is not a port"):
            target("Host h\n  Port 7\n", args=("-p", wrong))


def test_files_in_the_home_of_nobody_are_not_there(tmp_path: Path) -> None:
    nobodys = "~no-such-user-here/x"
    found = target(f"Host h\n  IdentityFile {nobodys}\n  UserKnownHostsFile {nobodys}\n")
    assert (found.keys, found.user_known_hosts) == ((), (nobodys,))
    assert expand_includes(f"Include {nobodys}\nPort 2", tmp_path) == "Port 2"


def test_jump_hosts_nest_outermost_first() -> None:
    found = target("Host gate\n  HostName 1.1.1.1\n  Port 7\n", args=("-J", "ada@outer:9,gate"))
    assert found.jump is not None
    assert found.jump.jump is not None
    assert (found.jump.address, found.jump.port) == ("1.1.1.1", 7)
    assert (found.jump.jump.user, found.jump.jump.address, found.jump.jump.port) == ("ada", "outer", 9)
    assert found.jump.jump.jump is None
    assert "jump host gate" in found.jump.name


def test_a_circle_of_jump_hosts_is_found() -> None:
    with pytest.raises(UsageError, match="circle"):
        target("Host a\n  ProxyJump b\nHost b\n  ProxyJump a\n", args=("-J", "a"))


@pytest.mark.parametrize(
    ("command", "jump"),
    [
        ("ssh -W %h:%p gate", ("me2", "gate", 22)),
        ("/usr/bin/ssh -q -p 7 -l ada -W %h:%p gate", ("ada", "gate", 7)),
        ("ssh -o StrictHostKeyChecking=no ada@gate -W [%h]:%p", ("ada", "gate", 22)),
    ],
)
def test_the_old_spelling_of_a_jump(command: str, jump: tuple[str, str, int]) -> None:
    found = target("Host gate\n  User me2\n", args=("-o", f"ProxyCommand={command}"))
    assert found.jump is not None
    assert (found.jump.user, found.jump.address, found.jump.port) == jump


@pytest.mark.parametrize("command", ["nc %h %p", "ssh gate nc %h %p", "ssh -W other:1 gate", "ssh -W %h:%p"])
def test_other_proxy_commands_are_refused(command: str) -> None:
    with pytest.raises(UsageError, match="ProxyCommand") as caught:
        target(args=("-o", f"ProxyCommand={command}"))
    assert "ProxyJump" in caught.value.hint


def test_known_hosts_and_keys(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("")
    text = f"Host h\n  IdentityFile {key}\n  IdentityFile {tmp_path}/absent\n  IdentitiesOnly yes\n"
    found = target(
        text, port=2222, args=("-o", "UserKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=no")
    )
    assert found.keys == (str(key),)
    assert not found.use_agent
    assert not found.default_keys
    assert found.user_known_hosts == ()
    assert found.unchecked_wanted
    assert found.known_hosts_name == "[h]:2222"
    assert target(port=2222, args=("-o", "HostKeyAlias=Alias")).known_hosts_name == "alias"


def test_includes(tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "b").write_text("Host b\n  Port 2\n")
    (tmp_path / "conf.d" / "a").write_text("Include again\nHost a\n  Port 1\n")
    (tmp_path / "again").write_text("Include again\nHost c\n  Port 3\n")
    config = SSHConfig.from_text(expand_includes("Include conf.d/*\nHost d\n", tmp_path))
    assert [config.lookup(name)["port"] for name in "abc"] == ["1", "2", "3"]
