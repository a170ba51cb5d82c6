"""The JSON Schema of playbooks: what loads is valid, what is refused is invalid."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from klops.actions.catalog import catalog
from klops.errors import SourceErrors
from klops.playbook.load.foreign import INSTEAD
from klops.playbook.load.keywords import TABLE, Place, Verdict, refused, supported
from klops.playbook.load.plays import load_playbook
from klops.playbook.schema.document import playbook_schema
from klops.playbook.schema.kinds import KINDS
from klops.yamlsource import load_file, parse, to_python

jsonschema = pytest.importorskip("jsonschema")
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def schema() -> Any:
    return playbook_schema(catalog())


@pytest.fixture(scope="module")
def validator(schema: Any) -> Any:
    return jsonschema.Draft202012Validator(schema)


def as_json(value: Any) -> Any:
    """As an editor sees it: dates are texts, keys are texts."""
    return json.loads(json.dumps(value, default=str))


def problems(validator: Any, text: str) -> list[str]:
    document = as_json(to_python(parse(text, "play.yml")))
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]


def task_problems(validator: Any, task: str) -> list[str]:
    return problems(validator, f"- hosts: all\n  tasks:\n    - {task}\n")


def playbooks() -> Iterator[Path]:
    """Shipped playbooks, and all of the tests that are files."""
    yield from sorted((ROOT / "playbooks").glob("*.yml"))
    for file in sorted((ROOT / "tests").rglob("*.yml")):
        text = file.read_text("utf-8")
        if "\n  hosts:" in f"\n{text}" or "- hosts:" in text:
            yield file


def test_it_is_a_schema(schema: Any) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_playbooks_that_load_are_valid(validator: Any) -> None:
    loaded: list[Path] = []
    invalid: list[str] = []
    for file in playbooks():
        try:
            load_playbook(file, catalog())
        except SourceErrors:
            continue  # an inventory, or a playbook that is refused
        loaded.append(file)
        document = as_json(to_python(load_file(file)))
        invalid += [
            f"{file}: {error.json_path}: {error.message}" for error in validator.iter_errors(document)
        ]
    assert not invalid
    assert {file.name for file in loaded} >= {"up.yml", "down.yml", "restart.yml", "status.yml"}
    assert len(loaded) > len(list((ROOT / "playbooks").glob("*.yml")))


def test_a_playbook_with_every_keyword_and_spelling_is_valid(validator: Any) -> None:
    text = """\
- name: "{{ x }}"
  hosts: [all, "!{{ x }}"]
  gather_facts: no
  vars: {a: 1, b: {c: [2024-01-01]}}
  vars_files: [a.yml, [b.yml, "{{ c }}"]]
  tags: a,b
  become: "{{ x }}"
  become_user: app
  become_method: sudo
  environment: [{A: 1, B: no}, "{{ e }}"]
  serial: [1, "30%"]
  max_fail_percentage: 30%
  any_errors_fatal: true
  strategy: ansible.builtin.free
  order: shuffle
  force_handlers: "yes"
  ignore_errors: false
  ignore_unreachable: "{{ x }}"
  check_mode: true
  diff: true
  no_log: true
  run_once: true
  throttle: 2
  pre_tasks:
  tasks:
    - name: all of them
      when: [a, b is defined, true]
      delegate_to: other
      delegate_facts: yes
      notify: h
      block:
        - ansible.builtin.command: ls -l
          args: {chdir: /}
          loop: [1, a]
          loop_control: {loop_var: x, index_var: i, label: "{{ x }}", pause: 0.5, extended: yes}
          register: r
          until: r.rc == 0
          retries: "{{ n }}"
          delay: 1
          failed_when: [a, b]
          changed_when: false
        - command: {argv: [a, 1, no]}
      rescue: [{ansible.legacy.debug: }]
      always: [{debug: {msg: "{{ x }}"}}, {debug: {var: x}}, {set_fact: {anything: [1]}}]
    - {file: {path: /a, mode: 0644, state: "{{ x }}"}}
    - {file: {path: /a, mode: "u=rw", state: directory}}
    - {wait_for: {port: "{{ p }}", timeout: 1}}
    - {klops.status: {}}
    - {klops.status: }
    - {import_tasks: a.yml, when: x}
    - {ansible.builtin.import_tasks: {file: a.yml}}
    - {include_tasks: "{{ x }}", loop: "{{ l }}"}
    - {include_tasks: {file: a.yml, apply: {tags: [x], become: true}}, vars: {a: 1}}
  handlers:
    - {name: h, debug: , listen: [a, b]}
    - {import_tasks: a.yml}
    - {include_tasks: a.yml, listen: a}
