"""Which steps lead back to a generation, and when a failure leads to them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from klops.actions.base import Context, Plan, Step
from klops.actions.own.generation.action import Note
from klops.actions.own.rollback.action import RollbackAction, RollbackParams
from klops.agent.digests import packages_digest
from klops.errors import HostUnreachable, KlopsError, TaskFailed
from klops.inventory.settings import Build, Generations, Source
from klops.remote.fake import FakeRemote, reply
from tests.unit.actions_klops.generationsworld import World, generation, standing, told, unit

FAILED = {
    "code": "service-failed",
    "message": "main failed: boom\nits last lines:\nx",
    "hint": "klops logs h",
}
ONE, TWO = {"version": "1", "record": "r1"}, {"version": "2", "record": "r2"}
ACTIVATED = '{"before": "b", "changed": [], "imports": [], "pruned": []}\n'
CHECK = "check that nobody else holds card 0, 1"
START = "restart main (ready) as in generation 1 on cards 0,1 (TP=2)"
WAIT, NOTE = "wait until main is ready", "note what stands as a good generation"


def test_back_to_the_release_before() -> None:
    world = World(generation(1), generation(2, "b"), now=standing("b", number=2, good=True))
    plan = world.back()
    assert told(plan) == ["release b -> a", CHECK, START, WAIT, NOTE]
    assert plan.message == "generation 2 (release b) -> generation 1 (release a)"
    assert plan.result == {"from": 2, "to": 1}


def test_back_twice_goes_back_two_steps() -> None:
    known = [generation(1), generation(2, "b"), generation(3, "c"), generation(4, "b", of=2)]
    world = World(*known, now=standing("b", number=4, good=True))
    plan = world.back()
    assert plan.result["to"] == 1
    assert plan.steps[-1] == Note(world.settings, "run-1", of=1)


def test_what_was_synced_again_has_before_it_what_served_before_it() -> None:
    # the third is the commit of the first
    known = [generation(1), generation(2, "b"), generation(3), generation(4, "c")]
    assert World(*known, now=standing("c", number=4, good=True)).back().result["to"] == 3
    assert World(*known[:3], now=standing(number=3, good=True)).back().result["to"] == 2
    # and what is the same is no step back
    known = [generation(1), generation(2), generation(3)]
    with pytest.raises(TaskFailed, match="no generation before this one was good"):
        World(*known, now=standing(number=3, good=True)).back()


def test_bad_generations_are_only_gone_back_to_by_their_number() -> None:
    known = [generation(1), generation(2, "b", "bad"), generation(3, "c")]
    world = World(*known, now=standing("c", number=3, good=True))
    assert world.back().result["to"] == 1
    assert world.back(to=2).result["to"] == 2


def test_from_what_was_never_noted_it_is_the_last_good_one() -> None:
    world = World(generation(1), generation(2, "b"), now=standing("z"))
    assert world.back().result == {"from": None, "to": 2}


def test_packages_and_patches_go_back_with_it() -> None:
    patch = {"pristine": "p", "patched": "q", "patch": "s"}
    world = World(
        generation(1),
        generation(2, stack={"x": ONE}),
        generation(3, stack={"x": TWO, "y": None}, patches={"x/f.py": patch}),
        now=standing(number=3, good=True, stack={"x": TWO, "y": None}, patches={"x/f.py": patch}),
        original={"x": {"version": "0", "record": "r0"}, "y": ONE},
    )
    first = "restore x 2 -> 1, y not installed -> 1, x/f.py (not patched)"
    assert told(world.back()) == [first, CHECK, START.replace("1 on", "2 on"), WAIT, NOTE]
    assert told(world.back(to=1))[0] == "restore x 2 -> 0, y not installed -> 1, x/f.py (not patched)"


def test_a_unit_that_was_never_started_on_the_packages_that_go_is_left_alone() -> None:
    """A later task failed before any service was touched."""
    patch = {"pristine": "p", "patched": "q", "patch": "s"}
    good: dict[str, Any] = {"stack": {"x": ONE}, "patches": {"x/f.py": patch}}
    world = World(generation(1, **good), now=standing(stack={"x": TWO}))
    world.main["packages"] = packages_digest({"x": ONE}, {"x/f.py": "q"})
    restoring = "restore x 2 -> 1, x/f.py (patched)"
    assert told(world.back()) == [restoring, NOTE]
    world.main["packages"] = packages_digest({"x": TWO}, {})
    assert told(world.back()) == [restoring, CHECK, START, WAIT, NOTE]


def test_a_unit_of_the_same_code_and_settings_that_is_ready_is_left_alone() -> None:
    targets = [{"root": "/ws"}]
    world = World(generation(1, targets=targets), generation(2), now=standing(number=2, good=True))
    assert told(world.back()) == ["put the targets of release a back", NOTE]


def test_back_to_no_release_at_all() -> None:
    units = {"main": {**unit(), "paths": None}}
    world = World(generation(1, None, units=units), now=standing("b", targets=[{"root": "/ws"}]))
    world.main["digest"] = "other"
    assert told(world.back()) == ["take targets of release b away: /ws", CHECK, START, WAIT, NOTE]


def test_a_link_that_is_no_more_wanted_goes_before_packages_are_restored() -> None:
    """What is restored would be written through it."""
    linked = {"package": "x", "path": "x", "place": "site-packages"}
    others = [{"root": "/ws"}, {"package": "y", "path": "y", "place": "site-packages"}]
    now = standing("b", targets=[linked, *others], stack={"x": TWO})
    away, restored = "take targets of release b away: x", "restore x 2 -> 1"
    plan = World(generation(1, stack={"x": ONE}, targets=others), now=now).back()
    assert told(plan)[:3] == [away, restored, "release b -> a"]
    # nor is it looked at what is imported then
    asked = given(plan.steps[0])
    assert asked == {"name": "b", "targets": others, "protect": ["a"], "imports": False, "keep": 3}
    # one that stays, or without packages to restore, is left to the release that follows
    assert told(World(generation(1, stack={"x": TWO}), now=now).back())[0] == "release b -> a"
    stays = World(generation(1, stack={"x": ONE}, targets=[linked, *others]), now=now).back()
    assert told(stays)[:2] == [restored, "release b -> a"]


def test_without_a_release_nobody_is_asked_what_is_imported() -> None:
    """The copy of the image is what is wanted then."""
    world = World(generation(1, None, stack={"x": ONE}), now=standing("b", targets=[{"package": "x"}]))
    plan = world.back()
    assert told(plan)[:2] == ["take targets of release b away: x", "restore x not installed -> 1"]
    assert given(plan.steps[0]) == {"name": "b", "targets": [], "protect": [], "imports": False, "keep": 3}


def test_where_packages_are_not_kept_the_links_that_made_way_come_back() -> None:
    targets = [{"package": "x", "path": "x", "place": "site-packages"}]
    now = standing("b", targets=targets, stack={"x": TWO})
    world = World(generation(1, None, stack={"x": ONE}), now=now)
    remote = FakeRemote()
    remote.on("activate", reply(ACTIVATED))
    remote.on("restore", reply('{"error": {"code": "not-saved", "message": "no x 1", "hint": ""}}\n', rc=1))
    context = Context(remote, world.view(), lambda progress: None, lambda text: None)
    away, restore, *_ = world.back().steps
    away.carry_out(context)
    with pytest.raises(KlopsError, match="no x 1"):
        restore.carry_out(context)
    sent = [json.loads(call.stdin) for call in remote.log]
    assert [one.get("targets") for one in sent] == [[], None, targets]
    assert sent[2]["imports"] is False


def given(step: Step) -> Any:
    """What a step asks the agent for."""
    remote = FakeRemote()
    remote.on("activate", reply(ACTIVATED))
    step.carry_out(Context(remote, World(now=standing()).view(), lambda progress: None, lambda text: None))
    (call,) = remote.log
    return json.loads(call.stdin)


def test_what_stands_already_needs_nothing() -> None:
    world = World(generation(1), now=standing(number=1, good=True))
    plan = world.back(to=1)
    assert (plan.steps, plan.message) == ((), "generation 1 (release a) is what stands")


def test_units_that_take_each_others_cards_are_all_down_before_one_starts() -> None:
    units = {"main": unit("old"), "aaa": unit("x")}
    world = World(generation(1, units=units), now=standing())
    steps = told(world.back())
    assert steps == [
        "stop main (before it is started as it was)",
        CHECK,
        "start aaa as in generation 1 on cards 0,1 (TP=2)",
        "start main as in generation 1 on cards 0,1 (TP=2)",
        WAIT,
        "wait until aaa is ready",
        NOTE,
    ]


def test_a_unit_that_was_no_part_of_it_is_stopped() -> None:
    world = World(generation(1, units={}), now=standing())
    assert told(world.back()) == ["stop main (it is no part of generation 1)", NOTE]


@pytest.mark.parametrize(
    ("known", "params", "code", "text"),
    [
        ([], {}, "no-generation", "no generation before this one was good; known: none"),
        ([generation(1)], {"to": 4}, "no-generation", "there is no generation 4; known: 1"),
        ([generation(1, "b", "bad")], {}, "no-generation", "known: 1"),
    ],
)
def test_there_is_none(known: list[Any], params: dict[str, Any], code: str, text: str) -> None:
    with pytest.raises(TaskFailed) as raised:
        World(*known, now=standing("z")).back(**params)
    assert raised.value.code == code
    assert text in raised.value.message


def test_a_pruned_release_is_said_with_those_that_are_there() -> None:
    known = [generation(1, there=False), generation(2, "b"), generation(3, "c")]
    failure = World(*known, now=standing("c", number=3, good=True)).back(to=1).failure
    assert failure is not None
    assert (failure.code, failure.message) == (
        "release-gone",
        "release a of generation 1 is not on this host any more",
    )
    assert "generation 3, 2" in failure.hint


def test_an_agent_that_knows_no_generations() -> None:
    world = World(now=standing())
    world.answer = {"error": {"code": "usage", "message": "verbs: ...", "hint": ""}}
    failure = world.back().failure
    assert failure is not None
    assert failure.message == "the agent in the container knows no generations"
    assert world.back(after=FAILED).message == "what stands is not known, so it stays"


# -- after a failure ----------------------------------------------------------------------------------------


def broken() -> World:
    """Release b is current, and its service never got healthy."""
    world = World(generation(1), now=standing("b"))
    world.main.update({"state": "failed", "release": None})
    return world


def test_a_failure_leads_back_to_the_last_good_generation() -> None:
    plan = broken().back(after=FAILED)
    assert told(plan) == [
        "note what stands as a bad generation",
        "release b -> a",
        CHECK,
        "start main as in generation 1 on cards 0,1 (TP=2)",
        WAIT,
    ]


def test_what_this_run_has_stopped_is_brought_back() -> None:
    """Its new settings were refused: nothing was started in its place."""
    world = World(generation(1), now=standing(units={}))
    world.main.update({"state": "stopped", "desired": "stopped", "resumes": True})
    assert "start main as in generation 1 on cards 0,1 (TP=2)" in told(world.back(after=FAILED))


@pytest.mark.parametrize("changes", [{"stack": {"v": None}}, {"units": {"other": unit()}}])
def test_other_code_and_other_units_are_gone_back_from(changes: dict[str, Any]) -> None:
    world = World(generation(1), now=standing(**{"units": {}, **changes}))
    world.main.update({"state": "stopped", "desired": "stopped"})
    assert world.back(after=FAILED).steps


def ended(plan: Plan, remote: FakeRemote) -> KlopsError:
    """What carrying it out ends with."""
    context = Context(remote, broken().view(), lambda progress: None, lambda text: None)
    with pytest.raises(KlopsError) as raised:
        RollbackAction().apply(plan, context)
    return raised.value


class Does(Step):
    """A step that does nothing, or fails."""

    def __init__(self, error: KlopsError | None = None) -> None:
        self.error = error

    def change(self) -> Any:
        """Nothing to be told."""

    def carry_out(self, ctx: Context) -> None:
        """Fail, or don't."""
        if self.error is not None:
            raise self.error


