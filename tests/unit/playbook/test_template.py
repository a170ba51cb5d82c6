"""Templates: native values, strictness, laziness, the sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from klops.errors import TaskFailed
from klops.playbook.template.pending import NotKnown, Pending
from klops.playbook.template.scope import Layer
from klops.playbook.template.templar import OMIT, Templar, names, scope, syntax_error
from klops.secret import Secret


def templar(data: dict[str, Any] | None = None, **templates: Any) -> Templar:
    return Templar(scope(Layer(data or {}, templates=False), Layer(templates, templates=True)))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("{{ n }}", 5),
        ("{{ n }}!", "5!"),
        (" {{ n }}", " 5"),
        ("{{ n + 1 }}", 6),
        ("{{ '5' }}", "5"),
        ("{{ [n, n] }}", [5, 5]),
        ("{{ {'a': n}.items() }}", [["a", 5]]),
        ("{{ range(3) }}", [0, 1, 2]),
        ("{{ none }}", None),
        ("<{{ none }}>", "<>"),
        ("{% if n > 4 %}big{% endif %}", "big"),
        ("{{ missing | default(7) }}", 7),
        ("{{ omit }}", OMIT),
        ("line\n", "line\n"),
        # from here on as seen in ansible-core 2.19
        ("{{ n }}\n", 5),
        ("{{ [n] }}\n\n", "[5]\n\n"),
        ("{{ 'ada' }}\n", "ada\n"),
        ("x {{ n }}\n", "x 5\n"),
        ("{{ n }}\n{# x #}", "5\n"),
        ("{# c #}{{ n }}", 5),
        ("{{ n }}{{ '' }}", "5"),
        ("{{ 5 }}{{ 6 }}", "56"),
        ("{{ true }}{{ [n] }}", "True[5]"),
        ("{{ none }}{{ none }}", None),
        ("{% if true %}{{ [n] }}{% endif %}", [5]),
        ("{% if true %}{{ n }}{% endif %}\n", 5),
        ("{% if true %}\n{{ n }}\n{% endif %}\n", "5\n"),
        ("{% for x in [n] %}{{ x }}{% endfor %}", 5),
        ("{% if false %}x{% endif %}", None),
        ("{% set y = [n] %}{{ y }}", [5]),
        ("{% set z %}5{% endset %}{{ z }}", "5"),
        ("{% macro m() %}{{ [n] }}{% endmacro %}{{ m() }}", [5]),
        ("{% for k, v in {'a': n}.items() %}{{ loop.index }}{{ k }}={{ v }}\n{% endfor %}", "1a=5\n"),
        ("{% raw %}{{ x }}{% endraw %}", "{{ x }}"),
        ("{{ '{{ n }}' }}", "{{ n }}"),
        ("{{ 'a' ~ none }}", "aNone"),
        ("{{ [none, true] | join(',') }}", "None,True"),
        ("{{ {'a': n}.get('a') + {'a': n}.keys() | length }}", 6),
        ("{{ [n] | map('string') }}", ["5"]),
        ("{{ namespace(a=n).a }}", 5),
        ("{{ undef() is defined }}", False),
        ("{{ now(utc=true, fmt='%Y') | length }}", 4),
        ("{{ now().year > 2000 }}", True),
        ("a{{ 'x' if false }}b", "ab"),
        ("{{ [omit, n] }}", [5]),
        ("{{ {'a': omit, 'b': n} }}", {"b": 5}),
        # in braces a backslash is one; elsewhere Jinja2's rules hold
        (r"{{ 'a\nb' }}", r"a\nb"),
        (r"{{ 'ab' | regex_replace('(a)', '\1\1') }}", "aab"),
        (r"{{ 'k1=v1' | regex_findall('(\w+)=(\w+)') }}", [["k1", "v1"]]),
        (r"x\n{{ 'a\tb' }}", r"x\na\tb"),
        ("{% set x = 'a\\nb' %}{{ x }}", "a\nb"),
        ("{% if 'a\\nb' | length == 3 %}three{% endif %}", "three"),
    ],
)
def test_values(text: str, value: Any) -> None:
    assert templar(n=5).render(text) == value


def test_values_in_depth_and_keys_left_alone() -> None:
    assert templar(n=5).render({"{{ n }}": ["{{ n }}", {"a": "{{ n }}"}]}) == {"{{ n }}": [5, {"a": 5}]}


def test_variables_are_rendered_when_used() -> None:
    t = templar(a="{{ b }}", b="{{ c + 1 }}", c=1, broken="{{ nowhere }}")
    assert t.render("{{ a }}") == 2
    assert dict(templar(a="{{ 1 + 1 }}").variables)["a"] == 2


def test_data_and_results_are_never_rendered_again() -> None:
    t = templar({"said": "{{ 6 * 7 }}", "deep": {"x": "{{ evil }}"}}, relay="{{ said }}")
    assert t.render("{{ said }}") == "{{ 6 * 7 }}"
    assert t.render("{{ relay }}") == "{{ 6 * 7 }}"
    assert t.render("{{ deep }}") == {"x": "{{ evil }}"}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{{ missing }}", "undefined"),
        ("{{ n.missing }}", "undefined"),
        ("{{ [missing] }}", "undefined"),
        ("{{ missing == 1 }}", "undefined"),
        ("{{ 1 / 0 }}", "template"),
        ("{{ ''.__class__.__mro__ }}", "template"),
        ("{{ things.append(1) }}", "template"),
        ("{% set _ = things.append(1) %}x", "template"),
        ("{% do things.append(1) %}", "template"),
        ("{{ undef(hint='say this') }}", "undefined"),
        ("{{ n if false }}", "undefined"),
        ("{% include 'x.j2' %}", "template"),
        ("{{ circle }}", "template"),
        ("x{{ omit }}", "template"),
        ("{{ 'maybe' | bool }}", "template"),
    ],
)
def test_failures(text: str, code: str) -> None:
    with pytest.raises(TaskFailed) as caught:
        templar(n=5, things=[1], circle="{{ round }}", round="{{ circle }}").render(text)
    assert caught.value.code == code


def test_secrets_stay_secrets_and_show_a_mask_in_text() -> None:
    secret = Secret("geheim")
    t = templar({"key": secret})
    assert t.render("{{ key }}") is secret
    assert t.render("key={{ key }}") == "key=********"
    assert t.render("{{ {'k': key} | to_json }}") == '{"k": "********"}'


def test_what_is_not_known_yet() -> None:
    t = templar({"r": Pending({"changed": True}, "later"), "u": Pending({}, "later")})
    assert t.evaluate("r is changed and r.changed").value is True
    for text in (
        "{{ r.rc }}",
        "{{ r['rc'] }}",
        "{{ r }}",
        "x{{ r }}",
        "{{ r | to_json }}",
        "{{ u }}",
        "{{ u + 1 }}",
    ):
        with pytest.raises(NotKnown, match="later"):
            t.render(text)


def test_names_and_syntax() -> None:
    assert names({"a": ["{{ x.y }}", "{% for i in z %}{{ i }}{% endfor %}"], "b": "plain"}) == {"x", "z"}
    assert names(["a.b == c", "d"], expression=True) == {"a", "c", "d"}
    assert syntax_error("{{ a")
    assert syntax_error("{{ a | nofilter }}")
    assert syntax_error("a b", expression=True)
    assert not syntax_error("{{ a }}")
    assert not syntax_error("a == 1", expression=True)


def test_what_to_do_in_place_of_changing_a_list() -> None:
    with pytest.raises(TaskFailed, match=r"make a new one, such as old \+ \[item\]"):
        templar(things=[1]).render("{{ things.append(2) }}")
    with pytest.raises(TaskFailed, match=r"old \| combine"):
        templar(things={}).render("{{ things.update({}) }}")


def test_backslashes_in_conditions_are_jinjas() -> None:
    t = templar()
    assert t.evaluate(r"'a\nb'").value == "a\nb"
    # no escape, and so what it looks like; Python warns of it
    assert t.evaluate(r"'a1' is match('\w\d')").value is True
    assert t.evaluate(r"'a\\d'").value == r"a\d"
    assert syntax_error(r"x is match('\d')", expression=True) == ""


def test_settings_of_template_files() -> None:
    t = templar(n=5)
    blocks = "  {% if true %}\nx\n  {% endif %}\n"
    # as seen in ansible-core 2.19
    assert t.text(blocks) == "  x\n  \n"
    assert t.text(blocks, lstrip_blocks=True) == "x\n"
    assert t.text(blocks, trim_blocks=False) == "  \nx\n  \n"
    assert t.text("a\n{{ n }}\n", newline_sequence="\r\n") == "a\r\n5\r\n"
    assert t.text("[[ n ]] {{ n }}", variable_start_string="[[", variable_end_string="]]") == "5 {{ n }}"
    header = "#jinja2: variable_start_string: '[[', variable_end_string: ']]', lstrip_blocks: True\n"
    assert t.text(header + blocks + "[[ n ]]{{ n }}") == "x\n5{{ n }}"
    assert t.text("#jinja2:trim_blocks: False\n{% if true %}\nx{% endif %}") == "\nx"
    assert t.text("{{ n }}") == "5"
    assert t.text("{{ none }}{{ [n] }}{{ 'a\\nb' }}\n") == "[5]a\nb\n"
    with pytest.raises(TaskFailed, match="no setting 'trim_block'"):
        t.text("x", trim_block=True)
    with pytest.raises(TaskFailed, match="is no value such as"):
        t.text("#jinja2: trim_blocks: nope\nx")


def test_filters_that_are_not_there_in_template_files() -> None:
    with pytest.raises(TaskFailed, match="use selectattr"):
        templar().text("a\n{{ [1] | json_query('x') }}\n")
    with pytest.raises(TaskFailed, match=r"did you mean combine\?"):
        templar().text("{{ {} | combin }}")


def test_variables_for_one_text_alone() -> None:
    t = templar(n=5)
    assert t.text("{{ n }} {{ m }} {{ n is defined }}", more={"m": 1, "n": 2}) == "2 1 True"
    assert t.text("{{ n }} {{ m is defined }}") == "5 False"


def test_template_files_keep_their_last_newline() -> None:
    assert templar(n=2).text("{% for i in range(n) %}\n{{ i }}\n{% endfor %}\nend\n") == "0\n1\nend\n"


@pytest.mark.parametrize(
    ("expression", "value"),
    [("'yes' | bool", True), ("'off' | bool", False), ("'/a/b' | basename", "b"), ("'a b' | quote", "'a b'")],
)
def test_filters(expression: str, value: Any) -> None:
    assert templar().evaluate(expression).value == value


def test_what_is_looked_up_in_something_undefined_is_undefined() -> None:
    # as seen in ansible-core 2.19
    assert templar().render("{{ nope.x.y | default('d') }} {{ nope['a'].b is defined }}") == "d False"
    assert templar(n=1).evaluate("n.x.y is not defined").value is True
    for text in (
        "{{ nope.x.y }}",
        "{{ nope.x + 1 }}",
        "{{ nope.x | int }}",
        "{% for i in nope.x %}{% endfor %}",
    ):
        with pytest.raises(TaskFailed, match="'nope' is undefined") as caught:
            templar().render(text)
        assert caught.value.code == "undefined"


def test_a_result_of_which_nothing_is_known_is_there_and_of_no_use() -> None:
    own = templar({"r": Pending({}, "later")})
    assert own.evaluate("r is defined").value is True
    uses = (
        "r | int",
        "r + 1",
        "1 - r",
        "r < 2",
        "r is string",
        "r or true",
        "r ~ 'x'",
        "[r]",
        "r | default(1)",
    )
    for text in (*uses, "r.rc", "r in [1]", "range(r)", "not r", "-r", "r | length", "{'a': r}"):
        with pytest.raises(NotKnown, match="later"):
            own.evaluate(text)


class OnlyAsked(dict[str, Any]):
    """Variables of which it isn't known beforehand which are there, as facts are."""

    def __iter__(self) -> Any:
        return iter(["ansible_absent", *super().__iter__()])


