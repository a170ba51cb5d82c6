from __future__ import annotations

from pathlib import Path

import pytest

from klops.cli.durations import parse_span
from klops.cli.extra_vars import parse_extra_vars
from klops.errors import SourceErrors, UsageError


def test_pairs_are_text_as_typed() -> None:
    assert parse_extra_vars(["a=1", "b=no c='x y' d=k=v", "e="]) == {
        "a": "1",
        "b": "no",
        "c": "x y",
        "d": "k=v",
        "e": "",
    }


def test_json_keeps_types_and_later_ones_win() -> None:
    assert parse_extra_vars(["a=1", '{"a": 2, "klops": {"cards": {"expected": 4}}}']) == {
        "a": 2,
        "klops": {"cards": {"expected": 4}},
    }


def test_a_file_reads_as_yaml_or_json(tmp_path: Path) -> None:
    (tmp_path / "v.yml").write_text("a: 1\nb: [x]\n", "utf-8")
    (tmp_path / "v.json").write_text('{"b": "j"}', "utf-8")
    (tmp_path / "empty.yml").write_text("# nothing\n", "utf-8")
    assert parse_extra_vars([f"@{tmp_path}/v.yml", f"@{tmp_path}/v.json", f"@{tmp_path}/empty.yml"]) == {
        "a": 1,
        "b": "j",
    }


@pytest.mark.parametrize("value", ["", "novalue", "1a=b", "{bad json}", "[1]", "@/no/such/file", "a='open"])
def test_what_cannot_be_meant_is_refused(value: str) -> None:
    with pytest.raises(UsageError):
        parse_extra_vars([value])


def test_a_mistake_in_a_file_has_its_place(tmp_path: Path) -> None:
    (tmp_path / "v.yml").write_text("a: 1\na: 2\n", "utf-8")
    with pytest.raises(SourceErrors, match=r"v\.yml:2:1"):
        parse_extra_vars([f"@{tmp_path}/v.yml"])


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("1.5h", 5400), ("1d", 86400)]
)
def test_spans(text: str, seconds: float) -> None:
    assert parse_span(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "10 minutes", "-5s"])
def test_a_wrong_span_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="span of time"):
        parse_span(text)


def test_a_dotted_key_is_shown_as_json() -> None:
    with pytest.raises(UsageError) as caught:
        parse_extra_vars(["klops.container.image=a:1"])
    hint = caught.value.hint
    assert hint == """a key within a variable needs JSON: -e '{"klops": {"container": {"image": "a:1"}}}'"""


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("ansible_password=made up", "ansible_password"),
        ("ansible_password='made-up", "ansible_password"),
        ("1a=made-up", "1a"),
        ("klops.services.q.api_key=made-up", "klops.services.q.api_key"),
    ],
)
def test_a_mistake_names_the_key_and_no_value(value: str, key: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_extra_vars([value])
    assert key in caught.value.message
    said = caught.value.message + caught.value.hint
    assert "made" not in said
    assert "up" not in said.replace("quote", "")
