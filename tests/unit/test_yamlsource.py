"""Reading YAML 1.1 with places."""

from __future__ import annotations

import sys
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from klops.errors import Location, Mistake, SourceErrors
from klops.yamlsource import MappingNode, ScalarNode, SequenceNode, load_file, nearest, parse, to_python


def read(text: str) -> Any:
    return to_python(parse(text, "f.yml"))


def mistakes(text: str) -> list[str]:
    with pytest.raises(SourceErrors) as caught:
        parse(text, "f.yml")
    return [str(mistake) for mistake in caught.value.mistakes]


# What PyYAML 6.0.3 makes of each, and so Ansible.
READINGS = {
    "0644": 420,
    "0o644": "0o644",
    "012": 10,
    "08": "08",
    "0x1F": 31,
    "0b101": 5,
    "1_000": 1000,
    "-7": -7,
    "+7": 7,
    "22:22": 1342,
    "9022:22": 541342,
    "8000:8000": "8000:8000",
    "1:30.5": 90.5,
    "1.10": 1.1,
    "1e3": "1e3",
    "1.5e+3": 1500.0,
    ".5": 0.5,
    "-.inf": float("-inf"),
    ".": ".",
    "1.2.3": "1.2.3",
    "10.0.0.1": "10.0.0.1",
    "no": False,
    "No": False,
    "OFF": False,
    "on": True,
    "y": "y",
    "nO": "nO",
    "~": None,
    "Null": None,
    "nuLL": "nuLL",
    "=": "=",
    "2024-01-01": date(2024, 1, 1),
    "2024-1-1": "2024-1-1",
    "2024-01-01 10:20:30": datetime(2024, 1, 1, 10, 20, 30),  # noqa: DTZ001 - as YAML 1.1 has it
    "2024-01-01T10:20:30.25Z": datetime(2024, 1, 1, 10, 20, 30, 250000, tzinfo=timezone.utc),
    "2024-01-01 10:20:30 +8": datetime(2024, 1, 1, 10, 20, 30, tzinfo=timezone(timedelta(hours=8))),
    "host[01:08]": "host[01:08]",
}


@pytest.mark.parametrize(("text", "value"), READINGS.items())
def test_plain_scalars_read_as_yaml_1_1_and_keep_what_was_typed(text: str, value: object) -> None:
    node = parse(f"key: {text}\n", "f.yml")
    assert isinstance(node, MappingNode)
    scalar = node.get("key")
    assert isinstance(scalar, ScalarNode)
    assert (scalar.value, type(scalar.value)) == (value, type(value))
    assert scalar.text == text
    assert scalar.plain


@pytest.mark.parametrize("text", ["'0644'", '"0644"', "!!str 0644", "|-\n  0644", ">-\n  0644"])
def test_quoted_block_and_tagged_text_stays_text(text: str) -> None:
    node = parse(f"key: {text}\n", "f.yml")
    assert isinstance(node, MappingNode)
    scalar = node.get("key")
    assert isinstance(scalar, ScalarNode)
    assert (scalar.value, scalar.text, scalar.plain) == ("0644", "0644", False)


def test_every_node_has_its_place() -> None:
    node = parse("a: 1\nb:\n  - x\n  - {c: y}\n", "f.yml")
    assert isinstance(node, MappingNode)
    items = node.get("b")
    assert isinstance(items, SequenceNode)
    inner = items.items[1]
    assert isinstance(inner, MappingNode)
    key = inner.key("c")
    assert node.location == Location("f.yml", 1, 1)
    assert items.items[0].location == Location("f.yml", 3, 5)
    assert key is not None
    assert key.location == Location("f.yml", 4, 6)
    assert (node.get("z"), node.key("z")) == (None, None)


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "---\n...\n"])
def test_nothing_is_none(text: str) -> None:
    assert parse(text, "f.yml") is None
    assert to_python(None) is None


def test_a_byte_order_mark_is_accepted_at_the_start_only() -> None:
    assert read("\ufeffa: 1") == {"a": 1}
    assert mistakes("---\n\ufeffa: 1") == ["f.yml:2:1: a byte order mark in mid-file (delete it)"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a:\n\tb: 1\n", "f.yml:2:1: tab at line 2"),
        ("a:\n  b: 1\n\tc: 2\n", "f.yml:3:1: tab at line 3"),
        ("\ufeffa:\n  \tb: 1\n", "f.yml:2:3: tab at line 2"),
        ("- a\n-\tb\n", "f.yml:2:2: tab at line 2"),
    ],
)
def test_a_tab_is_named_with_its_line(text: str, place: str) -> None:
    assert mistakes(text)[0].startswith(place)


def test_duplicate_keys_are_refused_with_both_lines_all_at_once() -> None:
    assert mistakes("a: 1\nb: {c: 1, c: 2}\na: 3\n") == [
        "f.yml:2:11: the key 'c' is given twice: line 2 and line 2 (keep one of them)",
        "f.yml:3:1: the key 'a' is given twice: line 1 and line 3 (keep one of them)",
    ]


def test_keys_that_read_alike_are_duplicates() -> None:
    assert "given twice" in mistakes("yes: 1\ntrue: 2\n")[0]
    assert "given twice" in mistakes("no: 1\n'no': 2\n")[0]


