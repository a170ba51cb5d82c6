"""Filters and tests of templates: the values that ansible-core 2.19 gives for the same expressions.

``expressions.json`` holds what was seen there; where Ansible can be imported it is asked again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from klops.errors import TaskFailed
from klops.playbook.template.filters import FILTERS, TESTS
from klops.playbook.template.filters.yamltext import write
from klops.playbook.template.pending import NotKnown, Pending
from klops.playbook.template.scope import Layer
from klops.playbook.template.templar import Templar, scope, syntax_error
from klops.secret import Secret

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parent / "expressions.json").read_text(encoding="utf-8")
)


def templar(**data: Any) -> Templar:
    return Templar(scope(Layer({**RECORDED["variables"], **data}, templates=False)))


def evaluated(expression: str, **data: Any) -> Any:
    return templar(**data).evaluate(expression).value


def test_the_values_that_ansible_gives() -> None:
    different = {}
    for expression, wanted in RECORDED["values"]:
        # tuples and lists are one in JSON, and in playbooks
        found = json.loads(json.dumps(evaluated(expression)))
        if (found, type(found)) != (wanted, type(wanted)):
            different[expression] = (found, wanted)
    assert different == {}
    assert len(RECORDED["values"]) > 400


@pytest.mark.parametrize("expression", RECORDED["fails"])
def test_what_fails_in_ansible_fails(expression: str) -> None:
    with pytest.raises(TaskFailed) as caught:
        evaluated(expression)
    assert caught.value.code in ("template", "undefined")
    # a message of one's own, not that of whatever the filter stumbled over
    assert "Error:" not in caught.value.message


def test_ansible_gives_these_values(tmp_path: Path) -> None:
    pytest.importorskip("ansible", reason="ansible is not here to be asked again")
    values = RECORDED["values"]
    lines = ",\n".join("{{ (" + expression + ") | to_json }}" for expression, _ in values)
    (tmp_path / "values.j2").write_text(f"[{lines}]", encoding="utf-8")
    failing = [
        {
            "debug": {"msg": f"{{% set r = ({expression}) %}}{{{{ r }}}}"},
            "ignore_errors": True,
            "register": f"r{n}",
        }
        for n, expression in enumerate(RECORDED["fails"])
    ]
    failed = "{{ [" + ", ".join(f"r{n} is failed" for n in range(len(failing))) + "] | to_json }}"
    play = {
        "hosts": "h1",
        "gather_facts": False,
        "vars": {**RECORDED["variables"], "ansible_python_interpreter": sys.executable},
        "tasks": [
            {"template": {"src": "values.j2", "dest": str(tmp_path / "values.json")}},
            *failing,
            {"copy": {"content": failed, "dest": str(tmp_path / "failed.json")}},
        ],
    }
    (tmp_path / "play.yml").write_text(json.dumps([play]), encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "-i", "h1,", "-c", "local", "play.yml"],
        cwd=tmp_path,
        env={**os.environ, "ANSIBLE_LOCALHOST_WARNING": "false"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    found = json.loads((tmp_path / "values.json").read_text(encoding="utf-8"))
    wanted = dict(map(tuple, values))
    assert {e: v for (e, _), v in zip(values, found, strict=True) if v != wanted[e]} == {}
    assert all(json.loads((tmp_path / "failed.json").read_text(encoding="utf-8")))


def test_each_is_described_and_has_its_long_name() -> None:
    for name, function in {**FILTERS, **TESTS}.items():
        assert function.__doc__, name
    assert evaluated("[1] | ansible.builtin.union([2]) is ansible.builtin.subset([1, 2])") is True


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ 1 | combin }}", "did you mean combine?"),
        ("{{ 1 is sucess }}", "did you mean success?"),
        ("{{ 'x' if false else (1 | combin) }}", "did you mean combine?"),
        ("{{ [1] | map('combin') }}", "did you mean combine?"),
        ("{{ [1] | select('sucess') }}", "did you mean success?"),
        ("{{ [1] | selectattr('a', 'sucess') }}", "did you mean success?"),
        ("{{ x | json_query('a') }}", "use selectattr"),
        ("{{ x | community.general.json_query('a') }}", "use selectattr"),
        ("{{ x | password_hash }}", "secret setting"),
        ("{{ x is vault_encrypted }}", "secret setting"),
        ("{{ x | realpath }}", "module stat"),
        ("{{ lookup('fileglb', 'x') }}", "did you mean fileglob?"),
        ("{{ lookup('pipe', 'date') }}", "delegate_to: localhost"),
        ("{{ query('url', 'http://x') }}", "uri"),
        ("{{ q('password', '/tmp/x') }}", "secret setting"),
    ],
)
def test_names_that_are_not_there_are_told_at_load(template: str, said: str) -> None:
    assert said in syntax_error(template)
    assert said in syntax_error(template.removeprefix("{{").removesuffix("}}"), expression=True)


def test_names_that_are_there() -> None:
    for name in FILTERS:
        assert syntax_error("{{ x | " + name + " }}") == ""
    for name in TESTS:
        assert syntax_error("{{ x is " + name + " }}") == ""


@pytest.mark.parametrize("word", ["'maybe'", "[]", "none", "2"])
def test_bool_does_not_guess(word: str) -> None:
    # Ansible 2.19 says false, with a warning that it will be an error
    with pytest.raises(TaskFailed, match="neither true nor false"):
        evaluated(f"{word} | bool")


@pytest.mark.parametrize("use", ["b64encode", "hash('sha256')", "regex_replace('a', 'b')", "quote", "split"])
def test_secrets_are_not_worked_on(use: str) -> None:
    with pytest.raises(TaskFailed, match="a secret stays hidden") as caught:
        evaluated(f"key | {use}", key=Secret("geheim"))
    assert "geheim" not in str(caught.value)


def test_secrets_are_masked_in_json_and_yaml() -> None:
    for use in ("to_json", "to_nice_json", "to_yaml", "to_nice_yaml"):
        text = evaluated("{'k': [key]} | " + use, key=Secret("geheim"))
        assert "********" in text
        assert "geheim" not in text


@pytest.mark.parametrize("name", sorted(name for name in FILTERS if "." not in name))
def test_what_is_not_known_yet_stays_so(name: str) -> None:
    with pytest.raises(NotKnown, match="later"):
        FILTERS[name](Pending({"rc": 0}, "later"))


def test_tests_of_results_ask_only_what_is_known() -> None:
    r = Pending({"changed": True, "failed": False}, "later")
    assert evaluated("r is changed and r is not failed and r is succeeded and r is defined", r=r) is True
    # what says that it changed something was not skipped
    assert evaluated("r is not skipped", r=r) is True
    for test in ("unreachable", "started"):
        with pytest.raises(NotKnown, match="later"):
            evaluated(f"r is {test}", r=r)
    assert evaluated("r is changed", r={"results": [{"changed": False}, {"changed": True}]}) is True


def test_chance_with_a_seed_and_without() -> None:
    assert evaluated("range(9) | random(seed='h1')") == evaluated("range(9) | random(seed='h1')")
    assert evaluated("[3] | random") == 3
    assert sorted(evaluated("xs | shuffle")) == [1, 2]


def test_yaml_is_read_back_as_it_was() -> None:
    texts = ["yes", "1", "a: b", " x", "it's", "a\n b", "\t", "", "x #y", "-", "k" * 200 + " z", "é\x07"]
    value = {"a": texts, "b": [texts, {"c": {}, "d": [[]], "e": None}], "f": [1.5, 1e20, True]}
    for indent, flow in ((4, False), (2, None), (2, True)):
        text = write(value, indent=indent, width=60, flow=flow, sort_keys=True, unicode=True)
        assert evaluated("text | from_yaml", text=text) == value


def test_yaml_as_pyyaml_writes_it() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not here to compare with")
    texts = [
        "n",
        "yes",
        "1e3",
        "a\nb\n",
        "a \n b",
        "x y " * 40,
        "w\t" * 50 + "a b " * 40,
        "'",
        "[a",
        "a,b",
        "\u2028",
    ]
    for value in (texts, {"k": texts, "m": {"n": [[*texts], [{"o": "p"}]]}}, {"l": list(range(99))}):
        for indent, flow in ((4, False), (2, None)):
            wanted = yaml.safe_dump(value, indent=indent, default_flow_style=flow, allow_unicode=True)
            assert write(value, indent=indent, width=80, flow=flow, sort_keys=True, unicode=True) == wanted


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("true | ternary(true_val=1, false_val=2)", 1),
        ("none | ternary(true_val=1, false_val=2, none_val=3)", 3),
        ("[1, 2] | combinations(r=2)", [[1, 2]]),
        ("[1] | permutations(r=1)", [[1]]),
        ("2 | pow(y=3)", 8),
        ("[1] is contains(value=1)", True),
        ("[1] is subset(b=[1, 2])", True),
        ("[1, 2] is superset(b=[1])", True),
        ("[1] | union(b=[2])", [1, 2]),
        ("[1] | intersect(b=[1])", [1]),
        ("[1] | difference(b=[1])", []),
        ("[1] | symmetric_difference(b=[2])", [1, 2]),
        ("'/' is same_file(f2='/')", True),
        ("'[1]' | from_json(profile=none)", [1]),
    ],
)
def test_parameters_are_called_as_in_ansible(expression: str, wanted: Any) -> None:
    assert json.loads(json.dumps(evaluated(expression))) == wanted


def test_what_is_not_known_yet_is_so_as_a_named_parameter_too() -> None:
    with pytest.raises(NotKnown):
        evaluated("[1] | union(b=later)", later=Pending({}, "later"))
