"""Units kept before a recreation, and brought back as they were."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.sim.agent.site import KEY, Site
from tests.sim.agent.test_supervision import get
from tests.waiting import until


def kept(site: Site) -> Path:
    """Where they are kept."""
    return site.root / "kept.json"


def test_what_is_wanted_is_kept_and_brought_back_with_its_key(held: Site) -> None:
    spec = held.spec()
    held.start(spec)
    held.start(held.spec("idle"))
    held.reaches("ready")
    held.verb("stop", "idle")
    assert held.verb("keep") == {"units": ["llm"]}
    assert kept(held).stat().st_mode & 0o777 == 0o600
    assert list(held.root.glob("kept*")) == [kept(held)]

    # it runs as it was kept: left alone, as often as that is asked
    before = held.unit()
    for _ in range(2):
        again = held.verb("bring-back")["units"]
        assert (list(again), again["llm"]["cpid"]) == (["llm"], before["cpid"])

    # others run in their place, with another key: ended, and the kept ones started
    other = held.spec(port=spec["port"], model="other")
    held.verb("start", "llm", given={"spec": other, "secrets": {"VLLM_API_KEY": "another"}})
    assert held.ready_again(1)["model"] == "other"
    assert held.verb("bring-back")["units"]["llm"]["state"] == "starting"
    back = held.ready_again(2)
    assert (back["model"], back["digest"], back["restarts"]) == ("tiny", spec["digest"], 0)
    assert (get(spec["port"], KEY), get(spec["port"], "another")) == (200, 401)
    assert held.unit("idle")["state"] == "stopped"

    assert held.verb("forget-kept") == {}
    assert held.verb("forget-kept") == {}
    assert not kept(held).exists()
    assert held.verb("bring-back")["error"]["code"] == "nothing-kept"
    assert held.unit()["cpid"] == back["cpid"]


def test_it_is_brought_back_into_a_new_life_from_whatever_state(site: Site) -> None:
    hold = site.hold()
    spec = site.spec()
    site.start(spec)
    site.reaches("ready")
    assert site.verb("keep") == {"units": ["llm"]}
    site.verb("stop", "llm")
    hold.send_signal(signal.SIGTERM)
    hold.wait(20)
    # a crash of the recreation may leave anything of the unit
    (site.root / "units" / "llm.json").unlink()
    (site.root / "units" / "llm.secret.json").unlink()
    site.hold()
    site.supervisor()
    site.verb("bring-back")
    assert site.reaches("ready")["digest"] == spec["digest"]
    assert get(spec["port"]) == 200


def test_units_come_back_on_the_release_that_they_had(held: Site) -> None:
    releases = held.root / "releases"
    for name in ("first", "second"):
        (releases / name).mkdir(parents=True)
    link = releases / "current"
    link.symlink_to("first")
    spec = held.spec(source={"paths": []})
    held.start(spec)
    held.reaches("ready")
    held.verb("keep")
    link.unlink()
    link.symlink_to("second")
    # it runs on another one in their place, with the same settings
    held.verb("restart", "llm")
    assert held.ready_again(1)["release"] == "second"
    held.verb("bring-back")
    assert (link.readlink().name, held.ready_again(2)["release"]) == ("first", "first")


def test_keeping_needs_no_supervisor_and_nothing_wanted_is_kept_as_nothing(site: Site) -> None:
    hold = site.hold()
    assert site.verb("keep") == {"units": []}
    assert site.verb("bring-back") == {"units": {}}
    site.start(site.spec())
    site.reaches("ready")
    hold.send_signal(signal.SIGTERM)
    hold.wait(20)
    assert site.verb("keep") == {"units": ["llm"]}
    assert list(json.loads(kept(site).read_text())["units"]) == ["llm"]


@pytest.mark.parametrize(
    ("damage", "code"), [("{", "damaged"), (None, "no-spec"), ('{"schema": 9}', "newer-schema")]
)
def test_one_that_cannot_be_kept_leaves_what_was_kept_before(
    held: Site, damage: str | None, code: str
) -> None:
    held.start(held.spec())
    held.start(held.spec("two"))
    held.verb("keep")
    before = kept(held).read_bytes()
    path = held.root / "units" / "two.json"
    path.unlink()
    if damage is not None:
        path.write_text(damage)
    assert held.verb("keep")["error"]["code"] == code
    assert kept(held).read_bytes() == before
    for name in ("llm", "two"):
        held.reaches("ready", name)


@pytest.mark.parametrize(
    "value",
    [
        "{",
        {"schema": 1},
        {"schema": 1, "units": [1]},
        {"schema": 1, "units": {"llm": {}}},
        {"schema": 1, "units": {"../llm": {"spec": {}, "secret": None}}},
        {"schema": 1, "units": {"llm": {"spec": {"schema": 1}, "secret": None}}},
        {"schema": 1, "units": {}},
        {"schema": 2, "units": {}},
    ],
)
def test_a_file_that_can_not_be_made_sense_of_starts_nothing(site: Site, value: Any) -> None:
    kept(site).write_text(value if isinstance(value, str) else json.dumps(value))
    error = site.verb("bring-back")["error"]
    assert error["code"] in ("damaged", "bad-spec", "bad-name", "newer-schema")
    assert error["hint"]
    assert not (site.root / "units").exists()


def test_all_are_tried_and_the_first_that_is_refused_is_named(held: Site) -> None:
    for name in ("a", "b"):
        held.start(held.spec(name))
        held.reaches("ready", name)
    held.verb("keep")
    for name in ("a", "b"):
        held.verb("stop", name)
    # a newer klops' file is not replaced
    path = held.root / "units" / "a.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 9}))
    error = held.verb("bring-back")["error"]
    assert (error["code"], error["message"][:3]) == ("newer-schema", "a: ")
    until(lambda: held.unit("b")["state"] == "ready", what="the other is back")
