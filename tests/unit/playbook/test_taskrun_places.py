"""Where a task runs: ``delegate_to``, ``become``, ``environment``. Compared with ansible-core 2.19."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from klops.errors import HostUnreachable
from klops.playbook.model import Task
from klops.playbook.results import Status
from klops.remote.fake import reply
from klops.secret import Secret
from tests.unit.playbook.onehost import Bench, Fleet, task


@pytest.fixture
def bench() -> Bench:
    """Two hosts; ``work`` runs on both, and on this machine."""
    made = Bench(Fleet({"h1": {"colour": "red"}, "h2": {"colour": "blue", "other": "h2's"}}))
    for name in ("h1", "h2", "localhost", "127.0.0.1"):
        made.fleet.remote(name).on("work", name)
    return made


def work(**keywords: Any) -> Task:
    return task("command", {"cmd": "work"}, register="r", **keywords)


# -- delegate_to ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "where", "locks"),
    [
        ("h2", "h2", ["h2"]),
        ("{{ 'h' ~ 2 }}", "h2", ["h2"]),
        ("localhost", "localhost", []),
        ("127.0.0.1", "127.0.0.1", []),
        ("{{ inventory_hostname }}", "h1", ["h1"]),
    ],
)
def test_a_task_runs_elsewhere_with_the_lock_of_that_host(
    bench: Bench, to: str, where: str, locks: list[str]
) -> None:
    result = bench.run(work(delegate_to=to))
    assert result.status is Status.CHANGED
    assert bench.shows("r.stdout") == where
    assert [name for name, lock in bench.fleet.locks.items() if lock.taken] == locks


def test_variables_stay_those_of_the_host_itself(bench: Bench) -> None:
    keywords = {"delegate_to": "h2"}
    assert bench.shows("colour ~ inventory_hostname", **keywords) == "redh1"
    assert bench.shows("ansible_delegated_vars.h2.colour", **keywords) == "blue"
    assert "undefined" in str(bench.shows("other", **keywords))
    assert bench.shows("ansible_delegated_vars is defined") is False


def test_an_unknown_host_is_a_failure_with_the_nearest_name(bench: Bench) -> None:
    result = bench.run(work(delegate_to="h22"))
    assert result.status is Status.FAILED
    assert result.error is not None
    assert (result.error.code, result.error.hint) == ("delegate", "did you mean h2?")


def test_what_another_host_answers_is_never_mixed_with_the_hosts_own(bench: Bench) -> None:
    for name in ("h1", "h2"):
        bench.fleet.remote(name).on(lambda call: call.kind == "read", reply(f"/a\0of {name}"))
    own, other = (task("slurp", {"src": "/a"}, register=name) for name in ("own", "other"))
    bench.run(own, replace(other, delegate_to="h2"))
    bench.run(replace(other, delegate_to="h2"), own)
    assert bench.shows("own.content != other.content") is True
    assert bench.fleet.remote("h1").commands_run == bench.fleet.remote("h2").commands_run == 1


def test_a_delegated_change_makes_the_other_host_look_again(bench: Bench) -> None:
    remote = bench.fleet.remote("h2")
    remote.on(lambda call: call.kind == "read", reply("/a\0text"))
    look = task("slurp", {"src": "/a"})
    bench.run(look, on="h2")
    bench.run(look, on="h2")
    assert remote.commands_run == 1
    bench.run(work(delegate_to="h2"), on="h1")
    bench.run(look, on="h2")
    assert remote.commands_run == 3


def test_each_who_works_on_a_host_has_a_remote_of_its_own(bench: Bench) -> None:
    remote = bench.fleet.remote("h2")
    for on in ("h1", "h2", "h1"):
        bench.run(work(delegate_to="h2"), on=on)
    assert remote.clones == 2
    assert bench.fleet.opened == [("h2", None)]
    assert bench.fleet.locks["h2"].taken == 1


def test_check_mode_writes_nothing_elsewhere_either(bench: Bench) -> None:
    bench.check = True
    assert bench.run(work(delegate_to="h2")).status is Status.UNKNOWN
    assert bench.fleet.remote("h2").log == []


def test_facts_go_where_delegate_facts_says(bench: Bench) -> None:
    bench.run(task("set_fact", {"here": 1}, delegate_to="h2"))
    bench.run(task("set_fact", {"there": 2}, delegate_to="h2", delegate_facts=True))
    assert bench.shows("here") == 1
    assert bench.shows("there is defined") is False
    assert bench.shows("hostvars.h2.there") == 2
    assert bench.shows("there", on="h2") == 2


def test_a_delegated_host_that_is_gone_makes_the_task_unreachable(bench: Bench) -> None:
    bench.fleet.remote("h2").unreachable = "no route"
    result = bench.run(work(delegate_to="h2"))
    assert result.status is Status.UNREACHABLE
    assert isinstance(result.error, HostUnreachable)


def test_each_turn_may_run_elsewhere(bench: Bench) -> None:
    bench.run(work(delegate_to="{{ item }}", loop=["h1", "h2"]))
    assert bench.shows("r.results | map(attribute='stdout') | list") == ["h1", "h2"]


# -- become --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keywords", "identity"),
    [
        ({}, (None,)),
        ({"become": True}, (True,)),
        ({"become": "{{ 1 == 2 }}"}, (False,)),
        ({"become": True, "become_user": "{{ colour }}"}, (True, "red")),
        # as in ansible, a user without become changes nothing; the connection may become all the same
        ({"become": False, "become_user": "red"}, (False,)),
        ({"become_user": "red"}, (None, "red")),
    ],
)
def test_a_task_becomes_somebody(bench: Bench, keywords: dict[str, Any], identity: tuple[Any, ...]) -> None:
    assert bench.run(task("slurp", {"src": "/a"}, **keywords)).status is Status.FAILED  # nothing answers
    assert bench.fleet.opened == [("h1", *identity)]


def test_the_lock_is_taken_as_root_whoever_works_first(bench: Bench) -> None:
    bench.play = replace(bench.play, become=True)
    bench.run(work(become=False))
    assert set(bench.fleet.opened) == {("h1", False), ("h1", True)}


# -- environment ---------------------------------------------------------------------------------------------


def test_environments_are_laid_over_each_other_as_text(bench: Bench) -> None:
    # ansible: True, None and 1.5 as Python writes them
    outer = {"A": "play", "B": 1}
    inner = {"A": "{{ colour }}", "C": True, "D": None, "E": 1.5, "F": "{{ omit }}"}
    bench.run(work(environment=(outer, inner, "{{ {'G': 'g'} }}")))
    (call,) = [call for call in bench.fleet.remote().log if call.kind == "run"]
    assert call.env == {"A": "red", "B": "1", "C": "True", "D": "None", "E": "1.5", "G": "g"}


@pytest.mark.parametrize("environment", [{"A": "{{ nope }}"}, "{{ [1] }}"])
def test_an_environment_that_is_none_fails_the_task(bench: Bench, environment: Any) -> None:
    result = bench.run(work(environment=(environment,)))
    assert result.status is Status.FAILED
    assert result.message.startswith("p.yml:3:7: ")


def test_a_secret_in_the_environment_is_handed_over_and_masked(bench: Bench) -> None:
    bench.extra = {"key": Secret("s3same 'x' $y")}
    bench.run(work(environment=({"KEY": "{{ key }}"},)))
    (call,) = [call for call in bench.fleet.remote().log if call.kind == "run"]
    assert call.env == {"KEY": "s3same 'x' $y"}
    assert "s3same" not in bench.redactor("echo s3same 'x' $y")


def test_what_is_read_for_a_task_sees_its_environment(bench: Bench) -> None:
    remote = bench.fleet.remote()
    remote.on("crontab -l", "")
    made = task("cron", {"name": "n", "job": "j"}, environment=({"STATE": "/srv x"},))
    bench.run(made)
    (read,) = [call for call in remote.log if call.kind == "read"]
    (run,) = [call for call in remote.log if call.kind == "run"]
    assert read.text.startswith("export STATE='/srv x'\n")
    assert run.env == {"STATE": "/srv x"}


def test_a_variable_that_no_shell_would_take_fails_the_task(bench: Bench) -> None:
    result = bench.run(work(environment=({"{{ 'A-B' }}": "x", "A-B": "x"},)))
    assert result.status is Status.FAILED
    assert "is no name for a variable" in result.message


@pytest.mark.parametrize(
    ("become", "user", "opened"),
    [
        (True, "app", ("h1", True, "app")),
        ("{{ yes_or_no }}", "{{ colour }}", ("h1", True, "red")),
        (False, "app", ("h1", False)),
        ("{{ nope }}", None, ("h1", None)),
    ],
)
def test_facts_are_those_that_the_user_of_the_play_sees(
    bench: Bench, become: Any, user: Any, opened: tuple[Any, ...]
) -> None:
    bench.play = replace(bench.play, become=become, become_user=user)
    bench.variables = {"yes_or_no": True}
    bench.on()._parts.places.home.remote()
    assert bench.fleet.opened == [opened]


def test_what_klops_keeps_there_is_for_who_has_the_rights(bench: Bench) -> None:
    bench.play = replace(bench.play, become=True, become_user="app")
    bench.on().keeper.remote()
    assert bench.fleet.opened == [("h1", True)]
