"""``lookup``, ``query`` and ``q``; values of those that only arrange lists are in ``expressions.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from klops.errors import TaskFailed
from klops.playbook.template.pending import NotKnown, Pending
from klops.playbook.template.scope import Layer
from klops.playbook.template.templar import Templar, names, scope


@pytest.fixture
def play(tmp_path: Path) -> Path:
    """A playbook with files and templates beside it."""
    for name, text in {
        "files/a.txt": "  {{ n }} \n\n",
        "files/conf.d/1.conf": "one",
        "files/conf.d/2.conf": "two",
        "files/bytes": "",
        "templates/t.j2": "n is {{ n }}\n{% if true %}\nx\n{% endif %}\n",
        "templates/other.j2": "[[ n ]] {{ n }}",
        "beside.txt": "beside",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "files/bytes").write_bytes(b"\xff")
    return tmp_path / "site.yml"


def templar(play: Path, **data: Any) -> Templar:
    layers = (Layer(data, templates=False), Layer({"n": 5, "lazy": "{{ n + 1 }}"}, templates=True))
    return Templar(scope(*layers, files=[play]))


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        # all seen in ansible-core 2.19
        ("lookup('file', 'a.txt')", "  {{ n }}"),
        ("lookup('file', 'a.txt', rstrip=false)", "  {{ n }} \n\n"),
        ("lookup('file', 'a.txt', lstrip=true)", "{{ n }}"),
        ("lookup('file', 'beside.txt')", "beside"),
        ("lookup('file', 'conf.d/1.conf', 'conf.d/2.conf')", "one,two"),
        ("query('file', 'conf.d/1.conf', 'conf.d/2.conf')", ["one", "two"]),
        ("lookup('file', 'nope', errors='ignore')", None),
        ("lookup('file', 'nope', errors='warn')", None),
        ("query('file', 'nope', errors='ignore')", []),
        ("lookup('template', 't.j2')", "n is 5\nx\n"),
        ("lookup('template', 't.j2', template_vars={'n': 7})", "n is 7\nx\n"),
        ("lookup('template', 'other.j2', variable_start_string='[[', variable_end_string=']]')", "5 {{ n }}"),
        ("query('fileglob', 'conf.d/*.conf') | map('basename')", ["1.conf", "2.conf"]),
        ("query('fileglob', 'conf.d')", []),
        ("lookup('fileglob', 'none/*')", []),
        ("lookup('first_found', ['nope', 'a.txt']) | basename", "a.txt"),
        (
            "lookup('first_found', {'files': ['nope', '2.conf'], 'paths': ['x', 'conf.d']}) | basename",
            "2.conf",
        ),
        ("lookup('first_found', files=['t.j2']) | basename", "t.j2"),
        ("query('first_found', ['nope'], skip=true)", []),
        ("lookup('vars', 'lazy')", 6),
        ("lookup('vars', 'n', 'lazy')", [5, 6]),
        ("lookup('vars', 'la' ~ 'zy')", 6),
        ("query('varnames', '^laz')", ["lazy"]),
        ("lookup('env', 'KLOPS_TEST')", "{{ n }}"),
        ("lookup('env', 'KLOPS_TEST', 'KLOPS_NOT_SET')", "{{ n }},"),
        ("lookup('env', 'KLOPS_NOT_SET', default='d')", "d"),
        ("lookup('random_choice', ['only'])", "only"),
        ("lookup('file', 'conf.d/1.conf', wantlist=true)", ["one"]),
    ],
)
def test_values(play: Path, expression: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLOPS_TEST", "{{ n }}")
    assert templar(play).evaluate(expression).value == value
    # in braces too; what a file holds is data and never a template
    assert templar(play).render("{{ " + expression + " }}") == value


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("lookup('file', 'a.tx')", "no file 'a.tx' on this machine"),
        ("lookup('file', 'bytes')", "not UTF-8"),
        ("lookup('file', 5)", "takes paths"),
        ("lookup('file', 'a.txt', strip=true)", "no option 'strip'"),
        ("lookup('vars', 'lasy')", "no variable is called 'lasy'"),
        ("lookup('first_found', ['nope'])", "none of these is there: nope"),
        ("lookup('sequence', 'start=1 end=0')", "change the sign of stride"),
        ("lookup('sequence', 'start=1 count=2 end=3')", "one of end and count"),
        ("lookup('sequence', 'end=3 format=x')", "one place such as %02d"),
        ("lookup('sequence', 'end=999999999')", "are more than"),
        ("lookup('template', 't.j2', trim_block=false)", "no setting 'trim_block'"),
        ("lookup('nested')", "one list at least"),
        ("lookup('fi' ~ 'les', 'x')", "did you mean file?"),
        ("lookup('file', 'a.txt', errors='maybe')", "none of strict, warn, ignore"),
    ],
)
def test_mistakes(play: Path, expression: str, said: str) -> None:
    with pytest.raises(TaskFailed) as caught:
        templar(play).evaluate(expression)
    assert said in caught.value.message + caught.value.hint


def test_what_is_not_known_stays_so(play: Path) -> None:
    t = templar(play, r=Pending({"rc": 0}, "later"))
    for expression in ("lookup('items', r)", "lookup('dict', r)", "lookup('items', [r.stdout])"):
        with pytest.raises(NotKnown, match="later"):
            t.evaluate(expression)


def test_variables_that_are_looked_up_count_as_named() -> None:
    assert names("{{ lookup('vars', 'a', 'b') ~ query('ansible.builtin.vars', c) }}") == {"a", "b", "c"}


def test_templates_are_found_beside_the_one_that_includes_them(play: Path) -> None:
    folder = play.parent / "templates"
    (folder / "sub").mkdir()
    (folder / "sub/part.j2").write_text("part {{ n }} {{ m }}", encoding="utf-8")
    (folder / "macros.j2").write_text("{% macro m(x) %}<{{ x }}>{% endmacro %}", encoding="utf-8")
    t = templar(play)
    text = "{% set m = 1 %}{% include 'part.j2' %} {% import 'macros.j2' as lib %}{{ lib.m(n) }}\n"
    assert t.text(text, name="sub/main.j2") == "part 5 1 <5>\n"
    assert t.render("{% include 'macros.j2' %}|{{ n }}") == "|5"
    with pytest.raises(TaskFailed, match=r"no file 'part\.j2' on this machine"):
        t.text(text, name="main.j2")
    # a file that changes meanwhile is read again
    (folder / "sub/part.j2").write_text("new", encoding="utf-8")
    assert t.text("{% include 'sub/part.j2' %}") == "new"
