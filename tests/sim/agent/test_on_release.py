"""Units that run on a release."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from tests.sim.agent.releases import lay, make_current
from tests.sim.agent.site import KEY, Site
from tests.waiting import until


def environment(cpid: int) -> dict[str, str]:
    """What a process was started with."""
    pairs = Path(f"/proc/{cpid}/environ").read_text().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if pair)


def test_folders_of_the_release_come_before_those_of_the_env_script(held: Site) -> None:
    tree = lay(held, "aaa-1")
    make_current(held, "aaa-1")
    script = held.folder / "env.sh"
    script.write_text("PYTHONPATH=/of/the/script\nKLOPS_RELEASE=lie\n")
    held.start(held.spec(source={"paths": ["", "src"]}, env_script=str(script)))
    unit = held.reaches("ready")
    assert unit["release"] == "aaa-1"
    env = environment(unit["cpid"])
    assert env["PYTHONPATH"] == f"{tree}:{tree}/src:/of/the/script"
    assert env["KLOPS_RELEASE"] == "aaa-1"
    assert held.verb("status")["release"] == {"current": "aaa-1", "commit": "c0ffee" * 6 + "cafe"}


def test_a_start_moves_a_unit_to_the_release_that_is_current_by_then(held: Site) -> None:
    lay(held, "aaa-1")
    after = lay(held, "bbb-2")
    make_current(held, "aaa-1")
    spec = held.spec(source={"paths": ["src"]})
    held.start(spec)
    first = held.reaches("ready")
    make_current(held, "bbb-2")
    # what runs has the files that it began with
    assert held.unit()["release"] == "aaa-1"
    assert environment(first["cpid"])["PYTHONPATH"].endswith("/aaa-1/src")
    held.start(spec)
    again = held.ready_again(first["generation"])
    assert again["release"] == "bbb-2"
    assert environment(again["cpid"])["PYTHONPATH"] == f"{after}/src"
    # nothing moves any more
    held.start(spec)
    assert held.unit()["generation"] == again["generation"]


def test_without_a_release_the_unit_says_what_is_missing(held: Site) -> None:
    lay(held, "aaa-1")
    spec = held.spec(source={"paths": []})
    held.start(spec)
    unit = held.reaches("failed")
    assert f"there is no current release in {held.root}/releases" in unit["error"]
    assert held.verb("status")["release"] == {"current": None, "commit": None}
    make_current(held, "aaa-1")
    held.start(spec)
    assert held.reaches("ready")["release"] == "aaa-1"


def test_a_unit_that_runs_on_none_is_left_alone_by_releases(held: Site) -> None:
    lay(held, "aaa-1")
    spec = held.spec()
    held.start(spec)
    before = held.reaches("ready")
    assert before["release"] is None
    assert "KLOPS_RELEASE" not in environment(before["cpid"])
    make_current(held, "aaa-1")
    held.start(spec)
    assert held.unit()["generation"] == before["generation"]


def test_another_supervisor_knows_which_release_runs(held: Site) -> None:
    lay(held, "aaa-1")
    make_current(held, "aaa-1")
    held.start(held.spec(source={"paths": ["src"]}))
    before, supervisor = held.reaches("ready"), held.supervisor()
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: held.supervisor() != supervisor, what="another supervisor answers")
    after = held.reaches("ready")
    assert (after["cpid"], after["release"]) == (before["cpid"], "aaa-1")


def test_folders_that_lead_out_of_the_release_are_refused(held: Site) -> None:
    for path in ("/etc", "../other", "src:/etc"):
        said = held.start(held.spec(source={"paths": [path]}))
        assert said["error"]["code"] == "bad-spec", path


def test_packages_that_klops_changed_since_move_a_unit_at_its_next_start(held: Site) -> None:
    spec = held.spec()
    held.start(spec)
    before = held.reaches("ready")
    assert (before["packages"], held.verb("status")["packages"]) == ("", "")
    notes = {"schema": 1, "distributions": {"x": {"version": "2", "record": "b"}}, "original": {"x": None}}
    (held.root / "stack").mkdir()
    (held.root / "stack" / "stack.json").write_text(json.dumps(notes))
    changed = held.verb("status")["packages"]
    assert changed
    assert held.unit()["packages"] == ""
    held.start(spec)
    after = held.ready_again(before["generation"])
    assert after["packages"] == changed
    # what is as it came is not changed
    (held.root / "stack" / "stack.json").write_text(json.dumps({**notes, "distributions": {"x": None}}))
    assert held.verb("status")["packages"] == ""


def test_a_generation_is_noted_and_a_unit_started_as_in_it(held: Site) -> None:
    lay(held, "aaa-1")
    make_current(held, "aaa-1")
    first = held.spec(source={"paths": ["src"]}, env={"GENERATION": "one"})
    held.start(first)
    held.reaches("ready")
    noted = held.verb("generation", given={"health": "good", "author": "ops", "run": "r"})
    assert (noted["number"], noted["noted"], noted["obstacle"]) == (1, True, "")
    held.start(held.spec(source={"paths": ["src"]}, env={"GENERATION": "two"}, port=first["port"]))
    second = until(
        lambda: held.unit() if held.unit()["digest"] != first["digest"] else None, what="the second"
    )
    listed = held.verb("generations")
    assert (listed["now"]["number"], listed["now"]["good"]) == (None, False)
    held.verb("start", "llm", given={"generation": 1})
    unit = held.ready_again(second["generation"])
    assert unit["digest"] == first["digest"]
    env = environment(unit["cpid"])
    assert (env["GENERATION"], env["KLOPS_RELEASE"]) == ("one", "aaa-1")
    # its secrets are in no generation, and stay
    assert env["VLLM_API_KEY"] == KEY
    assert KEY not in (held.root / "generations" / "1.json").read_text()
    assert held.verb("generations")["now"]["number"] == 1
