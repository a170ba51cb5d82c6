"""Facts are read when a template asks for one, together with what else is to be read, once in a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from klops.actions.base import Probe
from klops.playbook.results import Status
from klops.playbook.tasks import facts
from klops.remote.base import Reply
from klops.remote.fake import reply
from klops.remote.reads import FileRead
from tests.unit.playbook.onehost import Bench, Fleet, task


class Stated:
    """Facts as a test wants them: one read that gives the name of the host."""

    INJECTED = frozenset({"ansible_hostname", "ansible_gone"})

    @staticmethod
    def facts(replies: Mapping[str, Reply]) -> dict[str, Any]:
        """One fact."""
        return {"hostname": replies["name"].text}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Two hosts that say their names."""
    monkeypatch.setattr(facts, "hostfacts", Stated)
    monkeypatch.setattr(facts, "NAMES", Stated.INJECTED | {facts.ALL})
    monkeypatch.setattr(facts, "PROBE", Probe((FileRead("name", "/etc/hostname"),)))
    made = Bench(Fleet({"h1": {"banner": "on {{ ansible_hostname }}"}, "h2": {}}))
    for name in ("h1", "h2"):
        remote = made.fleet.remote(name)
        remote.on(lambda call: call.kind == "read", reply(rc=44)).on("/etc/hostname", f"name-{name}")
        remote.on("work", "")
    return made


@pytest.mark.parametrize(
    "expression", ["ansible_hostname", "ansible_facts.hostname", "ansible_facts['hostname']"]
)
def test_a_fact_is_read_when_it_is_asked_for(bench: Bench, expression: str) -> None:
    bench.run(task("debug", {"msg": "x"}))
    assert bench.fleet.remote().log == []
    assert bench.shows(expression) == "name-h1"
    assert bench.shows(expression) == "name-h1"
    assert bench.fleet.remote().commands_run == 1


def test_facts_join_the_first_look_at_the_host(bench: Bench) -> None:
    first = task("slurp", {"src": "/a"})
    bench.run(first, task("debug", {"msg": "{{ banner }}"}))
    assert bench.shows("banner") == "on name-h1"
    assert bench.fleet.remote().commands_run == 1


def test_what_comes_later_joins_the_facts(bench: Bench) -> None:
    later = task("slurp", {"src": "/a"})
    bench.run(task("debug", {"msg": "{{ ansible_hostname }}"}), later)
    bench.run(later)
    assert bench.fleet.remote().commands_run == 1


def test_facts_last_for_the_whole_run(bench: Bench) -> None:
    assert bench.shows("ansible_hostname") == "name-h1"
    bench.run(task("command", {"cmd": "work"}))
    bench._plays.clear()
    assert bench.shows("ansible_hostname") == "name-h1"
    assert bench.fleet.remote().commands_run == 2


def test_check_mode_reads_facts_too(bench: Bench) -> None:
    bench.check = True
    assert bench.shows("ansible_hostname") == "name-h1"


def test_facts_of_another_host(bench: Bench) -> None:
    assert (
        bench.shows("hostvars.h2.ansible_hostname ~ hostvars['h2'].ansible_facts.hostname")
        == "name-h2name-h2"
    )
    assert bench.shows("ansible_hostname", on="h2") == "name-h2"
    assert bench.fleet.remote("h2").commands_run == 1


def test_another_host_that_is_gone_makes_the_task_fail_and_this_host_not_unreachable(bench: Bench) -> None:
    bench.fleet.remote("h2").unreachable = "no route"
    result = bench.run(task("debug", {"msg": "{{ hostvars.h2.ansible_hostname }}"}))
    assert result.status is Status.FAILED
    assert "the facts of h2 are not known" in result.message


def test_variables_and_set_facts_are_stronger(bench: Bench) -> None:
    bench.run(task("set_fact", {"ansible_hostname": "mine"}))
    assert bench.shows("ansible_hostname") == "mine"
    assert bench.shows("ansible_facts.hostname") == "name-h1"


def test_facts_of_a_module_are_laid_over_those_that_were_read(bench: Bench) -> None:
    facts.merge(bench.fleet.host("h1"), {"ansible_own": 1, "hostname": "other"})
    assert bench.shows("ansible_own") == 1
    assert bench.shows("ansible_hostname ~ ansible_facts.own") == "other1"


def test_a_fact_that_the_host_does_not_have_is_undefined(bench: Bench) -> None:
    assert bench.shows("ansible_gone is defined") is False
    assert bench.shows("ansible_gone | default('none')") == "none"


def test_the_title_of_a_task_reads_nothing(bench: Bench) -> None:
    named = task("debug", {"msg": "x"}, name="on {{ ansible_hostname }}")
    assert bench.on().title(named) == "on {{ ansible_hostname }}"
    assert bench.fleet.remote().log == []
    bench.shows("ansible_hostname")
    assert bench.on().title(named) == "on name-h1"


def test_showing_all_variables_reads_nothing(bench: Bench) -> None:
    del bench.fleet.inventory["h1"]["banner"]
    assert "ansible_hostname" not in bench.shows("hostvars.h2")
    assert bench.fleet.remote("h2").log == []