def carried_out(*steps: Step) -> KlopsError:
    """The same for these steps in place of the planned ones."""
    plan = broken().back(after=FAILED)
    return ended(Plan(steps=steps, result=plan.result), FakeRemote())


def test_the_host_fails_all_the_same_and_says_what_serves() -> None:
    error = carried_out(Does())
    assert (error.code, error.hint) == ("rolled-back", "klops logs h")
    given_up = "release b was given up: main failed: boom\nits last lines:\nx"
    assert error.message == f"generation 1 serves again (release a); {given_up}"
    assert error.values == {"current": "a"}


def test_going_back_may_fail_too() -> None:
    error = carried_out(Does(TaskFailed("no room", hint="df -h")))
    assert (error.code, error.hint) == ("rollback-failed", "df -h")
    went_wrong = "main failed: boom; going back to generation 1 failed, too: no room"
    assert error.message == f"{went_wrong}\nits last lines:\nx"
    assert error.values == {"current": None}


def test_a_host_that_goes_away_meanwhile_is_not_said_to_be_anything() -> None:
    assert carried_out(Does(HostUnreachable("gone"))).code == "unreachable"


@pytest.mark.parametrize(
    ("world", "after", "message"),
    [
        (broken(), {}, "nothing failed"),
        (broken(), {**FAILED, "code": "lock-held"}, "it stays as it is after lock-held"),
        (World(now=standing("b")), FAILED, "there is no generation that was good"),
        (
            World(generation(1), now=standing(number=1, good=True)),
            FAILED,
            "generation 1 (release a) is what stands already",
        ),
        (
            World(generation(1), now=standing(units={})),
            FAILED,
            "generation 1 (release a) is what stands, without services that were down before",
        ),
    ],
)
def test_a_failure_that_leads_to_nothing(world: World, after: dict[str, Any], message: str) -> None:
    plan = world.back(after=after)
    assert (plan.steps, plan.failure, plan.message) == ((), None, message)


