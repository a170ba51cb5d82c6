"""When what serves is noted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from klops.actions.base import Context
from klops.actions.own.generation.action import GenerationAction
from klops.playbook.results import Status, TaskResult
from klops.playbook.tasks.outcome import planned
from klops.remote.fake import FakeRemote, reply
from tests.unit.actions_klops.generationsworld import World, generation, standing, told


def test_what_serves_is_noted() -> None:
    world = World(generation(1), now=standing("b"))
    plan = world.note()
    assert told(plan) == ["note what stands as a good generation"]
    remote = FakeRemote()
    remote.on("generation", reply('{"number": 2, "noted": true, "notes": ["not looked through"]}'))
    warned: list[str] = []
    context = Context(remote, world.view(), lambda progress: None, warned.append)
    assert plan.steps[0].carry_out(context) == {"generation": 2}
    assert warned == ["not looked through"]
    sent = json.loads(remote.log[0].stdin)
    assert (sent["health"], sent["run"], sent["error"], sent["keep"]) == ("good", "run-1", "", 10)
    assert "@" in sent["author"]


def after_a_change(world: World, answer: dict[str, Any]) -> tuple[TaskResult, list[str], dict[str, Any]]:
    """The result of a task whose run has changed something before, its warnings, and what was asked."""
    plan = world.note(changed={"current": "a"})
    remote, warned = FakeRemote(), list[str]()
    remote.on("generation", reply(json.dumps({"obstacle": "", "faults": [], "noted": False, **answer})))
    added = GenerationAction().apply(
        plan, Context(remote, world.view(), lambda progress: None, warned.append)
    )
    (command,) = remote.log
    return planned(plan, check=False, added=added), warned, json.loads(command.stdin)


def test_after_a_change_the_agent_looks_and_notes_in_one() -> None:
    world = World(now=standing())
    result, warned, sent = after_a_change(world, {"number": 2, "noted": True})
    assert (result.status, result.values["generation"], warned) == (Status.CHANGED, 2, [])
    assert (sent["serving"], sent["run"]) == ({"services": True}, "run-1")
    assert [change.what for change in result.changes] == ["note what stands as a good generation"]


def test_after_a_change_what_was_noted_before_is_no_change() -> None:
    result, warned, _ = after_a_change(World(now=standing()), {"number": 1, "faults": ["7.json is none"]})
    assert (result.status, result.values["generation"], result.changes) == (Status.OK, 1, ())
    assert warned == ["7.json is none"]


def test_after_a_change_what_does_not_serve_is_not_noted() -> None:
    result, _, _ = after_a_change(World(now=standing()), {"number": None, "obstacle": "nothing runs"})
    assert (result.status, result.message, result.changes) == (Status.SKIPPED, "nothing runs", ())
    assert result.values["skipped"] is True


def test_what_was_noted_with_the_change_before_is_told_as_if_it_were_done_now() -> None:
    world = World(now=standing())
    plan = world.note(changed={"current": "a", "generation": 3})
    remote = FakeRemote()
    context = Context(remote, world.view(), lambda progress: None, lambda text: None)
    result = planned(plan, check=False, added=GenerationAction().apply(plan, context))
    assert (result.status, result.values["generation"], remote.log) == (Status.CHANGED, 3, [])
    assert [change.what for change in result.changes] == ["note what stands as a good generation"]
    assert not any(step.on_host for step in plan.steps)


def test_a_dry_run_notes_nothing_and_so_looks() -> None:
    world = World(generation(1), now=standing(number=1, good=True))
    assert world.note(check=True, changed={}).message == "generation 1 (release a)"


def test_the_newest_good_one_is_not_noted_again() -> None:
    world = World(generation(1), generation(2, health="bad"), now=standing(number=2, good=True))
    plan = world.note()
    assert (plan.steps, plan.message, plan.result) == ((), "generation 1 (release a)", {"generation": 1})


def test_what_is_not_ready_does_not_serve() -> None:
    world = World(now=standing())
    world.main["state"] = "starting"
    assert world.note().skipped == "not everything that is to run is ready: main"


def test_what_a_run_stopped_and_never_came_to_start_again_is_to_run() -> None:
    world = World(now=standing(units={}))
    world.main.update({"state": "stopped", "desired": "stopped", "resumes": True})
    assert world.note().skipped == "not everything that is to run is ready: main"


def test_where_nothing_runs_nothing_is_noted_unless_nothing_is_to() -> None:
    world = World(now=standing(units={}))
    assert "nothing runs" in world.note().skipped
    world.settings = world.settings.model_copy(update={"services": {}})
    assert told(world.note()) == ["note what stands as a good generation"]
    assert "nothing runs" in World(now=standing(None, units={})).note().skipped


@pytest.mark.parametrize("check", [False, True])
def test_an_agent_that_knows_no_generations(*, check: bool) -> None:
    world = World(now=standing())
    world.answer = {"error": {"code": "usage", "message": "verbs: ...", "hint": ""}}
    plan = world.note(check=check)
    assert (plan.failure is None, bool(plan.unknown)) == (check, check)
