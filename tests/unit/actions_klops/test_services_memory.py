"""The cards' memory as steps look at it: before a start, and when the agent has stopped a unit."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from klops.actions.own import hostreads, hostview, keptout
from klops.actions.own.services import memory
from klops.actions.own.services.others import CheckOthers
from klops.actions.own.services.steps import StartUnit, Verb
from klops.errors import TaskFailed
from klops.inventory.settings import Settings
from klops.remote.base import Reply
from klops.remote.fake import Call, reply

from .support import SETTINGS, Stage

WHERE = Settings.model_validate(SETTINGS)
BDF = "0000:9a:00"
SPEC = {
    "name": "main",
    "argv": ["vllm", "serve", "/m"],
    "cards": [{"index": 4, "bdf": BDF}],
    "tp": 1,
    "stop": {"timeout": 30.0},
    "smi": "xpu-smi",
}


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "PAUSE", 0.0)


def smi(*used: int) -> Callable[[Call], Reply]:
    """Answers of xpu-smi, the last one for ever."""
    left = list(used)

    def say(call: Call) -> Reply:
        now = left.pop(0) if len(left) > 1 else left[0]
        return reply(f"host\n00000000:9A:00.0 4 4 SN04 36 0 0 0 86 1 1 1 1 1 1 2 96 {now} 98304 0 1.0 P800\n")

    return say


def stage(*used: int) -> Stage:
    """A host whose card 4 has that in use, at each look."""
    made = Stage(settings=WHERE)
    made.remote.on(_read(hostreads.SMI_QUERY), reply(rc=1))
    made.remote.on(_read(hostreads.SMI_MACHINE), smi(*used) if used else reply(rc=1))
    return made


def _read(key: str) -> Callable[[Call], bool]:
    return lambda call: call.kind == "read" and call.read is not None and call.read.key == key


def started(made: Stage, **changes: Any) -> Any:
    """What a start gives the agent."""
    made.remote.on(" start main", '{"state": "starting"}')
    StartUnit(WHERE, {**SPEC, **changes}, {}, "").carry_out(made.ctx)
    return json.loads(made.remote.log[-1].stdin)


def test_a_start_tells_what_is_in_use() -> None:
    assert started(stage(300))["idle"] == {BDF: 300}


def test_what_xpu_smi_does_not_tell_is_left_out() -> None:
    assert "idle" not in started(stage())
    assert "idle" not in started(stage(300), cards=[{"index": 4, "bdf": ""}])


def test_where_the_agent_can_not_ask_a_start_without_room_is_refused_here() -> None:
    made = stage(50000)
    with pytest.raises(TaskFailed, match=r"card 4 \(0000:9a:00\) has 48304 of 98304 MiB free") as raised:
        started(made, smi="")
    assert raised.value.code == "memory-short"
    assert "klops reap h " in raised.value.hint
    assert started(made)["idle"] == {BDF: 50000}  # the agent looks for itself
    argv = ["vllm", "serve", "/m", "--gpu-memory-utilization=0.4"]
    assert started(made, smi="", argv=argv)["idle"] == {BDF: 50000}


def stop(made: Stage, **said: Any) -> None:
    """A stop, and what the agent says of it."""
    made.remote.on(" stop main", json.dumps({"state": "stopped", **said}))
    Verb(WHERE, "stop", "main", "", 30).carry_out(made.ctx)


def test_a_stop_tells_that_it_took_kill_and_who_is_not_reaped() -> None:
    made = stage(0)
    killed = {"cpid": 21, "start": 5, "name": "VLLM::Worker_TP", "why": "outlived TERM"}
    state = {"state": "returned", "held": [], "why": ""}
    stop(made, escalated=[killed], memory=state, defunct={"count": 2, "init": "sleep"})
    first, second = made.warnings
    assert first.endswith("ended by KILL: VLLM::Worker_TP (pid 21 in the container)")
    assert "2 defunct process(es)" in second
    assert "(sleep)" in second
    assert "--init" in second


def test_an_agent_of_an_older_klops_says_nothing_of_it() -> None:
    made = stage()
    stop(made)
    assert made.warnings == []


UNKNOWN = {"state": "unknown", "held": [], "why": "xpu-smi can't be asked inside the container"}


def test_where_the_agent_can_not_tell_the_host_is_asked_until_it_is_given_back() -> None:
    made = stage(90000, 90000, 400)
    stop(made, memory=UNKNOWN, idle={BDF: 0})
    assert made.warnings == []
    assert [one.message for one in made.progress if "given back" in one.message]


@pytest.mark.parametrize(("used", "idle"), [((), {BDF: 0}), ((0,), {}), ((0,), {"0000:01:00": 0})])
def test_what_nobody_can_tell_is_said(used: tuple[int, ...], idle: dict[str, int]) -> None:
    made = stage(*used)
    stop(made, memory=UNKNOWN, idle=idle)
    (text,) = made.warnings
    assert "can't be told: xpu-smi can't be asked inside" in text


HELD = {
    "state": "held",
    "held": [{"index": 4, "bdf": BDF, "used": 90000, "before": 0}],
    "why": "",
}


def around(made: Stage, *processes: dict[str, Any]) -> None:
    """What is seen of the whole host: these, which nobody of klops' started."""
    made.remote.on(lambda call: call.kind == "read" and not _smi(call), reply(rc=1, stderr="not there"))
    said = {"processes": [], "foreign": processes}
    made.remote.on(_read("reap"), f"helper - -\n{json.dumps(said)}\n")


