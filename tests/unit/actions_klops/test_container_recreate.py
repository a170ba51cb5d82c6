from __future__ import annotations

import json
from typing import Any

import pytest

from klops.actions.own import supervision
from klops.actions.own.container import making
from klops.actions.own.image import python
from klops.errors import (
    ChangedMeanwhile,
    CommandTimeout,
    ConnectionLost,
    DockerUnavailable,
    Interrupted,
    KlopsError,
    TaskFailed,
)
from klops.inventory.settings import Patch, Stack
from klops.remote.base import Reply
from klops.remote.fake import reply

from .enginehost import ASIDE, NAME, NEW, OLD, RECORD, UNIT, Box, EngineHost, settings

#: every command of a recreation that may go wrong after the old container was touched
COMMANDS = ("put", "stop old", "commit", "update old", "rename old", "create", "start new", "agent wait")
REFUSED = reply(rc=1, stderr="Error response from daemon: made to fail")


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "_PAUSE", 0.0)
    monkeypatch.setattr(supervision, "AGENT_TIMEOUT", 0.0)
    monkeypatch.setattr(making, "_LATE", 0.0)
    monkeypatch.setattr(python, "_SETTLED", 0.0)


def went_back(host: EngineHost) -> None:
    """The old container has its name, runs, starts by itself, its units are wanted; nothing else is left."""
    assert host.shown == {NAME: (OLD, "running", "always")}
    assert host.desired == "running"
    assert host.kept == ""
    assert not host.recorded


def test_all_goes_well() -> None:
    host = EngineHost()
    assert host.up()["id"] == NEW
    assert host.shown == {NAME: (NEW, "running", "always")}
    assert not host.recorded
    assert host.kept == ""
    changing = [word for word in host.words if word not in ("rm", "put")]
    assert changing == [
        "run",
        "agent keep",
        "stop old",
        "update old",
        "rename old",
        "create",
        "start new",
        "agent wait",
        "rm old",
        "agent forget-kept",
    ]


def test_nothing_is_ever_aside_without_a_record() -> None:
    host = EngineHost()
    host.up()
    assert host.words.index("put") < host.words.index("stop old")
    assert host.words.index("rm") > host.words.index("rm old"), "and it goes last"


@pytest.mark.parametrize("late", [False, True], ids=["refused", "done-all-the-same"])
@pytest.mark.parametrize("command", COMMANDS)
def test_whatever_is_refused_the_old_one_is_back(command: str, late: bool) -> None:
    host = EngineHost(settings(commit=True), {command: REFUSED}, late=late)
    with pytest.raises(KlopsError) as raised:
        host.up()
    assert raised.value.code == "recreate-failed"
    went_back(host)


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("command", COMMANDS)
def test_an_interrupt_at_any_command_puts_the_old_one_back(command: str, late: bool) -> None:
    host = EngineHost(settings(commit=True), {command: Interrupted("interrupted")}, late=late)
    with pytest.raises(Interrupted) as raised:
        host.up()
    went_back(host)
    assert "is back, its services are starting: main" in raised.value.message
    assert host.words.count("agent wait") == (command == "agent wait"), "nobody waits for the old units"


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("command", [*COMMANDS[:-1], "rm old", "agent forget-kept"])
def test_a_lost_link_leaves_a_record_by_which_the_next_look_completes_it(command: str, late: bool) -> None:
    host = EngineHost(settings(commit=True), {command: ConnectionLost("gone")}, late=late)
    with pytest.raises(ConnectionLost):
        host.up()
    assert host.recorded or command == "put"
    host.up()
    assert host.shown == {NAME: (NEW, "running", "always")}
    assert host.desired == "running"
    assert not host.recorded


@pytest.mark.parametrize("fault", ["no agent", "unit"])
def test_a_new_one_that_does_not_serve_goes_and_why_is_said(fault: str) -> None:
    host = EngineHost(faults={fault: REFUSED})
    with pytest.raises(TaskFailed) as raised:
        host.up()
    went_back(host)
    assert raised.value.code == "recreate-failed"
    told = raised.value.message
    assert ("last words" in told) == (fault == "unit")
    assert "the old container klops (c0ffee000000) is back, and serves: main" in told
    assert ("agent stop" in host.words) == (fault == "unit")


def test_the_units_of_an_adopted_one_are_ended_first_and_it_is_never_removed() -> None:
    host = EngineHost(adopted=True)
    host.up("allow")
    assert host.words.index("agent quit") < host.words.index("stop old")
    assert host.shown == {NAME: (NEW, "running", "always"), ASIDE: (OLD, "exited", "no")}
    assert "/data/klops/adopted.json" not in host.remote.files
    kept = next(text for text in host.warnings if f"is kept, stopped: {ASIDE}" in text)
    assert "docker container prune would take it" in kept


class Stopping(EngineHost):
    """The engine stops the old container while its supervisor is asked to quit."""

    def agent(self, verb: str) -> Reply:
        if verb != "quit":
            return super().agent(verb)
        self.boxes[OLD].state = "exited"
        return reply(rc=137)