def test_merge_keys_override_silently_and_the_first_of_a_list_wins() -> None:
    base = "x: &x {p: 1, q: 2}\ny: &y {q: 3, r: 4}\n"
    assert read(base + "z: {<<: *x, q: 9}")["z"] == {"p": 1, "q": 9}
    assert read(base + "z: {q: 9, <<: *x}")["z"] == {"p": 1, "q": 9}
    assert read(base + "z: {<<: [*x, *y]}")["z"] == {"p": 1, "q": 2, "r": 4}
    assert mistakes("z: {<<: 3}") == ["f.yml:1:5: << merges a mapping or a list of mappings"]
    assert read('z: {"<<": 3}') == {"z": {"<<": 3}}


def test_aliases() -> None:
    assert read("a: &a [1, 2]\nb: *a\n") == {"a": [1, 2], "b": [1, 2]}
    assert mistakes("base: &base 1\nb: *bas\n") == [
        "f.yml:2:4: no anchor &bas before this (did you mean *base?)"
    ]
    assert mistakes("a: &a [*a]") == ["f.yml:1:8: the alias *a stands inside what it names"]


def test_unknown_tags_are_refused_and_vault_gets_a_way_out() -> None:
    found = mistakes("a: !vault |\n  x\nb: !!binary aGk=\nc: !x [1]\nd: !y {e: 1}\n")
    assert found[0].startswith(
        "f.yml:1:4: the tag !vault is not supported (under klops: a secret setting can be {env: NAME}"
    )
    assert found[1:] == [
        "f.yml:3:4: the tag !!binary is not supported",
        "f.yml:4:4: the tag !x is not supported",
        "f.yml:5:4: the tag !y is not supported",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: b: c\n", "f.yml:1:5: not valid YAML: mapping values are not allowed here"),
        ("a: 1\n---\nb: 2\n", "f.yml:2:1: a second document"),
        ("a: \x01\n", "f.yml:1:4: a character that YAML forbids"),
        ("? [1]\n: 2\n", "f.yml:1:3: a key must be a single value"),
        ("d: 2024-13-01\n", "f.yml:1:4: 2024-13-01 cannot be read: month must be in 1..12"),
    ],
)
def test_other_mistakes(text: str, message: str) -> None:
    assert mistakes(text)[0].startswith(message)


def test_files(tmp_path: Path) -> None:
    good = tmp_path / "good.yml"
    good.write_text("名: 模型\n", encoding="utf-8")
    assert to_python(load_file(good)) == {"名": "模型"}
    bad = tmp_path / "bad.yml"
    bad.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(SourceErrors) as caught:
        load_file(bad)
    assert caught.value.mistakes == (
        Mistake(Location(str(bad), 2, 4), "this is not UTF-8 text", "save the file as UTF-8"),
    )
    with pytest.raises(SourceErrors, match="cannot be read: No such file"):
        load_file(tmp_path / "none.yml")


def test_nearest() -> None:
    assert nearest("contaner", ["cards", "container"]) == "container"
    assert nearest("zzz", ["cards", "container"]) == ""


def test_importing_this_module_does_not_load_ruamel() -> None:
    import subprocess

    program = "import sys, klops.yamlsource; sys.exit('ruamel' in {n.split('.')[0] for n in sys.modules})"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5000,
        "a: " + "{b: " * 5000,
        "\n".join(["- &a0 [x]", *(f"- &a{n} [*a{n - 1}]" for n in range(1, 2000))]),
    ],
)
def test_what_is_too_deep_is_a_mistake(text: str) -> None:
    assert "more than 100 lists and mappings within one another" in mistakes(text)[0]


def test_aliases_that_bring_in_a_thousand_million_values_are_a_mistake() -> None:
    text = "\n".join(
        ["- &a0 [" + "x, " * 10 + "]", *(f"- &a{n} [" + f"*a{n - 1}, " * 10 + "]" for n in range(1, 10))]
    )
    assert "more than 1000000 values by aliases" in mistakes(text)[0]
    # as many values as somebody may write once, and use often
    assert read("- &a [" + "x, " * 1000 + "]\n" + "- *a\n" * 900) is not None


def test_depth_that_somebody_may_write() -> None:
    assert read("[" * 90 + "1" + "]" * 90) is not None
    assert read("\n".join(f"- &a{n} [[[[1]]]]\n- *a{n}" for n in range(200)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: {{ foo }}\n", 'f.yml:1:4: {{ foo }} without quotes is a mapping (quote it: "{{ foo }}")'),
        ("a: {{ foo['b'] }}\n", """(quote it: "{{ foo['b'] }}")"""),
        ("- {{ b }}/c\n", '(quote it: "{{ b }}/c")'),
        ("name: x: y\n", "(quote the text: it holds ': ')"),
        ("a: 'it's'\n", "(quote the whole value, and double a quote within it)"),
        (
            "a:\n  b: 1\n c: 2\n",
            "f.yml:3:2: not valid YAML: the indentation of line 3 does not fit what begins",
        ),
        (
            "- a: 1\n   b:\n",
            "f.yml:2:5: not valid YAML: the indentation of line 2 does not fit line 1 above it",
        ),
        ("- a:\n    - b: 1\n   - c: 2\n", "begins at line 1 (begin it at column 3, or deeper within)"),
    ],
)
def test_what_people_trip_over_is_named(text: str, said: str) -> None:
    assert said in mistakes(text)[-1]


def test_what_leaves_a_document_is_noted_and_read_on() -> None:
    noted: list[Mistake] = []
    node = parse("a: 1\nb: !vault x\na: 2\nc: {{ d }}\n", "f.yml", noted)
    assert to_python(node) == {"b": "x", "a": 2, "c": "{{ d }}"}
    assert [mistake.location.line for mistake in noted] == [2, 3, 4]
    with pytest.raises(SourceErrors, match="no anchor"):
        parse("a: 1\na: *x\n", "f.yml", noted)