STRANGER = {"pid": 77, "name": "python3", "cards": ["xpu4"], "user": "ann", "container": ""}


def test_memory_that_nobody_holds_is_a_failure_with_card_and_mib() -> None:
    made = stage(90000)
    around(made)
    with pytest.raises(TaskFailed, match=r"card 4 \(0000:9a:00\) has 90000 MiB in use, 0 before") as raised:
        stop(made, memory=HELD)
    assert raised.value.code == "memory-held"


def test_memory_of_a_named_stranger_is_a_warning() -> None:
    made = stage(90000)
    around(made, STRANGER)
    stop(made, memory=HELD)
    (text,) = made.warnings
    assert "held by pid 77 python3, card 4, user ann, no container" in text


def test_memory_that_somebody_else_holds_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "HELD_BY_OTHERS", 0.0)
    made = stage(90000)
    around(made, STRANGER)
    stop(made, memory=UNKNOWN, idle={BDF: 0})
    (text,) = made.warnings
    assert "held by pid 77 python3" in text
    # of nobody who lives it is
    monkeypatch.setattr(memory, "GIVING_BACK", 0.2)
    made = stage(90000)
    around(made)
    with pytest.raises(TaskFailed, match="nobody is seen to hold it"):
        stop(made, memory=UNKNOWN, idle={BDF: 0})
    assert len([call for call in made.remote.log if call.read is not None and call.read.key == "reap"]) == 2


def test_who_holds_it_can_not_be_seen() -> None:
    made = stage(90000)
    made.remote.on(lambda call: call.kind == "read" and not _smi(call), reply(rc=1, stderr="no docker"))
    with pytest.raises(TaskFailed, match="who holds it can't be seen") as raised:
        stop(made, memory=HELD)
    assert raised.value.code == "memory-held"


def test_a_start_where_nobody_knows_the_room_says_so() -> None:
    made = stage()
    started(made, smi="")
    (text,) = made.warnings
    assert text.startswith("main: whether card 4 has room for it is not known")


def others(made: Stage) -> None:
    """The look before a start on card 4."""
    CheckOthers(WHERE, frozenset({4})).carry_out(made.ctx)