@pytest.mark.parametrize(
    ("action", "applied", "back"),
    [
        ("klops.source", [], False),
        ("klops.source", ["klops.agent", "template"], False),
        # it puts itself back
        ("klops.source", ["klops.source"], False),
        ("klops.source", ["klops.stack", "klops.source"], True),
        ("klops.services", ["klops.source", "klops.services"], True),
        ("klops.services", ["klops.services"], True),
        # the first of several may be in place
        ("klops.patch", ["klops.patch"], True),
        # a generation that there isn't, and one that doesn't serve
        ("klops.rollback", [], False),
        ("klops.rollback", ["klops.rollback"], True),
    ],
)
def test_only_what_this_run_may_have_changed_is_gone_back_from(
    action: str, applied: list[str], back: bool
) -> None:
    """What stands may be no good generation for another reason: a sync without a restart, say."""
    plan = broken().back(after={**FAILED, "action": action, "applied": applied})
    assert bool(plan.steps) is back
    if not back:
        assert plan.message == "nothing was changed before it failed"


@pytest.mark.parametrize(
    ("after", "asked"),
    [(None, True), (FAILED, True), ({}, False), ({**FAILED, "code": "lock-held"}, False)],
)
def test_the_host_is_asked_only_where_that_matters(after: dict[str, Any] | None, asked: bool) -> None:
    probe = RollbackAction().probe(RollbackParams(after=after), broken().view())
    assert bool(probe.reads) is asked


