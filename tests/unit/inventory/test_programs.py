"""Executable inventories: what they may print, and how they fail."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from klops.errors import SourceErrors
from klops.inventory import Inventory, load
from klops.inventory.builder import Builder
from klops.inventory.programs import run_program
from klops.inventory.scriptform import ProgramReader
from tests.waiting import until

pytestmark = pytest.mark.skipif(os.name == "nt", reason="executable inventories are not supported on Windows")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def program(body: str) -> Path:
    path = Path("hosts.sh")
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def printing(text: str) -> Inventory:
    program(f"cat <<'END'\n{text}\nEND")
    return load(["hosts.sh"])


def wrong(body: str) -> str:
    program(body)
    with pytest.raises(SourceErrors) as caught:
        load(["hosts.sh"])
    return str(caught.value)


def test_typed_settings_take_what_was_printed() -> None:
    inventory = printing(
        '{"g": {"hosts": ["h"], "vars": {"ansible_port": 2222, "klops": {"services":'
        ' {"s": {"model": "/m", "args": {"v": 1.10, "w": true, "x": null}}}}}}, "_meta": {"hostvars": {}}}'
    )
    assert inventory.connection("h").port == 2222
    assert inventory.settings("h").services["s"].args == {"v": "1.10", "w": True, "x": None}
    ((level, place, value),) = inventory.explain("h", "ansible_port")
    assert (level, str(place), value) == ("group", "hosts.sh --list", 2222)


def test_mistakes_in_settings_name_the_program() -> None:
    inventory = printing('{"g": {"hosts": ["h"], "vars": {"klops": {"rot": 1}}}, "_meta": {"hostvars": {}}}')
    with pytest.raises(
        SourceErrors, match=r"^hosts\.sh --list: unknown setting klops\.rot \(did you mean root"
    ):
        inventory.settings("h")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("echo no route >&2; exit 4", "(hosts.sh --list) ended with status 4; it said: no route (run"),
        ("kill -9 $$", "(hosts.sh --list) ended with signal 9 (run it by hand to see why)"),
        ("echo hello", "hosts.sh --list: printed no JSON: Expecting value: line 1 column 1 (char 0) (it"),
        (":", "printed no JSON: Expecting value: line 1 column 1 (char 0) (it printed nothing)"),
        ("echo '[]'", "hosts.sh --list: must print an object: {GROUP: ...} (it begins with '[]')"),
        ("printf '\\377'", "printed what is not UTF-8 text"),
        ('echo \'{"g": ["a"], "g": ["b"]}\'', "the key 'g' is printed twice (print it once)"),
        ('echo \'{"g": "a", "_meta": {}}\'', "hosts.sh --list: g.hosts is not a list"),
        ('echo \'{"g": {"hosts": {"a": 1}}, "_meta": {}}\'', "g.hosts is not a list"),
        ('echo \'{"g": [1, "a"], "_meta": {"hostvars": {}}}\'', "g.hosts: '1' is no name (names are text)"),
        ('echo \'{"g": {"vars": [1]}, "_meta": {}}\'', "g.vars is not an object"),
        ('echo \'{"g": {"vars": {"a-b": 1}}, "_meta": {}}\'', "'a-b' is no variable's name"),
        ('echo \'{"g": ["a"], "_meta": {"hostvars": 7}}\'', "_meta.hostvars is not an object"),
        ('echo \'{"g": ["a"], "_meta": {"hostvars": {"a": 7}}}\'', "the variables of a is not an object"),
        ('echo \'{"g": {"children": ["g"]}}\'', "the group g cannot stand under itself"),
        (
            'echo \'{"g": {"vars": {"v": {"__ansible_vault": "x"}}}}\'',
            "g: v is encrypted with ansible-vault (print it in clear)",
        ),
        ('[ "$1" = --list ] && echo \'{"g": ["a"]}\' || exit 5', "(hosts.sh --host a) ended with status 5"),
    ],
)  # fmt: skip
def test_failures(body: str, message: str) -> None:
    assert message in wrong(body)


def test_arguments_are_no_shells() -> None:
    inventory = printing('{"g": ["a$(touch made); b"], "_meta": {"hostvars": {}}}')
    assert list(inventory.hosts) == ["a$(touch made); b"]
    program('[ "$1" = --list ] && echo \'{"g": ["$(touch made)"]}\' || echo "{\\"name\\": \\"$#\\"}"')
    assert load(["hosts.sh"]).plain_variables("$(touch made)") == {"name": "2"}
    assert not Path("made").exists()


def test_a_program_that_cannot_be_started() -> None:
    Path("hosts.sh").write_bytes(b"#!/no/such/interpreter\n")
    Path("hosts.sh").chmod(0o755)
    with pytest.raises(
        SourceErrors, match=r"hosts\.sh: the inventory program \(hosts\.sh --list\) cannot be run"
    ):
        load(["hosts.sh"])


def test_a_program_that_hangs_is_ended_with_what_it_started() -> None:
    path = program("echo waiting >&2\nsleep 600 &\necho $! >child\nwait")
    with pytest.raises(SourceErrors, match=r"did not end within 0\.5 s; it said: waiting"):
        ProgramReader(Builder(), path, timeout=0.5).read()
    until(lambda: not alive(child()), timeout=10, what="what it started is gone")


def test_a_program_that_leaves_its_output_open() -> None:
    path = program("sleep 600 &\necho $! >child\necho '{}'")
    with pytest.raises(SourceErrors, match="left a process behind that held its output open"):
        run_program(path, ["--list"], timeout=0.3)
    until(lambda: not alive(child()), timeout=10, what="what was left behind is gone")


def test_what_a_program_leaves_behind_is_ended_with_it() -> None:
    path = program("sleep 600 >/dev/null 2>&1 &\necho $! >child\necho '{}'")
    assert run_program(path, ["--list"], timeout=60) == "{}\n"
    until(lambda: not alive(child()), timeout=10, what="what was left behind is gone")


@pytest.mark.skipif(shutil.which("setsid") is None, reason="setsid is not installed")
def test_one_that_holds_the_output_in_a_session_of_its_own_keeps_nobody_waiting() -> None:
    path = program("setsid sleep 600 &\necho $! >child\necho '{}'")
    try:
        with pytest.raises(SourceErrors, match="left a process behind that held its output open"):
            run_program(path, ["--list"], timeout=0.3)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child(), signal.SIGKILL)


def child() -> int:
    """Whom the program started."""
    return int(Path("child").read_text(encoding="utf-8"))


@pytest.mark.parametrize("descriptor", [1, 2])
def test_a_program_that_never_stops_printing(descriptor: int) -> None:
    path = program(f"while :; do echo 0123456789012345678901234567890123456789; done >&{descriptor}")
    with pytest.raises(SourceErrors, match="printed more than 1 MiB"):
        run_program(path, ["--list"], timeout=60, limit=1024 * 1024)


def alive(pid: int) -> bool:
    """Whether a process is there; one that only waits to be reaped is not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"


def test_windows_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    program("echo '{}'")
    monkeypatch.setattr("klops.inventory.forms.os", SimpleNamespace(name="nt"))
    with pytest.raises(SourceErrors, match="executable inventories are not supported on Windows"):
        load(["hosts.sh"])