def test_a_start_on_a_card_that_somebody_else_holds_is_refused() -> None:
    made = stage(0)
    around(made, STRANGER, {**STRANGER, "pid": 78, "cards": ["xpu5"]})
    with pytest.raises(TaskFailed, match="pid 77 python3, card 4, user ann, no container") as raised:
        others(made)
    assert raised.value.code == "cards-foreign"
    assert "78" not in raised.value.message
    assert "klops reap h " in raised.value.hint


YOUNG = {
    **STRANGER,
    "pid": 79,
    "user": "root",
    "unit": "old",
    "reason": "of unit old: the unit is stopped; only 3 s old: it may belong to something that begins",
    "action": "none",
    "outcome": "skipped",
}


def left_behind(made: Stage, *processes: dict[str, Any]) -> None:
    """What is seen of the whole host: these, which a unit left behind."""
    around(made)
    made.remote.on(_read("reap"), f"helper - -\n{json.dumps({'processes': processes})}\n")


def test_a_start_on_a_card_of_an_orphan_that_was_spared_is_refused() -> None:
    made = stage(0)
    left_behind(made, YOUNG, {**YOUNG, "pid": 80, "cards": ["xpu5"]})
    with pytest.raises(TaskFailed, match=r"pid 79 python3, card 4, .*left behind \(.*only 3 s old") as raised:
        others(made)
    assert raised.value.code == "cards-foreign"
    assert "80" not in raised.value.message
    assert raised.value.hint == "klops reap h --grace 0 ends what is left behind"


def test_an_orphan_that_is_gone_or_that_its_own_unit_ends_is_in_nobodys_way() -> None:
    made = stage(0)
    left_behind(made, {**YOUNG, "outcome": "gone"}, {**YOUNG, "unit": "main"})
    CheckOthers(WHERE, frozenset({4}), frozenset({"main"})).carry_out(made.ctx)
    assert made.warnings == []


HERE, THERE = "c0ffee" + "0" * 58, "decade" + "0" * 58
UNSUPERVISED = {
    **STRANGER,
    "user": "root",
    "unit": "main",
    "container": THERE,
    "reason": "of unit main, in a container that lives, but is not the one that was looked for",
}


def unsupervised(made: Stage, *processes: dict[str, Any]) -> None:
    """What is seen of the whole host, from a container that runs: these, of units."""
    around(made)
    running = {"Id": HERE, "Name": "/klops", "State": {"Status": "running"}}
    made.remote.on(_read("docker.version"), '{"Server": {"Version": "24"}}')
    made.remote.on(_read("container"), json.dumps([running]))
    said = {"processes": [], "unsupervised": processes}
    made.remote.on(_read("reap"), f"helper {HERE} made\n{json.dumps(said)}\n")


def test_a_start_on_a_card_of_a_unit_in_another_container_is_refused_whatever_its_name() -> None:
    made = stage(0)
    unsupervised(made, UNSUPERVISED, {**UNSUPERVISED, "pid": 78, "cards": ["xpu5"]})
    with pytest.raises(TaskFailed, match=r"pid 77 python3, card 4, user root, container decade0") as raised:
        CheckOthers(WHERE, frozenset({4}), frozenset({"main"})).carry_out(made.ctx)
    assert raised.value.code == "cards-foreign"
    assert "78" not in raised.value.message


def test_units_of_its_own_container_are_its_supervisor_s() -> None:
    made = stage(0)
    unsupervised(made, {**UNSUPERVISED, "container": HERE})
    CheckOthers(WHERE, frozenset({4}), frozenset({"main"})).carry_out(made.ctx)
    assert made.warnings == []
    # as they are where only the container could be looked at, which doesn't know its id
    said = {"processes": [], "unsupervised": [{**UNSUPERVISED, "container": ""}]}
    answer = reply(f"exec {HERE} made\n{json.dumps(said)}", stderr="docker: no room")
    made.remote.on(_read("reap"), answer)
    CheckOthers(WHERE, frozenset({4}), frozenset({"main"})).carry_out(made.ctx)
    assert [text.endswith("is not known: docker: no room") for text in made.warnings] == [True]