@pytest.mark.parametrize(
    ("code", "installs", "back"),
    [("import-elsewhere", ["v"], True), ("import-elsewhere", [], False), ("build-failed", ["v"], False)],
)
def test_what_a_build_installed_is_gone_back_from_where_its_release_does_not_get_current(
    code: str, installs: list[str], back: bool
) -> None:
    world = broken()
    source = Source(build=Build(commands=["make"], installs=installs))
    world.settings = world.settings.model_copy(update={"source": source})
    failed = {**FAILED, "code": code, "action": "klops.source", "applied": ["klops.source"]}
    assert bool(world.back(after=failed).steps) is back


def test_never_is_never() -> None:
    world = broken()
    world.settings = world.settings.model_copy(update={"generations": Generations(rollback="never")})
    assert world.back(after=FAILED).message == "klops.generations.rollback is never"


def test_a_dry_run_goes_nowhere() -> None:
    assert broken().back(after=FAILED, check=True).steps == ()


def test_without_the_release_of_the_last_good_one_all_stays_and_says_so() -> None:
    world = World(generation(1, there=False), now=standing("b"))
    plan = world.back(after=FAILED)
    assert plan.steps == ()
    assert "release a of the last good generation is gone" in plan.warnings[0]


# -- what the agent is asked --------------------------------------------------------------------------------


def test_what_is_asked_of_the_agent() -> None:
    world = World(generation(1, stack={"x": ONE}), now=standing("b", stack={"x": TWO}))
    remote = FakeRemote()
    remote.on("restore", reply('{"done": {"changed": [], "patches": []}}\n'))
    remote.on("activate", reply(ACTIVATED))
    remote.on("start", reply('{"state": "starting"}\n'))
    context = Context(remote, world.view(), lambda progress: None, lambda text: None)
    restore, activate, _, start, *_ = world.back().steps
    for step in (restore, activate, start):
        step.carry_out(context)
    sent = [call.stdin.decode() for call in remote.log]
    assert '"distributions": {"x": {"version": "1", "record": "r1"}}' in sent[0]
    assert '"name": "a", "targets": [], "paths": [""], "protect": ["b"], "keep": 3' in sent[1]
    assert sent[2] == '{"generation": 1}'