def test_templates_that_include_others_copy_no_variables(tmp_path: Path) -> None:
    folder = tmp_path / "templates"
    folder.mkdir()
    (folder / "part.j2").write_text("[{{ a }}{{ item }}{{ own }}]")
    (folder / "macros.j2").write_text("{% macro m(x) %}<{{ x }}>{% endmacro %}")
    (folder / "base.j2").write_text("{% block b scoped %}base{% endblock %}")
    facts = OnlyAsked(fact=1)
    made = scope(
        Layer(facts, templates=False),
        # of no use, and not asked for
        Layer({"a": "{{ fact }}", "broken": "{{ nope }}"}, templates=True),
        files=(tmp_path / "play.yml",),
    )
    text = (
        "{% import 'macros.j2' as lib with context %}{% set own = 'o' %}"
        "{% for item in [1, 2] %}{% include 'part.j2' %}{{ lib.m(item) }}{% endfor %}"
        "{% for n in [7] %}{% block inner scoped %}{{ n }}{{ a }}{% endblock %}{% endfor %}"
    )
    assert Templar(made).text(text) == "[11o]<1>[12o]<2>71"
    assert (
        Templar(made).text("{% extends 'base.j2' %}{% block b %}{{ a }}{{ super() }}{% endblock %}")
        == "1base"
    )


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{% extends 'base.j2' %}{% block b %}y{% endblock %}\n", "base y end\n"),
        ("{% if true %}x{% endif %}\n", "x\n"),
        ("a {% include 'base.j2' %}\n", "a base x end\n"),
        ("{% include 'base.j2' %}", "base x end"),
        ("{% include 'base.j2' %}, b\n\n", "base x end, b\n\n"),
    ],
)
def test_only_the_file_that_is_named_keeps_its_newlines_at_the_end(
    tmp_path: Path, source: str, text: str
) -> None:
    # as seen in ansible-core 2.19
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "base.j2").write_text("base {% block b %}x{% endblock %} end\n")
    assert Templar(scope(files=(tmp_path / "play.yml",))).text(source) == text