def test_a_card_that_a_stranger_leaves_alone_is_free() -> None:
    made = stage(0)
    around(made, {**STRANGER, "cards": ["xpu5"]})
    others(made)
    assert made.warnings == []


def test_where_nobody_can_look_for_others_that_is_said() -> None:
    made = stage(0)
    around(made)
    made.remote.on(_read("reap"), reply(rc=1, stderr="no image"))
    others(made)
    (text,) = made.warnings
    assert "no image" in text
    made = stage(0)
    around(made)
    blind = {"processes": [], "unknown": [{**STRANGER, "cards": []}]}
    made.remote.on(_read("reap"), reply(f"exec c0ffee made\n{json.dumps(blind)}", stderr="docker: no room"))
    others(made)
    narrow, unseen = made.warnings
    assert narrow.endswith("is not known: docker: no room")
    assert unseen == "whether these hold a card could not be seen: pid 77 python3"


def test_the_look_comes_before_a_start_and_after_what_makes_room() -> None:
    replies = {
        "docker.version": reply('{"Server": {"Version": "24"}}'),
        "adopted": reply(rc=44),
        "container": reply('[{"Id": "a", "Name": "/klops", "State": {"Status": "running"}}]'),
        "agent.status": reply(
            json.dumps({"supervisor": {}, "units": {"old": {"desired": "running", "state": "ready"}}})
        ),
    }
    kinds = [type(step).__name__ for step in stage().plan("klops.services", replies).steps]
    assert kinds == ["Verb", "Verb", "CheckOthers", "StartUnit", "WaitReady"]
    assert [type(one).__name__ for one in stage().plan("klops.services", replies, state="stopped").steps] == [
        "Verb",
        "CheckFree",
    ]


def _smi(call: Call) -> bool:
    return call.read is not None and call.read.key in (hostreads.SMI_MACHINE, hostreads.SMI_QUERY)


NOTE = {
    "card": {"index": 4, "bdf": BDF},
    "kind": "unkillable",
    "boot_id": "b0",
    "process": {"pid": 5, "start": 1, "ns": 2},
}


@pytest.mark.parametrize(
    ("file", "boot", "count"),
    [
        (reply(rc=44), "b0", 0),
        (reply(json.dumps({"schema": 1, "notes": [NOTE]})), "b0", 1),
        (reply(json.dumps({"schema": 1, "notes": [NOTE]})), "b1", 0),
        (reply("{"), "b0", None),
        (reply(rc=1, stderr="Permission denied"), "b0", None),
    ],
)
def test_without_an_agent_the_file_of_notes_tells(file: Reply, boot: str, count: int | None) -> None:
    replies = {hostreads.QUARANTINE: file, hostreads.BOOT_ID: reply(boot + "\n")}
    found = keptout.notes(hostview.look(replies, WHERE), replies)
    assert (None if found is None else len(found)) == count


def test_cards_of_which_nobody_knows_whether_they_are_kept_out_are_not_shown_as_in_service() -> None:
    replies = {
        "docker.version": reply('{"Server": {"Version": "24"}}'),
        "adopted": reply(rc=44),
        "container": reply(rc=1, stderr="Error: No such container: klops"),
        hostreads.QUARANTINE: reply(rc=1, stderr="Permission denied"),
        hostreads.BOOT_ID: reply("b0"),
        hostreads.LOCK: reply(rc=44),
        hostreads.RECREATION: reply(rc=44),
    }
    found = stage().plan("klops.status", replies).result
    assert {card["quarantine"]["kind"] for card in found["cards"]} == {"unknown"}
    assert any("kept out of service can't be read" in text for text in found["container"]["faults"])
    found = stage().plan("klops.status", {**replies, hostreads.QUARANTINE: reply(rc=44)}).result
    assert {card["quarantine"] for card in found["cards"]} == {None}
    assert found["container"]["faults"] == []
