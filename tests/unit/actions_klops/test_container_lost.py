"""What a recreation must not lose: the proof, the lock, somebody's process, secrets kept for the way back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from klops.actions.base import Context, Plan, Seen
from klops.actions.own import supervision
from klops.actions.own.container import aside, making
from klops.actions.own.container.action import ContainerAction, ContainerParams
from klops.actions.own.image import python
from klops.errors import ConnectionLost, Interrupted, KlopsError, LockHeld, TaskFailed
from klops.remote.base import Reply
from klops.remote.fake import reply

from .enginehost import ASIDE, NAME, NEW, OLD, ROOT, UNIT, EngineHost, settings

REFUSED = reply(rc=1, stderr="Error response from daemon: made to fail")
GONE = ConnectionLost("gone")


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "_PAUSE", 0.0)
    monkeypatch.setattr(supervision, "AGENT_TIMEOUT", 0.0)
    monkeypatch.setattr(making, "_LATE", 0.0)
    monkeypatch.setattr(python, "_SETTLED", 0.0)


def settle(host: EngineHost) -> Plan:
    """``klops.container: {state: settled}``, planned and carried out; the plan."""
    action, params = ContainerAction(), ContainerParams(state="settled")
    seen = Seen(host.remote.read(action.probe(params, host.ctx.view).reads))
    plan = action.plan(params, host.ctx.view, seen)
    if plan.failure is not None:
        raise plan.failure
    action.apply(plan, host.ctx)
    return plan


def lost(host: EngineHost) -> EngineHost:
    """After a run that was lost when it had started the new container."""
    host.faults["start new"], host.late = GONE, True
    with pytest.raises(ConnectionLost):
        host.up("allow")
    host.late = False
    assert host.shown[NAME][0] == NEW
    return host


# -- proof ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("silent", [False, True], ids=["exited", "no-agent"])
def test_a_lost_run_whose_units_no_agent_could_keep_proves_nothing_by_itself(silent: bool) -> None:
    host = EngineHost(silent=silent)
    host.boxes[OLD].state = "running" if silent else "exited"
    lost(host)
    assert json.loads(host.remote.files[f"{ROOT}/recreation.json"][0])["units"] == [UNIT]
    settle(host)
    assert host.shown == {NAME: (OLD, "running" if silent else "exited", "always")}
    assert not host.recorded


def test_units_that_left_the_settings_prove_nothing_either() -> None:
    host = lost(EngineHost())
    host.new_state = "ready"
    host.settings = host.settings.model_copy(update={"services": {}})
    settle(host)
    assert host.shown == {NAME: (OLD, "running", "always")}


def test_one_that_proves_itself_stays() -> None:
    host = lost(EngineHost())
    host.new_state = "ready"
    settle(host)
    assert host.shown == {NAME: (NEW, "running", "always")}
    assert not host.recorded


@pytest.mark.parametrize(
    ("replies", "blocked"),
    [
        ({"state:main": reply(rc=1, stderr="Permission denied")}, True),
        ({"state:main": reply("no json")}, True),
        # to a user who may not look into the folder a file in it is not there
        ({"state:main": reply(rc=44), "run": reply(rc=2, stderr="Permission denied")}, True),
        ({"state:main": reply(rc=44)}, False),
    ],
)
def test_what_has_to_serve_is_known_or_nothing_is_touched(replies: dict[str, Reply], blocked: bool) -> None:
    host = EngineHost(replies=replies)
    host.boxes[OLD].state = "exited"
    if not blocked:
        host.up()
        assert host.shown == {NAME: (NEW, "running", "always")}
        return
    with pytest.raises(TaskFailed) as raised:
        host.plan()
    assert raised.value.code == "unit-unseen"
    assert "run/main.state.json can't be read" in raised.value.message


@pytest.mark.parametrize("state", ["failed", "backoff", "unhealthy"])
def test_a_unit_that_was_not_well_before_is_not_waited_for(state: str) -> None:
    host = EngineHost(second=state)
    host.up()
    assert host.shown == {NAME: (NEW, "running", "always")}
    assert host.words.count("agent wait") == 1
    assert any(text.startswith("second: not ready before either") for text in host.warnings)


def test_where_none_was_well_those_that_are_wanted_have_to_be() -> None:
    host = EngineHost(faults={"unit": REFUSED})
    known = json.loads(host.status().text)
    known["units"][UNIT]["state"] = "failed"
    host.replies["agent.status"] = reply(json.dumps(known))
    step = host.plan().steps[-1]
    host.replies.clear()
    with pytest.raises(TaskFailed) as raised:
        step.carry_out(host.ctx)
    assert "last words" in raised.value.message
    assert host.shown == {NAME: (OLD, "running", "always")}


# -- lock ----------------------------------------------------------------------------------------------------


def changing(host: EngineHost) -> list[str]:
    """What it has done, without what only looks or waits."""
    return [word for word in host.words if word not in ("run", "agent wait")]


@pytest.mark.parametrize("last", ["agent keep", "put", "stop old", "rename old", "create", "start new"])
def test_a_lost_lock_ends_a_recreation_before_its_next_change(last: str) -> None:
    host = EngineHost()
    ctx = host.ctx

    def still_ours() -> None:
        if last in host.words:
            raise LockHeld("somebody else took the lock over, or broke it")

    ctx.still_ours = still_ours
    with pytest.raises(LockHeld):
        ContainerAction().apply(host.plan(), ctx)
    # writing the record down is part of what the old one is put aside with
    assert changing(host)[-1] in (last, "put")
    assert host.recorded
    settle(host)
    assert host.shown == {NAME: (OLD, "running", "always")}


def test_the_lock_itself_is_looked_at_before_the_old_one_is_removed() -> None:
    host = EngineHost(robbed=True)
    with pytest.raises(LockHeld) as raised:
        host.up()
    assert raised.value.hint == "klops lock status h shows who has it; the next klops up completes this"
    assert "rm old" not in host.words
    assert set(host.shown) == {NAME, ASIDE}
    assert host.recorded


def test_the_way_back_stops_too_when_the_lock_is_lost() -> None:
    host = EngineHost(faults={"create": Interrupted("interrupted")})
    ctx = host.ctx

    def still_ours() -> None:
        if "create" in host.words:
            raise LockHeld("lost")

    ctx.still_ours = still_ours
    with pytest.raises(LockHeld):
        ContainerAction().apply(host.plan(), ctx)
    assert host.shown == {ASIDE: (OLD, "exited", "no")}
    assert host.recorded


# -- settled -------------------------------------------------------------------------------------------------


def test_settled_does_nothing_where_no_run_was_lost_whatever_else_is_wrong() -> None:
    host = EngineHost(replies={"docker.version": reply(rc=1, stderr="Cannot connect to the Docker daemon")})
    assert settle(host).steps == ()


def test_settled_puts_the_old_one_back_and_makes_nothing_anew() -> None:
    host = lost(EngineHost())
    created = host.words.count("create")
    assert settle(host).changes
    assert host.shown == {NAME: (OLD, "running", "always")}
    assert host.words.count("create") == created
    assert settle(host).steps == ()


def test_an_adopted_one_of_a_lost_run_is_put_back_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_after: list[str] = []
    host = lost(EngineHost(adopted=True))
    monkeypatch.setattr(aside, "supervise", lambda ctx, settings: looked_after.append(host.boxes[OLD].name))
    assert host.shown[ASIDE] == (OLD, "exited", "no")
    settle(host)
    assert host.shown == {NAME: (OLD, "running", "always")}
    assert f"{ROOT}/adopted.json" in host.remote.files
    assert looked_after == [NAME]


# -- what was kept -------------------------------------------------------------------------------------------


def absent(host: EngineHost) -> None:
    action, params = ContainerAction(), ContainerParams(state="absent")
    seen = Seen(host.remote.read(action.probe(params, host.ctx.view).reads))
    action.apply(action.plan(params, host.ctx.view, seen), host.ctx)


def test_removing_all_of_a_lost_run_leaves_no_secrets() -> None:
    host = lost(EngineHost())
    host.remote.files[f"{ROOT}/kept.json"] = (b"made-up-key", 0o600)
    absent(host)
    assert host.shown == {}
    assert host.remote.files == {}


def test_what_no_agent_kept_before_is_kept_before_the_units_get_other_settings() -> None:
    host = EngineHost(silent=True, faults={"unit": REFUSED})

    def stop(word: str, then: Callable[[], None]) -> None:
        known = host.carry_out

        def carry_out(call: Any) -> Reply:
            if host.word(call.argv) == word:
                then()
            return known(call)

        host.carry_out = carry_out  # type: ignore[method-assign]

    # its agent answers again once it was started anew
    stop("start old", lambda: setattr(host, "silent", False))
    with pytest.raises(TaskFailed) as raised:
        host.up()
    assert f"is back, and serves: {UNIT}" in raised.value.message
    assert host.words.index("start new") < host.words.index("agent keep") < host.words.index("agent wait")
    assert host.desired == "running"


def test_one_that_did_not_run_comes_back_and_what_became_of_its_services_is_said() -> None:
    host = EngineHost(faults={"unit": REFUSED})
    host.boxes[OLD].state = "exited"
    with pytest.raises(TaskFailed) as raised:
        host.up()
    assert "its services (main) may have the settings of this run now" in raised.value.message
    assert "klops up h starts them" in raised.value.message


# -- what klops didn't make ----------------------------------------------------------------------------------


def nothing_touched(host: EngineHost) -> None:
    assert host.shown == {NAME: (OLD, "running", "always")}
    assert not {"put", "agent keep", "stop old", "rename old"} & set(host.words)
    assert not host.recorded


@pytest.mark.parametrize(
    ("holders", "code", "told"),
    [
        (
            {"holders": [{"name": "train", "cpid": 77, "cards": ["/dev/xpu3"], "unit": None}]},
            "cards-held",
            "train",
        ),
        ({"holders": [], "unknown": [{"name": "sshd", "cpid": 5}]}, "cards-unseen", "sshd (pid 5"),
        (None, "cards-unseen", "could not be seen"),
    ],
)
def test_somebody_s_process_that_holds_a_card_keeps_an_adopted_one(
    holders: dict[str, Any] | None, code: str, told: str
) -> None:
    answer = reply(rc=1, stderr="no agent") if holders is None else reply(json.dumps(holders))
    host = EngineHost(adopted=True, replies={"agent.holders": answer})
    with pytest.raises(TaskFailed) as raised:
        host.up("allow")
    assert raised.value.code == code
    assert told in raised.value.message
    nothing_touched(host)


def test_the_cards_of_a_unit_are_klops_own_to_take() -> None:
    held = {"holders": [{"name": "vllm", "cpid": 9, "cards": ["/dev/xpu3"], "unit": UNIT}]}
    host = EngineHost(adopted=True, replies={"agent.holders": reply(json.dumps(held))})
    host.up("allow")
    assert host.shown[NAME][0] == NEW


def test_one_that_was_never_adopted_is_never_stopped() -> None:
    host = EngineHost(settings())
    host.boxes[OLD].labels = {}
    with pytest.raises(KlopsError) as raised:
        host.up("allow")
    assert raised.value.code == "container-foreign"
    assert "env.ADDED" in raised.value.message
    assert "without --recreate adopts it as it is" in raised.value.hint
    nothing_touched(host)


def test_an_action_looks_for_its_lock_before_each_step() -> None:
    host = EngineHost()
    host.boxes.clear()
    ctx: Context = host.ctx

    def still_ours() -> None:
        raise LockHeld("lost")

    ctx.still_ours = still_ours
    with pytest.raises(LockHeld):
        ContainerAction().apply(host.plan(), ctx)
    assert host.shown == {}
