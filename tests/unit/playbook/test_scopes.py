"""Which variables a task sees, and which of several wins. Compared with ansible-core 2.19."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from klops.playbook.results import Status
from tests.unit.playbook.onehost import Bench, Fleet, task


@pytest.fixture
def bench() -> Bench:
    """Two hosts in a group."""
    inventory: dict[str, dict[str, Any]] = {
        "h1": {"port": 1, "url": "h:{{ port }}"},
        "h2.lan": {"port": 2, "url": "h:{{ port }}"},
    }
    hosts = list(inventory)
    return Bench(Fleet(inventory, {"all": hosts, "g": hosts, "ungrouped": []}), variables={"of_play": "p"})


LEVELS = ("host", "play", "task", "fact", "include", "data", "extra", "loop")


@pytest.mark.parametrize("count", range(1, len(LEVELS) + 1))
def test_the_stronger_level_wins(count: int) -> None:
    given = {level: {"v": level} for level in LEVELS[:count]}
    bench = Bench(extra=given.get("extra", {}), variables=given.get("play", given["host"]))
    if "fact" in given:
        bench.run(task("set_fact", {"v": "fact"}))
    made = replace(
        task("debug", {"msg": "{{ v }}"}),
        vars=given.get("task", {}),
        include_vars=given.get("include", {}),
        data=given.get("data", {}),
    )
    if "loop" in given:
        control = replace(made.loop_control, loop_var="v")
        result = bench.run(replace(made, loop=["loop"], loop_control=control))
        assert result.values["results"][0]["msg"] == "loop"
    else:
        assert bench.run(made).values["msg"] == LEVELS[count - 1]


def test_registered_results_are_stronger_than_variables_of_the_task(bench: Bench) -> None:
    bench.run(task("debug", {"msg": "x"}, register="r"))
    assert bench.shows("r.msg", vars={"r": "of the task"}) == "x"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("inventory_hostname", "h1"),
        ("group_names", ["g"]),
        ("groups.g", ["h1", "h2.lan"]),
        ("ansible_play_hosts", ["h1", "h2.lan"]),
        ("ansible_play_batch == play_hosts == ansible_play_hosts_all", True),
        ("ansible_play_name", "the play"),
        ("ansible_check_mode", False),
        ("ansible_run_tags", ["all"]),
        ("ansible_limit is defined", False),
        ("ansible_version.full is version('2.9', '>=')", True),
        ("playbook_dir | basename != ''", True),
        ("omit is defined", True),
        ("vars.port", 1),
        ("vars['url']", "h:1"),
    ],
)
def test_what_klops_itself_gives(bench: Bench, expression: str, value: Any) -> None:
    assert bench.shows(expression) == value


def test_the_name_of_a_host_cannot_be_set(bench: Bench) -> None:
    bench.extra = {"inventory_hostname": "other", "ansible_check_mode": True}
    assert bench.shows("inventory_hostname ~ ansible_check_mode") == "h1False"


# -- hostvars ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("hostvars['h2.lan'].port", 2),
        # rendered with that host's own variables
        ("hostvars['h2.lan']['url']", "h:2"),
        ("hostvars['h2.lan'].inventory_hostname_short", "h2"),
        ("hostvars['h2.lan'].group_names", ["g"]),
        # without the variables of the play
        ("hostvars.h1.of_play | default('none')", "none"),
        ("hostvars['nope'] is defined", False),
        ("'nope' in hostvars", False),
        ("hostvars | list", ["h1", "h2.lan"]),
        ("hostvars['h2.lan'] is defined and hostvars['h2.lan'].x is not defined", True),
        ("hostvars[inventory_hostname].port", 1),
        ("hostvars.values() | map(attribute='port') | list", [1, 2]),
        ("hostvars['h2.lan'].hostvars.h1.port", 1),
    ],
)
def test_variables_of_other_hosts(bench: Bench, expression: str, value: Any) -> None:
    assert bench.shows(expression) == value


def test_other_hosts_show_what_they_registered(bench: Bench) -> None:
    bench.run(task("set_fact", {"token": "{{ port * 10 }}"}), on="h2.lan")
    assert bench.shows("hostvars['h2.lan'].token") == 20


def test_an_unknown_host_names_the_nearest(bench: Bench) -> None:
    error = bench.shows("hostvars['h2.lam'].port")
    assert "no host is called 'h2.lam': did you mean h2.lan?" in str(error)


def test_an_unknown_variable_of_a_host_names_the_nearest(bench: Bench) -> None:
    error = bench.shows("hostvars['h2.lan'].prt")
    assert "h2.lan has no variable 'prt': did you mean port?" in str(error)
    assert bench.shows("hostvars['h2.lan'].get('prt', 5)") == 5
    assert bench.shows("hostvars.get('nope', 5)") == 5


def test_all_of_hostvars_can_be_shown(bench: Bench) -> None:
    shown = bench.shows("hostvars")
    assert (shown["h2.lan"]["url"], list(shown)) == ("h:2", ["h1", "h2.lan"])


# -- names of tasks, rescues, run_once -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "title"),
    [("on {{ port }}", "on 1"), ("on {{ nope }}", "on {{ nope }}"), ("plain", "plain")],
)
def test_titles_are_rendered_where_that_is_possible(bench: Bench, name: str, title: str) -> None:
    assert bench.on().title(task("debug", name=name)) == title


def test_a_rescue_is_told_what_failed(bench: Bench) -> None:
    failing = task("fail", {"msg": "no good"}, name="on {{ port }}")
    bench.on().note_failure(failing, bench.run(failing))
    assert bench.shows("ansible_failed_task.name ~ '/' ~ ansible_failed_task.action") == "on 1/fail"
    assert bench.shows("ansible_failed_result.msg") == "no good"
    assert bench.shows("ansible_failed_result is failed") is True


def test_a_result_of_another_host_can_be_adopted(bench: Bench) -> None:
    bench.with_handlers("h")
    made = task("debug", {"msg": "x"}, register="r", changed_when=("true",), notify=("h",))
    facts = task("set_fact", {"v": "{{ item }}"}, loop=[1, 2])
    for once in (made, facts):
        bench.on("h2.lan").adopt(once, bench.run(once))
    assert bench.shows("r.msg ~ v", on="h2.lan") == "x2"
    # as in ansible the handler runs for who ran the task
    assert bench.fleet.host("h2.lan").notified == {}
    assert bench.fleet.host("h1").notified == {"h": ""}


def test_names_of_handlers_are_rendered_with_the_result(bench: Bench) -> None:
    bench.with_handlers("do x")
    made = task("debug", {"msg": "x"}, register="r", changed_when=("true",), notify=("do {{ r.msg }}",))
    bench.run(made)
    assert bench.fleet.host("h1").notified == {"do x": ""}
    wrong = bench.run(replace(made, notify=("do {{ nope }}",)))
    assert wrong.status is Status.FAILED


def test_a_notification_that_means_nothing_fails_the_task(bench: Bench) -> None:
    # ansible-playbook ends the whole run with "The requested handler 'restrat' was not found"
    bench.with_handlers("restart", "reload")
    made = task("debug", {"msg": "x"}, changed_when=("true",), notify=("{{ 'restrat' }}",))
    failed = bench.run(made)
    assert failed.error is not None
    assert failed.message == "p.yml:3:7: notifies 'restrat', and this play has no such handler"
    assert failed.error.hint == "did you mean 'restart'?"
    # nobody is to be told: then it doesn't matter
    assert bench.run(replace(made, changed_when=("false",))).status is Status.OK


def test_hostvars_are_made_once_and_see_what_tasks_add(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    variables = bench.fleet.variables

    def counted(name: str) -> Mapping[str, Any]:
        looked.append(name)
        return variables(name)

    monkeypatch.setattr(bench.fleet, "variables", counted)
    for value in ("one", "two"):
        bench.fleet.host("h2.lan").data["x"] = value
        assert bench.shows("hostvars['h2.lan'].x ~ hostvars['h2.lan']['x']") == value * 2
    assert looked == ["h2.lan"]
