"""Rows of the field reports on inventories: duplicates (49), and what YAML makes of values (47)."""

from __future__ import annotations

from pathlib import Path

import pytest

from klops.errors import SourceErrors
from klops.inventory import load
from tests.unit.inventory.conftest import Write

BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"


def refused(write: Write, text: str, **files: str) -> str:
    with pytest.raises(SourceErrors) as caught:
        write(text, **files)
    (mistake,) = caught.value.mistakes
    return str(mistake)


def test_row_H49_a_host_twice_in_one_group(write: Write) -> None:
    found = refused(write, "g:\n  hosts:\n    h: {a: 1}\n    i:\n    h: {b: 2}\n")
    assert found == "hosts.yml:5:5: the key 'h' is given twice: line 3 and line 5 (keep one of them)"


def test_row_H49_a_group_twice(write: Write) -> None:
    found = refused(write, "g:\n  hosts: {h: }\ng:\n  hosts: {i: }\n")
    assert found == "hosts.yml:3:1: the key 'g' is given twice: line 1 and line 3 (keep one of them)"


def test_row_H49_two_spellings_of_one_key(write: Write) -> None:
    found = refused(write, "g: {hosts: {h: {d: {10: a,\n 0xA: b}}}}")
    assert found == "hosts.yml:2:2: the key '0xA' is given twice: line 1 and line 2 (keep one of them)"


def test_row_H49_a_variable_twice_in_a_file_of_variables(write: Write) -> None:
    found = refused(write, "g: {hosts: {h: }}", group_vars__g="a: 1\nb: 2\na: 3\n")
    where = Path("group_vars/g.yml")
    assert found == f"{where}:3:1: the key 'a' is given twice: line 1 and line 3 (keep one of them)"


def test_row_H49_in_an_ini_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts").write_text("[g]\nh a=1\ni\nh a=2\n[g:vars]\nv=1\n\nv=2\n", encoding="utf-8")
    with pytest.raises(SourceErrors) as caught:
        load(["hosts"])
    assert [mistake.message for mistake in caught.value.mistakes] == [
        "the variable 'a' of the host h is given twice: line 2 and line 4; the file is read as INI",
        "the variable 'v' of the group g is given twice: line 6 and line 8; the file is read as INI",
    ]


def test_row_H49_a_range_and_a_host_of_it_are_no_duplicates(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("[g]\nh[1:3] a=range\nh2 a=own\n", encoding="utf-8")
    inventory = load([str(tmp_path / "hosts")])
    assert [inventory.plain_variables(host)["a"] for host in inventory.hosts] == ["range", "own", "range"]


def test_row_H49_merge_keys_override_silently(write: Write) -> None:
    inventory = write(
        "g:\n  vars:\n    base: &base {a: 1, b: 2}\n    own: {<<: *base, b: 3}\n  hosts: {h: }\n"
    )
    assert inventory.plain_variables("h")["own"] == {"a": 1, "b": 3}


def test_row_H49_a_byte_order_mark(write: Write) -> None:
    assert list(write(BOM + "g: {hosts: {h: }}").hosts) == ["h"]
    found = refused(write, f"---\n{BOM}g: {{hosts: {{h: }}}}")
    assert found == "hosts.yml:2:1: a byte order mark in mid-file (delete it)"


def test_row_H49_a_tab(write: Write) -> None:
    assert refused(write, "g:\n\thosts:\n\t\th:\n").startswith("hosts.yml:2:1: tab at line 2")


def test_row_H47_a_host_and_a_group_named_no(write: Write) -> None:
    inventory = write("no: {hosts: {no: , on: , 012: , 1e3: , 1.10: }}")
    assert list(inventory.hosts) == ["no", "on", "012", "1e3", "1.10"]
    assert inventory.group_names("no") == ["no"]
    # of a name that both have, a pattern means the host, as in Ansible
    assert inventory.select(["no"]) == ["no"]
    assert inventory.select(["all:!on"]) == ["no", "012", "1e3", "1.10"]


@pytest.mark.parametrize("port", ["22:22", "012", "0x16", "1e3", "2_2", "22.0", "yes", "2024-01-01"])
def test_row_H47_a_port_is_what_was_typed_or_refused(write: Write, port: str) -> None:
    inventory = write(
        f"g: {{hosts: {{h: {{ansible_port: {port},"
        f" klops: {{services: {{s: {{model: /m, port: {port}}}}}}}}}}}}}"
    )
    with pytest.raises(SourceErrors, match="ansible_port is a number from 1 to 65535, not ") as caught:
        inventory.connection("h")
    assert port in str(caught.value)
    with pytest.raises(
        SourceErrors, match=r"klops\.services\.s\.port: expected a whole number, found"
    ) as caught:
        inventory.settings("h")
    assert port in str(caught.value)


@pytest.mark.parametrize("typed", ["no", "012", "1e3", "22:22", "2024-01-01", "1.10", "0644", "~x"])
def test_row_H47_text_is_what_was_typed(write: Write, typed: str) -> None:
    inventory = write(
        f"g: {{hosts: {{h: {{ansible_user: {typed}, ansible_password: {typed},"
        f" klops: {{container: {{env: {{A: {typed}}}, image: {typed}}}}}}}}}}}"
    )
    connection, settings = inventory.connection("h"), inventory.settings("h")
    assert connection.user == typed
    assert connection.password is not None
    assert connection.password.reveal() == typed
    assert (settings.container.env["A"], settings.container.image) == (typed, typed)


@pytest.mark.parametrize("typed", ["no", "012", "1e3", "22:22", "2024-01-01", "1.10", "0644", "'0644'"])
def test_row_H47_in_an_ini_file(tmp_path: Path, typed: str) -> None:
    (tmp_path / "hosts.ini").write_text(
        f"[g]\nh ansible_user={typed}\n[g:vars]\nansible_password={typed}\n", "utf-8"
    )
    connection = load([str(tmp_path / "hosts.ini")]).connection("h")
    assert connection.user == typed.strip("'")
    assert connection.password is not None
    assert connection.password.reveal() == typed.strip("'")
