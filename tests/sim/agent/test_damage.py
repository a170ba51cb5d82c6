"""Damaged files, and files of a newer klops, under a server that runs: it is watched and can be stopped."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.sim.agent.site import KEY, Site, alive
from tests.waiting import until

STATE, LINEAGE, SPEC, SECRET = (
    "run/llm.state.json",
    "run/llm.lineage.jsonl",
    "units/llm.json",
    "units/llm.secret.json",
)


def damage(site: Site, files: dict[str, str | None]) -> dict[str, Any]:
    """A ready unit; its files get other texts (None: are removed) while the supervisor is killed."""
    site.start(site.spec(port=site.port))
    before = site.reaches("ready")
    old = site.supervisor()
    hold = site.holds[-1]
    hold.send_signal(signal.SIGSTOP)  # so that no supervisor comes up before the damage is done
    os.kill(old, signal.SIGKILL)
    for name, text in files.items():
        path = site.root / name
        if text is None:
            path.unlink()
        else:
            path.write_text(text)
    without = site.unit()  # from disk
    assert [m["cpid"] for m in without["lineage"]] or LINEAGE in files
    assert without["state"] != "ready"
    hold.send_signal(signal.SIGCONT)
    until(lambda: site.supervisor() != old, what="another supervisor")
    return before


@pytest.mark.parametrize(
    "files",
    [
        {STATE: ""},
        pytest.param({STATE: "[]"}, marks=pytest.mark.long),
        pytest.param({STATE: '{"schema": 1}'}, marks=pytest.mark.long),
        {STATE: '{"schema": 1, "name": "llm", "root": 7}'},
        pytest.param({STATE: None}, marks=pytest.mark.long),
        {LINEAGE: "{}\n"},
        pytest.param({LINEAGE: None}, marks=pytest.mark.long),
    ],
)
def test_a_server_is_kept_and_watched_without_its_state_or_lineage(
    held: Site, files: dict[str, str | None]
) -> None:
    before = damage(held, files)
    same = held.reaches("ready")
    assert (same["cpid"], same["start"], same["generation"]) == (before["cpid"], before["start"], 1)
    assert (same["digest"], same["desired"], same["error"]) == (before["digest"], "running", "")
    until(lambda: len(held.unit()["lineage"]) == 5, what="all of it is on record again")
    assert held.start(held.spec(port=held.port))["cpid"] == before["cpid"]
    assert json.loads((held.root / STATE).read_text())["root"] == [same["cpid"], same["start"]]
    assert (held.root / f"{STATE}.damaged").exists() == bool(STATE in files and files[STATE] is not None)
    assert held.verb("stop", "llm")["state"] == "stopped"
    assert not any(alive(member["cpid"]) for member in before["lineage"])


@pytest.mark.parametrize(
    "files",
    [
        {SPEC: "{"},
        pytest.param({SPEC: '{"schema": 1}'}, marks=pytest.mark.long),
        {SECRET: "[]"},
        pytest.param({SECRET: '{"schema": 1, "salt": 1}'}, marks=pytest.mark.long),
    ],
)
def test_a_damaged_specification_is_named_and_the_next_start_mends_it(
    held: Site, files: dict[str, str | None]
) -> None:
    before = damage(held, files)
    unit = held.reaches("unhealthy")
    (name,) = files
    assert str(held.root / name) in unit["error"]
    assert (unit["cpid"], unit["digest"]) == (before["cpid"], None)
    assert KEY not in unit["error"]
    assert held.verb("restart", "llm")["error"]["code"] == "damaged"
    assert held.unit()["cpid"] == before["cpid"]
    held.start(held.spec(port=held.port))
    again = held.reaches("ready")
    assert (again["cpid"], again["digest"], again["error"]) == (before["cpid"], before["digest"], "")
    assert (held.root / f"{name}.damaged").exists()
    held.verb("remove", "llm")
    assert list((held.root / "units").iterdir()) == []


def test_a_server_with_a_damaged_specification_can_be_stopped(held: Site) -> None:
    before = damage(held, {SPEC: "{", SECRET: ""})
    stopped = held.verb("stop", "llm")
    assert (stopped["state"], stopped["desired"]) == ("stopped", "stopped")
    assert not any(alive(member["cpid"]) for member in before["lineage"])
    assert held.verb("start", "llm")["error"]["code"] == "damaged"


@pytest.mark.parametrize("name", [STATE, SPEC])
def test_a_newer_file_is_left_as_it_is_and_the_server_can_be_stopped(held: Site, name: str) -> None:
    newer = '{"schema": 99}'
    before = damage(held, {name: newer})
    unit = held.reaches("unhealthy")
    assert "schema 99" in unit["error"]
    assert unit["cpid"] == before["cpid"]
    assert held.start(held.spec(port=held.port))["error"]["code"] == "newer-schema"
    assert held.unit()["cpid"] == before["cpid"]
    assert held.verb("stop", "llm")["state"] == "stopped"
    assert not any(alive(member["cpid"]) for member in before["lineage"])
    assert (held.root / name).read_text() == newer


def test_files_of_one_unit_keep_no_other_from_being_served(site: Site) -> None:
    for folder in ("run", "units"):
        (site.root / folder).mkdir()
    (site.root / "run" / "newer.state.json").write_text('{"schema": 2}')
    (site.root / "run" / "odd.state.json").write_text('{"schema": 1, "crashes": 7}')
    (site.root / "units" / "half.json").write_text('{"schema": 1}')
    (site.root / "run" / "half.state.json").write_text(
        '{"schema": 1, "name": "half", "desired": "running", "state": "ready"}'
    )
    (site.root / "run" / "folder.lineage.jsonl").mkdir()
    site.hold()
    site.start(site.spec())
    site.reaches("ready")
    units = site.verb("status")["units"]
    for name in ("newer", "odd", "half", "folder"):
        assert units[name]["state"] == "failed", name
        assert units[name]["error"], name
    assert "schema 2" in units["newer"]["error"]
    assert (site.root / "run" / "newer.state.json").read_text() == '{"schema": 2}'
    # mended while the supervisor lives
    (site.root / "run" / "newer.state.json").unlink()
    assert site.start(site.spec("newer"))["desired"] == "running"
    site.reaches("ready", "newer")


def test_a_stopped_unit_that_lost_its_state_is_not_started_by_later_lives_of_the_container(
    site: Site,
) -> None:
    hold = site.hold()
    site.start(site.spec())
    site.reaches("ready")
    assert site.verb("stop", "llm")["state"] == "stopped"
    state = site.root / STATE
    for home, text in (("", "{"), ("another", None), ("a third", None)):
        hold.send_signal(signal.SIGTERM)
        assert hold.wait(30) == 0
        # another life of the container is one of another pid 1
        state.write_text(text or json.dumps({**json.loads(state.read_text()), "home": home}))
        hold = site.hold()
        site.supervisor()
        until(lambda: json.loads(state.read_text())["home"] not in ("another", "a third"), what="it moved in")
        unit = site.unit()
        assert (unit["state"], unit["desired"], unit["generation"]) == ("failed", "stopped", 1)
        assert str(state) in unit["error"]
    assert len(site.audit("start")) == 1
    # the lineage still tells the generation
    assert site.start(site.spec())["state"] == "starting"
    assert site.reaches("ready")["generation"] == 2


def test_what_died_with_the_supervisor_is_never_called_ready(held: Site, nodes: Path) -> None:
    for node in ("xpu0", "xpuctrl"):
        (held.devices / node).symlink_to(nodes / node)
    card = {"index": 0, "minor": 0, "node": "/dev/xpu0", "bdf": "", "uuid": "", "serial": ""}
    held.start(held.spec(cards=[card], tp=1, env={"KLOPS_SIM_DEVICE_DIR": str(held.devices)}))
    unit = held.reaches("ready")
    state = held.root / STATE
    vital = until(
        lambda: json.loads(state.read_text())["vital"], timeout=20, what="the vital parts are on record"
    )
    engine = next(m for m in unit["lineage"] if m["name"].startswith("VLLM::Engine"))
    assert engine["cpid"] in [pid for pid, _, _ in vital]
    os.kill(held.supervisor(), signal.SIGKILL)
    os.kill(engine["cpid"], signal.SIGKILL)
    states = set()

    def again() -> bool:
        now = held.unit()
        states.add((now["state"], now["generation"]))
        return bool(now["generation"] > 1)

    until(again, what="another generation")
    assert ("ready", 1) not in states
