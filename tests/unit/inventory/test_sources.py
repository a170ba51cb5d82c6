"""What ``-i`` and ``$KLOPS_INVENTORY`` name, and in which form a file is read."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from klops.errors import SourceErrors, UsageError
from klops.inventory import default_sources, load
from klops.inventory.forms import Form, form_of


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KLOPS_INVENTORY", raising=False)
    return tmp_path


def test_default_sources(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="there is no inventory"):
        default_sources([])
    (folder / "inventory").mkdir()
    assert default_sources([]) == ["inventory"]
    monkeypatch.setenv("KLOPS_INVENTORY", "a.yml,b")
    assert default_sources([]) == ["a.yml", "b"]
    assert default_sources(["c"]) == ["c"]


def test_the_variable_is_a_list_of_hosts_with_a_comma_at_its_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KLOPS_INVENTORY", "h1,h2,")
    assert list(load(default_sources([])).hosts) == ["h1", "h2"]
    (folder / "h1").write_text("[g]\nx\n", encoding="utf-8")
    assert default_sources([]) == ["h1", "h2"]


def test_a_list_of_hosts() -> None:
    inventory = load(["h1, h2:2222,[2001:db8::1]:22,2001:db8::2,rack[1:2],"])
    assert list(inventory.hosts) == ["h1", "h2", "2001:db8::1", "2001:db8::2", "rack1", "rack2"]
    assert inventory.connection("h2").port == 2222
    assert inventory.variables("h1")["inventory_file"] is None
    assert inventory.groups["ungrouped"].hosts == list(inventory.hosts)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "a.yml,b.yml",
            "-i a.yml,b.yml: with a comma it is a list of hosts, and a.yml is a file (give -i once",
        ),
        (",", "-i ,: names no host (write host1,host2,)"),
        ("h1,h 2,", "-i h1,h 2,: 'h 2' is no host's name"),
        ("h1,h2:", "-i h1,h2:: 'h2:' ends with a colon and names no port"),
        ("h1:0,", "-i h1:0,: 'h1:0': 0 is no port"),
        (
            "none.yml",
            "none.yml: there is no such inventory (check the path; a list of hosts has a comma: -i host1,)",
        ),
    ],
)
def test_wrong_sources(folder: Path, source: str, message: str) -> None:
    (folder / "a.yml").write_text("g: {hosts: {a: }}", encoding="utf-8")
    with pytest.raises(SourceErrors) as caught:
        load([source])
    assert str(caught.value.mistakes[0]).startswith(message)


@pytest.mark.parametrize(
    ("name", "content", "form"),
    [
        ("hosts.ini", "a: {b: }", Form.INI),
        ("hosts.example.org", "h", Form.INI),
        ("hosts.yml", "[g]\nh", Form.INI),
        ("hosts.yml", "# x\n\n[g:vars] # y", Form.INI),
        ("hosts.yml", "[a, b]", Form.YAML),
        ("hosts.yml", "h", Form.YAML),
        ("hosts.yaml", "", Form.YAML),
        ("hosts.json", "[g]", Form.YAML),
        ("hosts", "[g]", Form.INI),
        ("hosts", "h1 a=1\nh2", Form.INI),
        ("hosts", "h1", Form.INI),
        ("hosts", "h1:22", Form.INI),
        ("hosts", "all:\n  hosts: [", Form.YAML),
        ("hosts", "---\nx", Form.YAML),
        ("hosts", "{g: {hosts: {a: }}}", Form.YAML),
        ("hosts", "g: {hosts: {a: }}", Form.YAML),
        ("hosts", "# nothing", Form.YAML),
        ("hosts", "#!/usr/bin/env klops\n[g]", Form.INI),
    ],
)
def test_forms(name: str, content: str, form: Form) -> None:
    assert form_of(Path(name), content.encode()) is form


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("hosts.toml", b"[g]", "hosts.toml: TOML inventories are not supported (write it as YAML or INI)"),
        ("hosts", b"\x7fELF\0\0", "hosts: neither text nor an executable program"),
        ("hosts.ini", b"[g]\nh\xff\n", "hosts.ini:2:2: this is not UTF-8 text (save the file as UTF-8)"),
        ("hosts.ini", b"[g]\n\xef\xbb\xbfh\n", "hosts.ini:2:1: a byte order mark in mid-file (delete it)"),
        ("hosts.yml", b"h1 a=1", "hosts.yml:1:1: an inventory is a mapping of groups"),
        ("hosts", b"[g]\nh a", "hosts:2:3: expected NAME=VALUE, found 'a'; the file is read as INI (quote"),
        ("hosts.yml", b"[g]\nh a", "hosts.yml:2:3: expected NAME=VALUE, found 'a'; the file is read as INI"),
        (
            "hosts",
            b"g:\n  hots: {a: }",
            "hosts:2:3: unknown key hots in the group g; the file is read as YAML",
        ),
        (
            "hosts",
            b"#!/bin/sh\necho {}",
            "hosts:1:1: begins as a program does, isn't executable and is no inv",
        ),
    ],
)
def test_files_that_are_refused(folder: Path, name: str, content: bytes, message: str) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(SourceErrors) as caught:
        load([name])
    assert str(caught.value.mistakes[0]).startswith(message)


def test_a_folder_is_read_in_order_and_must_hold_files(folder: Path) -> None:
    for name in ("b/2.ini", "b/1.ini", "a.ini", "b/group_vars/g", "b/vars_plugins/x", "b/.c", "b/d.retry"):
        (folder / "all" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "all" / name).write_text(f"h{len(name)}x{name[-5:-4]}\n", encoding="utf-8")
    assert list(load(["all"]).hosts) == ["h5xa", "h7x1", "h7x2"]
    (folder / "all" / "gone.ini").symlink_to(folder / "nowhere")
    with pytest.raises(SourceErrors, match=r"gone\.ini: neither a file nor a folder"):
        load(["all"])
    (folder / "all" / "gone.ini").unlink()
    (folder / "all" / "b" / "loop").symlink_to(folder / "all", target_is_directory=True)
    with pytest.raises(SourceErrors, match="loop: a link to a folder above it"):
        load(["all"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX")
@pytest.mark.parametrize("text", ["g: {hosts: {h: }}", "[g]\nh\n"])
def test_a_pipe_gives_its_content_once(folder: Path, text: str) -> None:
    os.mkfifo(folder / "pipe")
    writer = threading.Thread(target=(folder / "pipe").write_text, args=(text, "utf-8"))
    writer.start()
    assert load(["pipe"]).members("g") == ["h"]
    writer.join()


def test_line_ends_of_all_systems(folder: Path) -> None:
    (folder / "hosts.ini").write_bytes(b"[g]\rh1 a=1\r\nh2\nh3\r")
    assert load(["hosts.ini"]).members("g") == ["h1", "h2", "h3"]


def test_odd_bytes_in_a_comment_are_nobodys_business(folder: Path) -> None:
    (folder / "hosts.ini").write_bytes(b"\xef\xbb\xbf[g]\r\n# K\xf6ln\r\nh a=1\r\n; \xff\r\n")
    inventory = load(["hosts.ini"])
    assert inventory.plain_variables("h") == {"a": 1}
    assert inventory.members("g") == ["h"]
