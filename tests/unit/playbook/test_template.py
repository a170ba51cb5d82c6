"""Templates: native values, strictness, laziness, the sandbox."""

from __future__ import annotations

from typing import Any

import pytest

from klops.errors import TaskFailed
from klops.playbook.pending import NotKnown, Pending
from klops.playbook.scope import Layer
from klops.playbook.template import OMIT, Templar, names, scope, syntax_error
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
        ("{{ n }}\n", "5\n"),
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


def test_template_files_keep_their_last_newline() -> None:
    assert templar(n=2).text("{% for i in range(n) %}\n{{ i }}\n{% endfor %}\nend\n") == "0\n1\nend\n"


@pytest.mark.parametrize(
    ("expression", "value"),
    [("'yes' | bool", True), ("'off' | bool", False), ("'/a/b' | basename", "b"), ("'a b' | quote", "'a b'")],
)
def test_filters(expression: str, value: Any) -> None:
    assert templar().evaluate(expression).value == value
