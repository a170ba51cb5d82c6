"""What the scheduled pass cleans up, as the shells of hosts run it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from klops.commands.agent import verb
from klops.commands.hostpass import passscript
from tests.unit.commands.passes import (
    ID,
    IMAGE,
    NAME,
    NOTHING,
    PYTHON,
    Host,
    in_one_shell,
    orphans,
)

#: What docker does at once, where all else hangs.
HANGING_HELPER = 'case $1 in inspect) cat "$FAKE/inspect"; exit ;; ps) exit ;; esac\n'


def test_orphans_are_ended_by_a_helper_under_the_lock(host: Host) -> None:
    (host.fake / "found").write_text(orphans("skipped", "skipped"))
    (host.fake / "reaped").write_text(orphans("gone", "gone"))
    rc, out, err = host.go()
    assert (rc, err) == (0, "")
    assert host.did == ["inspect", "run", "exec", "inspect", "run", "exec"]
    look, reap = (words for words in host.asked if words[0] == "run")
    for words in (look, reap):
        about = words[words.index("reap") :]
        assert about[:3] == ["reap", "--grace", "90"]
        assert about[3:8] == ["--host", "--container", ID, "--kind", "made"]
        assert f"io.klops.pass={host.root}" in words
        assert words[words.index("--entrypoint") :][1:3] == [PYTHON, IMAGE]
        assert f"{ID}:ro" in words
    root = str(host.root)
    assert look[-5:] == ["--check", "--root", root, "--device-dir", "/klops-devices"]
    assert f"{root}:{root}:ro" in look
    assert reap[-6:-4] == ["--run", host.records[0]["run"]]
    assert f"{root}:{root}" in reap
    assert host.ended == ("did", "orphans ended: 2")
    assert out.endswith("klops: did: orphans ended: 2\n")
    (record,) = host.records
    assert (record["ended"], record["left"], record["view"]) == (2, 0, "host")
    assert host.left == set()


@in_one_shell
def test_without_a_helper_the_agent_in_the_container_reaps(host: Host) -> None:
    (host.fake / "no-helper").touch()
    (host.fake / "found").write_text(orphans("skipped"))
    (host.fake / "reaped").write_text(orphans("gone"))
    assert host.go()[0] == 0
    assert host.did == ["inspect", "run", "exec", "inspect", "exec"], "docker run isn't tried a second time"
    last = host.asked[-1]
    run = ("--run", host.records[0]["run"])
    assert last == verb((), ID, PYTHON, str(host.root), "reap", "--grace", "90", "--kind", "made", *run)
    assert host.records[0]["view"] == "container"
    only = "only the container was looked at: what is left of services can't be looked for: docker: no helper"
    assert host.ended == ("did", f"orphans ended: 1; {only} here")


@in_one_shell
@pytest.mark.parametrize(
    ("code", "outcome", "why"),
    [
        ("reap-busy", "skipped", "another clean-up is at work"),
        ("host-locked", "failed", "the agent does not see the lock that this pass has"),
        ("reap-failed", "failed", "the reap failed: {"),
    ],
)
def test_a_reap_that_does_not_act(host: Host, code: str, outcome: str, why: str) -> None:
    (host.fake / "found").write_text(orphans("skipped"))
    error = {"error": {"code": code, "message": "made up", "hint": ""}}
    (host.fake / "reaped").write_text(json.dumps(error) + "\n")
    (host.fake / "rc").write_text("1")
    assert host.go()[0] == (outcome == "failed")
    assert host.ended[0] == outcome
    assert why in host.ended[1]
    assert host.did.count("run") == 2
    # it was asked, and answered; only where a helper may not do it the container's own user is tried
    assert host.did.count("exec") == 1 + (code == "reap-failed")
    assert host.left <= {"pass.last"}


@in_one_shell
def test_what_can_t_be_ended_is_a_failure(host: Host) -> None:
    (host.fake / "found").write_text(orphans("skipped"))
    (host.fake / "reaped").write_text(orphans("gone", "unkillable", "alive", action="kill"))
    assert host.go()[0] == 1
    assert host.ended == ("failed", "orphans that can't be ended: 2; orphans ended: 1")
    assert host.records[-1]["left"] == 2


@in_one_shell
def test_what_has_only_begun_is_no_reason_to_act(host: Host) -> None:
    young = {"cpid": 7, "reason": "left by unit a; only 3 s old: it may belong to something that begins"}
    young |= {"action": "none", "outcome": "skipped"}
    (host.fake / "found").write_text(json.dumps({**NOTHING, "processes": [young]}) + "\n")
    host.nothing("1 too young to be ended")
    assert host.did == ["inspect", "run", "exec"]


@in_one_shell
def test_what_is_too_young_is_told_beside_what_was_ended(host: Host) -> None:
    young = {"reason": "only 3 s old: it may belong to something that begins", "action": "none"}
    old = {"reason": "left by unit a", "action": "term", "outcome": "skipped"}
    (host.fake / "found").write_text(json.dumps({**NOTHING, "processes": [old, young]}) + "\n")
    gone = {**old, "outcome": "gone"}
    (host.fake / "reaped").write_text(json.dumps({**NOTHING, "processes": [gone, young]}) + "\n")
    assert host.go()[0] == 0
    assert host.ended == ("did", "orphans ended: 1; 1 too young to be ended")


@pytest.mark.parametrize(
    ("told", "options"),
    [("private", []), ("shareable,shm", ["--shared-ipc"]), ("host,tmp", ["--shared-ipc", "--shared-tmp"])],
)
def test_the_agent_learns_what_others_see_of_the_container_s_memory(
    host: Host, told: str, options: list[str]
) -> None:
    (host.fake / "found").write_text(orphans("skipped"))
    host.container("running", ipc=told)
    assert host.go()[0] == 0
    reaps = [words for words in host.asked if "reap" in words]
    assert len(reaps) == 4, "a look and a clean-up, from the host and from inside"
    assert [[word for word in words if word.startswith("--shared")] for words in reaps] == [options] * 4


@in_one_shell
def test_leftovers_alone_are_a_reason_to_act(host: Host) -> None:
    file = {"path": "/dev/shm/x", "kind": "shm", "action": "none", "why": "of unit a; would be removed"}
    # that is only seen from inside
    inside, removed = host.fake / "inside", {**file, "action": "removed"}
    (inside / "found").write_text(json.dumps({**NOTHING, "view": "container", "shm": [file]}) + "\n")
    (inside / "reaped").write_text(json.dumps({**NOTHING, "view": "container", "shm": [removed]}) + "\n")
    host.container("running", ipc="host")
    assert host.go()[0] == 0
    assert host.ended == ("did", "leftovers removed: 1")
    assert all("--shared-ipc" in words for words in host.asked if "reap" in words)


@in_one_shell
def test_a_reap_that_hangs_is_not_tried_in_another_way(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passscript, "LOOK", 1)
    monkeypatch.setattr(passscript, "GRACE", 0)
    (host.fake / "hang").write_text(HANGING_HELPER)
    assert host.go()[0] == 1
    assert host.ended == ("failed", "the reap gave no answer within 1 s")
    assert host.did == ["inspect", "run"]
    signals = [one for one in host.audit if one["event"] == "signal"]
    assert [one["signal"] for one in signals][:1] == ["SIGTERM"]
    assert {(one["by"], one["outcome"], one["why"]) for one in signals} == {
        ("pass", "sent", "no answer within 1 s")
    }
    who = signals[0]
    assert who["boot"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert who["ns"] == Path("/proc/self/ns/pid").stat().st_ino
    assert who["start"] > 0


@in_one_shell
def test_an_adopted_container_with_a_root_of_its_own_is_reaped_by_a_lock_of_its_own(host: Host) -> None:
    (host.fake / "no-helper").touch()
    (host.fake / "found").write_text(orphans("skipped"))
    error = {"error": {"code": "host-locked", "message": "made up", "hint": ""}}
    (host.fake / "reaped").write_text(json.dumps(error) + "\n")
    (host.fake / "rc").write_text("1")
    (host.fake / "reaped-alone").write_text(orphans("gone"))
    assert host.go()[0] == 0
    assert host.ended[1].startswith("orphans ended: 1; only the container")
    assert host.did[-2:] == ["exec", "exec"]
    assert "--run" in host.asked[-2]
    assert "--run" not in host.asked[-1]


@in_one_shell
def test_a_helper_of_an_earlier_pass_that_hangs_is_told_and_gets_no_other(host: Host) -> None:
    (host.fake / "helpers").write_text("abc123\n")
    assert host.go()[0] == 1
    assert host.ended == ("failed", "a helper of an earlier pass is still at work: container abc123")
    assert host.did == ["inspect"]
    (asked,) = [words for words in host.asked if words[0] == "ps"]
    assert asked[-1] == f"label=io.klops.pass={host.root}"
    assert [one["event"] for one in host.audit] == ["helper-hangs"]
    (host.fake / "helpers").unlink()
    host.nothing()


@in_one_shell
def test_orphans_are_ended_although_no_supervisor_comes_up(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passscript, "WAIT", 0)
    host.container("running", made="other")
    host.adopt()
    (host.fake / "deaf").touch()
    (host.fake / "found").write_text(orphans("skipped"))
    (host.fake / "reaped").write_text(orphans("gone"))
    assert host.go()[0] == 1
    silent = f"the supervisor started in container {NAME} does not answer"
    assert host.ended == ("failed", f"{silent}; orphans ended: 1")
    assert [one["event"] for one in host.audit] == ["supervisor-not-started"]
    assert host.go()[0] == 1
    assert [one["event"] for one in host.audit] == ["supervisor-not-started"], "it is noted once"


@in_one_shell
def test_orphans_are_ended_by_the_helper_where_the_agent_in_the_container_is_silent(host: Host) -> None:
    host.container("running", made="other")
    host.adopt()
    (host.fake / "status").write_text("nothing that can be read")
    (host.fake / "found").write_text(orphans("skipped"))
    (host.fake / "reaped").write_text(orphans("gone"))
    assert host.go()[0] == 1
    assert host.ended[1].endswith("orphans ended: 1")
    assert "can't be asked" in host.ended[1]
    assert not [words for words in host.asked if words[0] == "exec" and "reap" in words]


@in_one_shell
def test_what_the_reap_could_not_do_is_no_success(host: Host) -> None:
    (host.fake / "found").write_text(json.dumps({**NOTHING, "trouble": ["the list can't be read"]}) + "\n")
    assert host.go()[0] == 1
    assert host.ended == ("failed", 'the reap met trouble: "the list can\'t be read"')


@in_one_shell
def test_leftovers_that_can_t_be_looked_for_are_told_after_all_else_is_done(host: Host) -> None:
    (host.fake / "inside" / "found").write_text("no agent here\n")
    (host.fake / "found").write_text(orphans("skipped"))
    (host.fake / "reaped").write_text(orphans("gone"))
    assert host.go()[0] == 1
    outcome, why = host.ended
    assert outcome == "failed"
    assert why.startswith("leftovers in shared memory can't be looked for: the agent tells nothing")
    assert why.endswith("; orphans ended: 1")