def test_an_adopted_one_that_the_engine_is_stopping_already_needs_no_supervisor_to_quit() -> None:
    host = Stopping(adopted=True)
    host.up("allow")
    assert host.shown[NAME] == (NEW, "running", "always")


def test_only_what_services_see_leads_to_another_container_in_place_of_an_adopted_one() -> None:
    host = EngineHost(settings(env={}, stop_timeout=60), adopted=True)
    assert not any("anew" in step.change().what for step in host.plan("allow").steps)


def test_the_settings_alone_never_replace_an_adopted_one() -> None:
    host = EngineHost(adopted=True)
    plan = host.plan()
    assert plan.failure is None
    assert not any("anew" in step.change().what for step in plan.steps)
    assert any("klops up h --recreate" in text for text in plan.warnings)


def test_one_that_docker_would_remove_when_it_stops_is_not_put_aside() -> None:
    host = EngineHost(auto_remove=True)
    failure = host.plan().failure
    assert failure is not None
    assert "--rm" in failure.message


def test_a_stopped_one_is_made_anew_without_being_started_and_comes_back_stopped() -> None:
    host = EngineHost(faults={"start new": REFUSED})
    host.boxes[OLD].state = "exited"
    with pytest.raises(TaskFailed) as raised:
        host.up()
    assert host.shown == {NAME: (OLD, "exited", "always")}
    assert "start old" not in host.words
    assert "stopped as it was" in raised.value.message
    assert not host.recorded
    host.up()
    assert host.shown == {NAME: (NEW, "running", "always")}
    assert "agent wait" in host.words, "what the files want running has to be ready"


def test_who_made_it_anew_meanwhile_is_noticed_before_anything_is_touched() -> None:
    host = EngineHost()
    plan = host.plan()
    host.boxes = {NEW: Box(NEW, NAME)}
    with pytest.raises(ChangedMeanwhile):
        plan.steps[-1].carry_out(host.ctx)
    assert host.words == []


def test_a_name_that_a_stranger_takes_is_not_taken_from_them() -> None:
    stranger = Box("5711a96e", NAME)
    host = EngineHost(faults={"create": REFUSED}, stranger=stranger)
    with pytest.raises(TaskFailed) as raised:
        host.up()
    assert raised.value.code == "recreate-failed"
    assert "was taken by another container: klops (5711a96e" in raised.value.message
    assert "made to fail" in raised.value.message, "and why it came to that"
    free = "docker rename klops klops.other frees the name; then klops up h tries it again; by hand: "
    way = f"{free}docker rename {ASIDE} klops"
    assert raised.value.hint.startswith(way)
    assert host.boxes[stranger.id].state == "running"
    assert host.shown[ASIDE] == (OLD, "exited", "no")
    assert host.recorded
    with pytest.raises(TaskFailed, match="could not be put back") as again:
        host.up()
    assert again.value.hint.startswith(way), "and the next run says the same"


def test_a_way_back_that_fails_too_leaves_the_record_and_the_next_run_settles_it() -> None:
    host = EngineHost(faults={"create": REFUSED, "start old": REFUSED})
    with pytest.raises(TaskFailed) as raised:
        host.up()
    assert "could not be put back: container klops does not start" in raised.value.message
    assert "klops up h tries it again" in raised.value.hint
    assert host.recorded
    host.up()
    assert host.shown == {NAME: (NEW, "running", "always")}
    assert not host.recorded


def test_a_lost_run_whose_new_container_serves_is_finished() -> None:
    host = EngineHost(faults={"rm old": ConnectionLost("gone")})
    with pytest.raises(ConnectionLost):
        host.up()
    assert set(host.shown) == {NAME, ASIDE}
    made = host.words.count("create")
    host.new_state = "ready"
    host.up()
    assert host.shown == {NAME: (NEW, "running", "always")}
    assert host.words.count("create") == made
    assert not host.recorded


def test_a_lost_run_is_settled_where_recreation_is_not_allowed_any_more() -> None:
    host = EngineHost(faults={"start new": ConnectionLost("gone")}, late=True)
    with pytest.raises(ConnectionLost):
        host.up()
    host.settings = settings(recreate="report")
    host.up()
    went_back(host)
    assert any("the old one is back" in text for text in host.warnings)


def test_an_engine_that_hangs_is_told_apart_and_what_is_there_is_looked_at() -> None:
    host = EngineHost(faults={"rename old": CommandTimeout("did not end")})
    with pytest.raises(TaskFailed) as raised:
        host.up()
    assert "docker rename gave no answer within 180 s" in raised.value.message
    assert "now there is klops (c0ffee000000" in raised.value.message
    went_back(host)


def test_a_hanging_create_is_a_fault_of_the_engine() -> None:
    host = EngineHost(faults={"create": CommandTimeout("did not end")}, late=True)
    host.boxes.clear()
    with pytest.raises(DockerUnavailable) as raised:
        host.up()
    assert raised.value.code == "docker-hangs"
    assert host.shown == {}, "what the engine has made all the same is removed"


