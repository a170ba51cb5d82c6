"""Secrets of settings: their forms, when they are read, and what is said when they can't be."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from klops.errors import SourceErrors
from klops.inventory.masking import masked, masked_line
from klops.inventory.secretforms import secret
from klops.secret import MASK, Redactor, Secret
from tests.unit.inventory.conftest import Write

FLEET = "g: {hosts: {h: {klops: {services: {s: {model: /m, api_key: %s}}}}}}"


def test_forms(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MADE_UP_KEY", "from env")
    (tmp_path / "key.txt").write_text("from file\n", encoding="utf-8")
    program = f"[{sys.executable}, -c, 'print(\"from command\")']"
    for form, value, source in [
        ("0123", "0123", "value"),
        ("{env: MADE_UP_KEY}", "from env", "env MADE_UP_KEY"),
        ("{file: key.txt}", "from file", "file key.txt"),
        (f"{{command: {program}}}", "from command", f"command {sys.executable}"),
    ]:
        found = write(FLEET % form).settings("h").services["s"].api_key
        assert found is not None
        assert (found.reveal(), found.source, str(found)) == (value, source, MASK)


def test_a_relative_file_is_beside_the_file_that_names_it(write: Write, tmp_path: Path) -> None:
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "key").write_text("made up", encoding="utf-8")
    inventory = write(
        "g: {hosts: {h: }}", group_vars__g="klops: {services: {s: {model: /m, api_key: {file: key}}}}"
    )
    found = inventory.settings("h").services["s"].api_key
    assert found is not None
    assert found.reveal() == "made up"


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("{env: MADE_UP_UNSET}", "the environment variable MADE_UP_UNSET is not set"),
        ("{file: none.txt}", "the file none.txt cannot be read: No such file"),
        ("{file: ~no-such-user-here/x}", "the file ~no-such-user-here/x cannot be read: No such file"),
        ("{file: empty.txt}", "the file empty.txt is empty"),
        ("{command: [/no/such/program]}", "the command /no/such/program cannot be run: No such file"),
        (f"{{command: [{sys.executable}, -c, 'exit(3)']}}", "ended with status 3"),
        (f"{{command: [{sys.executable}, -c, pass]}}", "printed nothing"),
    ],
)
def test_a_secret_that_cannot_be_read_names_its_setting_and_stops_nobody_who_looks(
    write: Write, tmp_path: Path, form: str, message: str
) -> None:
    (tmp_path / "empty.txt").write_text("\n", encoding="utf-8")
    settings = write(FLEET % form).settings("h")
    settings.resolve_secrets(Redactor())
    (missing,) = settings.missing_secrets(["s"])
    assert missing.message.startswith("klops.services.s.api_key: ")
    assert message in missing.message
    assert missing.hint


def test_a_key_with_a_line_break_is_refused_where_it_is_written(write: Write) -> None:
    for value in ('"made\\nup"', '"made\\tup"', '"made up\\x7f"'):
        with pytest.raises(SourceErrors, match=r"api_key: a key can't hold a line break") as caught:
            write(FLEET % value).settings("h")
        assert caught.value.mistakes[0].location.line == 1
        assert "made" not in str(caught.value)


def test_a_key_with_a_line_break_is_refused_when_it_is_read(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key.txt").write_text("made\r\nup\n", encoding="utf-8")
    monkeypatch.setenv("MADE_UP_KEY", "made up\n")
    for form in ("{file: key.txt}", "{env: MADE_UP_KEY}"):
        settings = write(FLEET % form).settings("h")
        settings.resolve_secrets(Redactor())
        (unusable,) = settings.missing_secrets(["s"])
        assert unusable.code == "secret-unusable"
        assert "made" not in f"{unusable} {unusable.hint}"


def test_a_command_that_fails_is_not_asked_again(write: Write, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    code = f"open({str(asked)!r}, 'a').write('x'); exit(1)"
    settings = write(FLEET % f"{{command: [{sys.executable}, -c, {code!r}]}}").settings("h")
    settings.resolve_secrets(Redactor())
    assert len(settings.missing_secrets(["s"])) == 1
    assert asked.read_text(encoding="utf-8") == "x"


def test_resolved_secrets_are_masked_in_text(write: Write) -> None:
    redactor = Redactor()
    write(FLEET % "'made-up \"key\" $x'").settings("h").resolve_secrets(redactor)
    assert redactor('key=made-up "key" $x') == f"key={MASK}"


def test_a_secret_stays_itself() -> None:
    given = Secret("made up")
    assert secret(given) is given


def test_masking() -> None:
    values = {
        "ansible_password": "p",
        "ansible_ssh_pass": 12,
        "ansible_become_password": None,
        "ansible_user": "root",
        "kept": {"ansible_password": "nested names are other people's"},
        "klops": {"services": {"a": {"api_key": "k"}, "b": {"api_key": {"env": "NAME"}, "port": 1}}},
        "list": [Secret("s"), 1],
    }
    assert masked(values) == {
        "ansible_password": MASK,
        "ansible_ssh_pass": MASK,
        "ansible_become_password": None,
        "ansible_user": "root",
        "kept": {"ansible_password": "nested names are other people's"},
        "klops": {"services": {"a": {"api_key": MASK}, "b": {"api_key": {"env": "NAME"}, "port": 1}}},
        "list": [MASK, 1],
    }
    assert masked("k", ("klops", "services", "a", "api_key")) == MASK


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("h1 ansible_password=s3cret ansible_port=x", "h1 ansible_password=******** ansible_port=x"),
        ("h1 ansible_password='s3 cret' a=b", "h1 ansible_password=******** a=b"),
        ('h1 ansible_ssh_pass=s3"c r"et a=b', "h1 ansible_ssh_pass=******** a=b"),
        ('h1 ansible_password="s3cret a=b', "h1 ansible_password=********"),
        ("ansible_become_pass = s3 cret", "ansible_become_pass = ********"),
        ("    ansible_password: s3, c}ret # why", "    ansible_password: ********"),
        ("  - ansible_password: s3cret", "  - ansible_password: ********"),
        ("h1: {ansible_password: s3 cret, a: 1}", "h1: {ansible_password: ********, a: 1}"),
        ('{"h1": {"ansible_password":"s3\\"cret","a": 1}}', '{"h1": {"ansible_password":********,"a": 1}}'),
        (
            "options: ['--extra-index-url=https://ci:s3@cret@index.example/simple', -v]",
            "options: ['--extra-index-url=https://********@index.example/simple', -v]",
        ),
        ("    index_url: https://ci:s3cret@index.example", "    index_url: ********"),
        ("llm: {api_key: 's3''cret', prot: 1}", "llm: {api_key: ********, prot: 1}"),
        ("h1: {ansible_password: [s3, cret], a: 1}", "h1: {ansible_password: ********, a: 1}"),
        (
            "h1 ansible_password=s3cret ansible_become_pass=t0p a=b",
            "h1 ansible_password=******** ansible_become_pass=******** a=b",
        ),
    ],
)
def test_a_line_that_is_shown_with_a_mistake_holds_no_secret(line: str, shown: str) -> None:
    assert masked_line(line)[0] == shown


@pytest.mark.parametrize(
    "line",
    [
        "api_key: {env: NAME}",
        "ansible_password: {env: NAME}",
        "ansible_password: \"{{ lookup('env', 'NAME') }}\"",
        "ansible_password:",
        "my_ansible_password=x the_api_key: x",
        "ansible_passwords: x",
    ],
)
def test_where_a_secret_comes_from_is_shown(line: str) -> None:
    assert masked_line(line, 3) == (line, 3)


def test_a_column_of_a_masked_line_is_still_that_of_its_place() -> None:
    line = "h1 ansible_password=a-long-s3cret ansible_port=x"
    assert masked_line(line, 1)[1] == 1
    shown, column = masked_line(line, line.index("x") + 1)
    assert shown[column - 1] == "x"
    shown, column = masked_line(line, line.index("s3") + 1)
    assert shown[column - 1 :].startswith("********")
    assert masked_line("ansible_password=abc", 0)[1] == 0
