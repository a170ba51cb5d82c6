"""The INI form: what it says where it is wrong, and where its values are."""

from __future__ import annotations

import ast
import itertools
import shlex
from pathlib import Path

import pytest

from klops.errors import Location, SourceErrors
from klops.inventory import Inventory, load
from klops.inventory.literals import read_literal
from klops.inventory.words import split_words
from klops.yamlsource import to_python


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def ini(text: str) -> Inventory:
    Path("hosts.ini").write_text(text, encoding="utf-8")
    return load(["hosts.ini"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[g:var]\n", "1:1: [g:var] is a section of an unknown kind (did you mean [g:vars]?)"),
        ("[g:x]\nh\n", "1:1: [g:x] is a section of an unknown kind (expected hosts, vars or children)"),
        ("[g:vars\na=1\nb=2\n", "1:1: [g:vars has no closing bracket (write [g:vars])"),
        ("[g h]\n", "1:1: [g h] is no section (write [GROUP], [GROUP:vars] or [GROUP:children], without"),
        ("[a:children]\nwbe\n[web]\n", "2:1: [a:children] names the group wbe, which has no s"),
        ("[a:children]\n  zzz\n", "2:3: [a:children] names the group zzz, which has no section (add a s"),
        ("[wbe:vars]\na=1\n[web]\n", "1:1: [wbe:vars] is there, and the group wbe is not (did you mean"),
        ("[g]\n[g:vars]\na: 1\n", "3:1: expected NAME=VALUE, found 'a: 1' (INI files write NAME=VALUE)"),
        ("[g]\n[g:vars]\nhost1\n", "3:1: expected NAME=VALUE, found 'host1' (hosts stand under"),
        ("[g:children]\na b\n", "2:1: expected the name of a group, found 'a b'"),
        ("[g]\n h  a b=1\n", "2:5: expected NAME=VALUE, found 'a' (quote a value with blanks: NAME='A B')"),
        ("g:\n", "1:1: 'g:' ends with a colon and names no port (is this YAML? a file of that form"),
        ("---\n", "1:1: '---' is no host's name"),
        ("- a=1\n", "1:1: '-' is no host's name"),
        ("h[3:1]\n", "1:1: the range 3:1 runs backwards"),
        ("h[1-3]\n", "1:1: a range is written [FIRST:LAST] or [FIRST:LAST:STEP]"),
        ("h a='b\n", "1:1: the line cannot be split into words: the quote ' is not closed"),
        ("h a=b\\\n", "1:1: the line cannot be split into words: nothing follows the last backslash"),
        ("h a-b=1\n", "1:3: 'a-b' is no variable's name (use letters, digits and _)"),
        ("h a=\"{[]: 1}\"\n", "1:6: a list or dictionary is no key of a dictionary"),
        ("h a=\"{'b': 1, 'b': 2}\"\n", "1:15: the key 'b' is given twice: hosts.ini:1:7 (keep one of them)"),
        ("[g]\n[g:vars]\nansible_group_priority = high\n", "3:26: ansible_group_priority is a whole number"),
        ("[g:children]\ng\n", "2:1: the group g cannot stand under itself"),
        ("[a:children]\nb\n[b:children]\na\n", "4:1: the group a cannot stand under itself"),
        ("[g]\nh a=1\n[g]\nh a=2\n", "4:3: the variable 'a' of the host h is given twice: line 2 and line 4"),
        ("h a=1 a=1\n", "1:7: the variable 'a' of the host h is given twice: line 1 and line 1"),
        ("[g]\n[g:vars]\na=1\n[g:vars]\na=1\n", "5:1: the variable 'a' of the group g is given twice: line"),
        ("[a]\nh\n[b]\nh:23\n", "4:1: the port of h counts only where the host is first named: hosts.ini"),
    ],
)  # fmt: skip
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(SourceErrors) as caught:
        ini(text)
    assert str(caught.value.mistakes[0]).startswith(f"hosts.ini:{message}")


def test_all_mistakes_at_once() -> None:
    with pytest.raises(SourceErrors) as caught:
        ini("h x\n[g:what]\nnever looked at = yes yes\n[g]\nh y='\n[g:vars]\nz\n")
    assert [m.location.line for m in caught.value.mistakes] == [1, 2, 5, 7]