@pytest.mark.parametrize("command", ["run", "create", "start new"])
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("fault", [REFUSED, Interrupted("interrupted"), CommandTimeout("no end")], ids=repr)
def test_nothing_of_a_first_container_stays_half_made(command: str, late: bool, fault: Reply) -> None:
    host = EngineHost(faults={command: fault}, late=late)
    host.boxes.clear()
    with pytest.raises(KlopsError):
        host.up()
    assert host.shown == {}
    host.up()
    assert host.shown == {NAME: (NEW, "running", "always")}


def test_the_record_names_all_that_the_way_back_needs() -> None:
    host = EngineHost(faults={"create": ConnectionLost("gone")})
    with pytest.raises(ConnectionLost):
        host.up()
    known = json.loads(host.remote.files[RECORD][0])
    del known["at"]
    assert known == {
        "schema": 1,
        "id": OLD,
        "name": NAME,
        "aside": ASIDE,
        "restart": "always",
        "adopted": False,
        "ran": True,
        "units": [UNIT],
        "run": "run1",
    }


def test_a_record_of_containers_that_are_both_gone_is_in_nobodys_way() -> None:
    host = EngineHost(faults={"create": ConnectionLost("gone")})
    with pytest.raises(ConnectionLost):
        host.up()
    host.boxes.clear()
    host.up()
    assert host.shown == {NAME: (NEW, "running", "always")}
    assert not host.recorded


@pytest.mark.parametrize("adopted", [False, True])
def test_a_container_that_was_denied_its_cards_makes_room_where_this_run_says_so(adopted: bool) -> None:
    host = EngineHost(settings(env={}), adopted=adopted, denied=("/dev/xpu3",))
    host.up("allow")
    assert host.shown[NAME] == (NEW, "running", "always")
    assert (ASIDE in host.shown) == adopted


def test_an_adopted_one_that_was_denied_its_cards_is_not_replaced_by_the_settings_alone() -> None:
    host = EngineHost(settings(env={}), adopted=True, denied=("/dev/xpu3",))
    failure = host.plan().failure
    assert failure is not None
    assert failure.code == "device-access-lost"


def pinned(**stack: Any) -> EngineHost:
    """A host whose settings pin a package that a new container has not."""
    wanted = Stack.model_validate({"packages": {"vllm": "0.15.1"}, **stack})
    installed = {"vllm": {"version": "0.11.0", "record": "r", "editable": False}}
    packages = {"installed": installed, "uv": "/usr/bin/uv", "site": "/site", "patches": []}
    host = EngineHost(settings().model_copy(update={"stack": wanted}))
    host.replies["packages"] = reply(json.dumps(packages))
    return host


def test_what_units_run_on_is_put_in_while_none_of_them_runs_and_then_they_prove_it() -> None:
    host = pinned()
    host.up()
    assert host.shown == {NAME: (NEW, "running", "always")}
    order = ["create", "start new", "agent stop", "agent stack", "agent wait", "rm old"]
    assert [word for word in host.words if word in order] == order


def test_packages_that_cannot_be_had_in_the_new_one_bring_the_old_one_back() -> None:
    host = pinned()
    error = {"error": {"code": "stack-failed", "message": "no such version"}}
    host.faults["agent stack"] = reply(json.dumps(error) + "\n", rc=1)
    with pytest.raises(TaskFailed, match="no such version") as raised:
        host.up()
    assert raised.value.code == "recreate-failed"
    went_back(host)


@pytest.mark.parametrize("silent", [False, True])
def test_where_nothing_is_to_serve_what_the_old_one_ran_on_is_put_back_all_the_same(silent: bool) -> None:
    host = pinned()
    host.desired, host.silent = "stopped", silent
    host.replies[f"state:{UNIT}"] = reply('{"desired": "stopped"}')
    error = {"error": {"code": "stack-failed", "message": "no such version"}}
    host.faults["agent stack"] = reply(json.dumps(error) + "\n", rc=1)
    with pytest.raises(TaskFailed, match="no such version"):
        host.up()
    assert host.shown == {NAME: (OLD, "running", "always")}
    assert not host.recorded
    assert ("agent bring-back" in host.words) == (not silent)
    assert any("is back, but not what it ran on" in text for text in host.warnings) == silent


def test_a_patch_that_is_not_here_is_told_before_anything_is_touched() -> None:
    host = pinned(patches=[Patch(file="vllm/a.py", diff="/no/such.diff")])
    with pytest.raises(TaskFailed, match=r"/no/such\.diff"):
        host.up()
    assert host.shown == {NAME: (OLD, "running", "always")}
    assert [word for word in host.words if word not in ("run", "agent keep")] == []


def test_a_new_one_keeps_late_what_the_old_one_could_not() -> None:
    host = EngineHost(silent=True)
    host.up()
    kept = [call.argv for call in host.remote.log if "keep" in call.argv]
    assert ["--late" in argv for argv in kept] == [True]
