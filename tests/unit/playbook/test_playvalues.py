"""``serial`` and ``max_fail_percentage`` as templates."""

from __future__ import annotations

from typing import Any

import pytest

from klops.errors import Location, SourceErrors
from klops.playbook.model import Play
from klops.playbook.playvalues import resolved
from klops.playbook.template.scope import Layer
from klops.playbook.template.templar import Templar, scope
from tests.unit.playbook.support import Lab

HERE = Location("p.yml", 1, 3)


def played(serial: tuple[Any, ...] = (), most: Any = None) -> Play:
    variables = {"s": [1, "50%"], "n": 2, "p": "40", "half": 0.5, "yes": True}
    templar = Templar(scope(Layer(variables, templates=True)))
    play = Play("p", ("all",), HERE, serial=serial, max_fail_percentage=most)
    return resolved(play, templar.render)


def test_values_and_templates() -> None:
    # as ansible-core 2.19 has it: a template may give the whole list
    assert played(("{{ s }}",)).serial == (1, "50%")
    assert played((3, "{{ n }}", "{{ n }}0%")).serial == (3, 2, "20%")
    assert played(most="{{ p }}").max_fail_percentage == 40
    assert (played().serial, played().max_fail_percentage) == ((), None)


@pytest.mark.parametrize(
    ("serial", "most", "message"),
    [
        (("{{ half }}",), None, "serial is a number of hosts"),
        (("{{ yes }}",), None, "serial is a number of hosts"),
        (("{{ nope }}",), None, "serial: 'nope' is undefined"),
        ((), "{{ 101 }}", "max_fail_percentage is a number from 0 to 100"),
        ((), "{{ s }}", "max_fail_percentage is a number from 0 to 100"),
    ],
)
def test_what_they_can_not_be(serial: tuple[Any, ...], most: Any, message: str) -> None:
    with pytest.raises(SourceErrors) as caught:
        played(serial, most)
    (mistake,) = caught.value.mistakes
    assert mistake.location == HERE
    assert message in mistake.message


def test_a_run_makes_its_batches_of_them(lab: Lab) -> None:
    lab.inventory = "all: {hosts: {h1: , h2: , h3: , h4: }}"
    text = """\
    - hosts: all
      serial: "{{ s }}"
      vars: {s: [1]}
      tasks: [{debug: {msg: x}}]
    """
    ran = lab.play(text, extra_vars={"s": [1, "50%"]})
    assert [play.hosts for play in ran.result.plays] == [("h1",), ("h2", "h3"), ("h4",)]


def test_a_connection_of_one_host_may_be_that_of_another(lab: Lab) -> None:
    lab.inventory = "all: {hosts: {h1: , h2: {ansible_port: 2222}}}"
    text = """\
    - hosts: h1
      vars: {ansible_port: "{{ hostvars['h2'].ansible_port }}", ansible_host: "{{ groups['all'][1] }}"}
      tasks: [{debug: {msg: "{{ ansible_port }} {{ ansible_host }}"}}]
    """
    assert lab.play(text).task(0).message == "2222 h2"


def test_an_imported_playbook_has_a_folder_of_its_own(lab: Lab) -> None:
    # as seen in ansible-core 2.19
    (lab.folder / "sub").mkdir()
    (lab.folder / "sub" / "inner.yml").write_text(
        "- {hosts: all, tasks: [{debug: {msg: '{{ playbook_dir }}'}}]}"
    )
    ran = lab.play("- import_playbook: sub/inner.yml")
    assert ran.task(0).message == str((lab.folder / "sub").resolve())