def test_a_port_said_again_is_no_mistake() -> None:
    assert ini("[a]\nh:23\n[b]\nh:23\n[c]\nh ansible_port=23\n").connection("h").port == 23


def test_where_values_are() -> None:
    inventory = ini(
        "[g]\n  h  a=1 'b'=\"x y\" c=\"{'d': [1, 'zwei']}\"\n[g:vars]\n klops = {'root': '/ä', 'rot': 2}\n"
    )
    assert [str(place) for _, place, _ in inventory.explain("h", "a")] == ["hosts.ini:2:8"]
    assert [str(place) for _, place, _ in inventory.explain("h", "b")] == ["hosts.ini:2:15"]
    assert [str(place) for _, place, _ in inventory.explain("h", "c.d")] == ["hosts.ini:2:29"]
    with pytest.raises(SourceErrors) as caught:
        inventory.settings("h")
    assert str(caught.value) == "hosts.ini:4:25: unknown setting klops.rot (did you mean root?)"


def test_typed_settings_take_what_was_typed() -> None:
    inventory = ini(
        "h klops=\"{'services': {'s': {'model': '/m', 'port': 8001, 'args': {'v': 1.10, 'w': True}}},"
        " 'docker': {'sudo': 'yes'}, 'cards': {'use': None}}\" ansible_port=0022\n"
    )
    settings = inventory.settings("h")
    assert settings.docker.sudo is True
    assert settings.services["s"].port == 8001
    assert settings.services["s"].args == {"v": "1.10", "w": True}
    with pytest.raises(
        SourceErrors, match=r"hosts\.ini:1:\d+: ansible_port is a number .* not '0022' \(write 22\)"
    ):
        inventory.connection("h")


@pytest.mark.parametrize("length", range(1, 6))
def test_words_are_those_of_a_posix_shell(length: int) -> None:
    """Every line of a few characters that mean something, read by Python's shlex and by klops."""
    for characters in itertools.product("a \"'\\#", repeat=length):
        line = "".join(characters)
        try:
            expected: list[str] | None = shlex.split(line, comments=True)
        except ValueError:
            expected = None
        try:
            found: list[str] | None = [word.text for word in split_words(line)]
        except ValueError:
            found = None
        assert found == expected, line


@pytest.mark.parametrize(
    "text",
    [
        *(
            "1",
            "-1",
            "+1",
            "0x1f",
            "0o17",
            "0b1",
            "1_0",
            "1.50",
            "1e3",
            "True",
            "None",
            "'a'",
            '"a"',
            "[]",
            "()",
        ),
        *(
            "{}",
            "{1}",
            "set()",
            "[1, [2, {'a': (3,)}]]",
            "{'a': {'b': []}}",
            "1,",
            "1, 2",
            "'a' 'b'",
            "  [1]",
        ),
        *(
            "{'ü': 'é', 1: None, True: 2.5}",
            "-1.5",
            "[-1, +2]",
            "1 # x",
            "[1] # x",
            '"a\\nb"',
            "'''x'''",
            "{2, 2}",
        ),
    ],
)
def test_literals_are_those_of_python(text: str) -> None:
    node = read_literal(text, lambda index: Location("x", 1, index + 1))
    expected = ast.literal_eval(text)
    assert to_python(node) == plain(expected)


def plain(value: object) -> object:
    """Tuples and sets as lists."""
    if isinstance(value, list | tuple | set):
        return [plain(item) for item in value]
    return {key: plain(item) for key, item in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize(
    "text",
    [
        *(
            "0644",
            "yes",
            "true",
            "null",
            "1.2.3",
            "22:22",
            "2024-01-01",
            "a b",
            "[1",
            "{a: 1}",
            "x()",
            "",
            "1 2",
        ),
        *(
            "{{ a }}",
            "'a",
            "1/2",
            "lambda: 1",
            "__import__('os')",
            "[" * 300,
            "1" * 5000,
            "a\0b",
            "[x for x in y]",
        ),
    ],
)
def test_anything_else_is_text(text: str) -> None:
    node = read_literal(text, lambda index: Location("x", 1, index + 1))
    assert to_python(node) == text