- import_playbook: a.yml
  when: x
  tags: a
  vars: {a: 1}
"""
    assert problems(validator, text) == []


REFUSED = [
    (place, word) for place in (Place.PLAY, Place.BLOCK, Place.TASK, Place.HANDLER) for word in refused(place)
]


@pytest.mark.parametrize(("place", "word"), REFUSED, ids=lambda value: str(getattr(value, "value", value)))
def test_every_refused_keyword_is_refused_by_the_schema(validator: Any, place: Place, word: str) -> None:
    base = {
        Place.PLAY: "- {hosts: all%s}",
        Place.BLOCK: "- {hosts: all, tasks: [{block: [{debug: }]%s}]}",
        Place.TASK: "- {hosts: all, tasks: [{debug: %s}]}",
        Place.HANDLER: "- {hosts: all, handlers: [{debug: %s}]}",
    }[place]
    assert problems(validator, base % "") == []
    assert any(f"'{word}' was unexpected" in found for found in problems(validator, base % f", {word}: x"))


@pytest.mark.parametrize(
    "task",
    [
        *(f"{{{module}: {{}}}}" for module in INSTEAD),
        "{debug: , copy: {content: a, dest: /a}}",
        "{name: nothing}",
        "{debug: {mgs: a}}",
        "{copy: src=a}",
        "{debug: , when: '{{ x }}'}",
        "{debug: , when: ''}",
        "{debug: , listen: x}",
        "{debug: , become: maybe}",
        "{debug: , check_mode: false}",
        "{debug: , loop: text}",
        "{debug: , loop_control: {lable: x}}",
        "{debug: , register: a b}",
        "{debug: , tags: '{{ t }}'}",
        "{debug: , become_method: su}",
        "{debug: , environment: {A: [1]}}",
        "{file: {path: /a, state: dir}}",
        "{block: [{debug: }], loop: [1]}",
        "{rescue: [{debug: }]}",
        "{block: [{debug: {mgs: a}}]}",
        "{include_tasks: a.yml, become: true}",
        "{include_tasks: {file: a.yml, apply: {loop: [1]}}}",
        "{import_tasks: a.yml, register: x}",
        "{import_tasks: '{{ x }}'}",
    ],
)
def test_tasks_that_are_refused(validator: Any, task: str) -> None:
    assert task_problems(validator, task)


@pytest.mark.parametrize(
    "play",
    [
        "{}",
        "{host: all}",
        "{hosts: ''}",
        "{hosts: all, when: x}",
        "{hosts: all, serial: half}",
        "{hosts: all, strategy: host_pinned}",
        "{hosts: all, order: random}",
        "{hosts: all, handlers: [{block: [{debug: }]}]}",
        "{import_playbook: a.yml, hosts: all}",
        "{hosts: all, vars: {a-b: 1}}",
    ],
)
def test_plays_that_are_refused(validator: Any, play: str) -> None:
    assert problems(validator, f"- {play}\n")


def test_every_keyword_is_explained_and_of_a_known_kind(schema: Any) -> None:
    for keyword in TABLE:
        assert keyword.note
        assert keyword.places
        assert (keyword.kind in KINDS) is (keyword.verdict is not Verdict.REFUSED)
    properties = schema["$defs"]["task"]["properties"]
    assert all(properties[name].get("description") for name in supported(Place.TASK))


def test_every_module_is_there_in_each_spelling(schema: Any) -> None:
    properties = schema["$defs"]["handler"]["properties"]
    modules = set(catalog()) - {"include_tasks"}
    assert modules <= set(properties)
    assert {f"ansible.builtin.{name}" for name in modules if "." not in name} <= set(properties)
    assert all(schema["$defs"][f"module-{name}"]["description"] for name in modules)
