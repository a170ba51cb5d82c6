"""Steps of ``klops.cron``, what ``klops cron status`` shows, and the scripts of its reads on this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from klops.actions.own.cron import timer
from klops.actions.own.cron.action import CronAction, CronParams
from klops.actions.own.cron.look import Look, cron_path, reads, timer_path
from klops.actions.own.cron.timer import ReopenCards, shown, status_reads
from klops.actions.system.systemd import Systemctl
from klops.commands import daemonreload, schedule
from klops.commands.listing import parse
from klops.errors import AgentError, TaskFailed
from klops.inventory.settings import Settings
from klops.remote.fake import reply
from klops.remote.reads import Read
from klops.remote.schedulereads import CronDaemonRead, LastPassRead, MarkedRead
from klops.ui.cron import cron_text
from tests.unit.actions_klops.support import Stage

PATH = cron_path("/k")
LISTED = f"-rw-r--r-- 1 0 0 9 Nov 29 15:26 {PATH}\n-rw-r--r-- 1 root root 9 Nov 29 15:26 {PATH}\n"


def stage(**answers: str) -> Stage:
    """A host of root's with cron and nothing in place; ``answers`` by key of the read, dots as ``_``."""
    there = Stage()
    given = {"cron_user": "0", "cron_daemon": "yes", "cron_last": "100\n", **answers}
    for read in CronAction().probe(CronParams(), there.view).reads:
        text = given.get(read.key.replace(".", "_"))
        script = read.script
        answer = reply(text) if text is not None else reply(rc=1)
        there.remote.on(re.compile(f"^{re.escape(script)}$"), answer)
    there.remote.on("command -v crontab", reply(rc=1, stderr="no crontab for root"))
    there.remote.on("[ -d /etc/cron.d ]", "")
    return there


def apply(there: Stage, **params: Any) -> dict[str, Any]:
    action = CronAction()
    given = CronParams(**params)
    replies = there.remote.read(action.probe(given, there.view).reads)
    plan = there.plan("klops.cron", replies, **params)
    if plan.failure is not None:
        raise plan.failure
    return action.apply(plan, there.ctx)


def test_what_is_written_and_that_nothing_of_the_file_is_registered() -> None:
    text = schedule.file_text("/k", "klops", "*/10 * * * *")
    there = stage()
    there.remote.on(
        lambda call: call.kind == "read" and PATH in call.text and len(there.remote.files) > 0,
        lambda call: reply(text if "head -c" in call.text else LISTED),
    )
    assert apply(there) == {}
    assert there.remote.files[PATH] == (text.encode(), 0o644)
    (put,) = (call for call in there.remote.log if call.kind == "put")
    assert (put.owner, put.unless_changed) == ("0:0", "absent")


def test_row_G44_a_file_that_cron_would_pass_over_is_a_failure() -> None:
    there = stage()
    there.remote.on(
        lambda call: call.kind == "read" and PATH in call.text and len(there.remote.files) > 0,
        lambda call: reply("* * * * * root true" if "head -c" in call.text else LISTED.replace("0 0", "7 0")),
    )
    with pytest.raises(
        TaskFailed, match="belongs to user 7, not to root; its last line has no end"
    ) as caught:
        apply(there)
    assert caught.value.code == "cron-refused"


def access(*lost: str) -> str:
    units = {"main": {"state": "ready", "desired": "running"}}
    nodes = [{"node": node, "error": "Operation not permitted", "fault": "container"} for node in lost]
    return json.dumps({"supervisor": {"cpid": 8}, "units": units, "access": nodes})


INSPECTED = {
    "Id": "c0ffee" + "0" * 58,
    "Name": "/klops",
    "Image": "sha256:1",
    "State": {"Status": "running", "ExitCode": 0, "Error": ""},
    "Config": {"Image": "vllm:1", "Labels": {"io.klops.managed": "1"}, "Env": [], "Cmd": []},
    "HostConfig": {"LogConfig": {"Type": "json-file", "Config": {"labels": "io.klops.managed"}}},
}


def reopened(status: str, state: str = "running") -> None:
    there = Stage()
    inspected = json.loads(json.dumps(INSPECTED))
    inspected["State"]["Status"] = state
    there.remote.on(lambda call: call.kind == "read", reply(rc=1))
    there.remote.on(
        "docker version", json.dumps({"Client": {}, "Server": {"Version": "24", "ApiVersion": "1.43"}})
    )
    there.remote.on(
        lambda call: call.read is not None and call.read.key == "container", json.dumps([inspected])
    )
    there.remote.on(lambda call: call.read is not None and call.read.key == "agent.status", status)
    assert ReopenCards(there.settings).carry_out(there.ctx) is None


def test_after_a_reload_every_card_is_opened_again() -> None:
    reopened(access())
    with pytest.raises(TaskFailed, match="/dev/xpu1: Operation not permitted") as caught:
        reopened(access("/dev/xpu1"))
    assert caught.value.code == "device-access-lost"
    with pytest.raises(AgentError):
        reopened("nothing that can be read")
    reopened("nothing that can be read", state="exited")


def test_cards_that_nobody_has_opened_since_the_reload_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer, "_PATIENCE", 0)
    with pytest.raises(TaskFailed, match="can't be told") as caught:
        reopened(json.dumps({**json.loads(access()), "access": None}))
    assert caught.value.code == "device-access-unknown"


def test_a_timer_is_enabled_without_a_second_reload(tmp_path: Path) -> None:
    there = Stage()
    there.remote.on("systemctl", "")
    Systemctl(("enable", "a.timer"), options=("--no-reload",)).carry_out(there.ctx)
    assert there.remote.commands == ["systemctl --no-reload enable a.timer"]


NODES = parse("crw-rw-rw- 1 0 0 510, 0 Nov 29 15:26 /dev/xpu0\n")


@pytest.mark.parametrize(
    ("runc", "driver", "links", "risky"),
    [
        ("1.1.3", "systemd", [], True),
        ("1.1.6+ds1", "systemd", [], True),
        ("1.1.2", "systemd", [], False),
        ("1.1.7", "systemd", [], False),
        ("1.1.5", "cgroupfs", [], False),
        ("1.1.5", "systemd", ["510:0"], False),
        ("", "systemd", [], True),
        ("1.1.9", "", [], True),
    ],
)
def test_when_a_reload_may_take_devices(runc: str, driver: str, links: list[str], risky: bool) -> None:
    version = json.dumps({"Server": {"Components": [{"Name": "runc", "Version": runc}]}} if runc else {})
    info = json.dumps({"CgroupDriver": driver} if driver else {})
    assert bool(daemonreload.risk(version, info, NODES, links)) is risky
    assert daemonreload.risk(version, info, {}, links, none_expected=True) == ""
    unseen = daemonreload.risk(version, info, {}, links)
    assert bool(unseen) is (risky or bool(links)), "nodes that aren't seen have no links"


def run(read: Read) -> tuple[int, str]:
    done = subprocess.run(["sh", "-c", read.script], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.skipif(shutil.which("sh") is None or not Path("/proc/self").exists(), reason="needs Linux")
def test_reads_on_this_machine(tmp_path: Path) -> None:
    folder = tmp_path / "it's $a folder"
    read = MarkedRead("m", str(folder), schedule.mark("/k"), " root sh '/k 1'/pass")
    assert run(read) == (1, "")
    folder.mkdir()
    assert run(read) == (0, "")
    text = f"# x\n{schedule.mark('/k')}\nMAILTO=ada\n\n* * * * * root sh '/k 1'/pass"
    (folder / "a b").write_text(text)
    (folder / "b").write_text(f"{text} && mail\n")
    (folder / "b2").write_text(f"{text}\n@daily root true\n")
    (folder / "c").write_text(f"{schedule.mark('/k2')}\n{schedule.mark('/k')} \n")
    assert run(read) == (0, f"own {folder}/a b\nmore {folder}/b\nmore {folder}/b2\n")
    assert run(MarkedRead("m", str(folder), "# x"))[1].count("own ") == 3, "of any other kind nobody has more"
    rc, said = run(CronDaemonRead("d"))
    assert (rc, said) in ((0, "yes\n"), (0, "no\n"))
    rc, said = run(LastPassRead("l", str(tmp_path / "pass.jsonl")))
    assert rc == 0
    assert said.strip().isdigit()
    (tmp_path / "pass.jsonl").write_text('{"at": 1}\n{"at": 2}\n')
    there, missing = folder / "a b", folder / "missing"
    os.utime(there, (7, 7))
    said = run(LastPassRead("l", str(tmp_path / "pass.jsonl"), (str(missing), str(there))))[1]
    assert re.fullmatch(r"\d+ 7\n" + re.escape('{"at": 2}\n'), said)


def test_text() -> None:
    settings = Settings(root="/k")
    answers = {read.key: reply(rc=1) for read in (*reads(settings), *status_reads(settings))}
    nothing = shown(Look.of(answers, settings), settings, answers)
    assert cron_text(nothing) == "not scheduled; no pass has ended yet"
    assert cron_text(nothing, foretold=True).startswith("would not be scheduled;")
    never = {**nothing, "installed": True, "schedule": "@daily", "file": "/f", "daemon": True, "stale": True}
    assert cron_text(never) == "@daily by /f; no pass has ended yet, and one is overdue"
    assert cron_text(never, foretold=True).startswith("would be @daily by /f;")
    last = {"at": 0, "outcome": "did", "why": "orphans ended: 1"}
    found = {**nothing, "installed": True, "scheduler": "cron", "file": "/f", "schedule": "@daily"}
    found |= {"refused": ["its last line has no end"], "last": last, "stale": True}
    assert cron_text(found) == (
        "@daily by /f, no cron daemon is seen at work, cron passes over it: its last line has no end"
        "; last pass 1970-01-01 00:00:00 UTC: did, orphans ended: 1; the next one is overdue"
    )


def test_a_timer_is_shown_as_systemd_has_it() -> None:
    settings = Settings(root="/k")
    path = timer_path("/k")
    text = schedule.timer_unit("/k", settings.cleanup.schedule)
    answers = {read.key: reply(rc=1) for read in (*reads(settings), *status_reads(settings))}
    answers |= {"cron.units": reply(f"own {path}\n"), "cron.last": reply("100000 7\n")}
    answers |= {
        "timer.timer": reply(text),
        "timer.state": reply("ActiveState=inactive\n@is-enabled 0\nenabled\n"),
    }
    found = shown(Look.of(answers, settings), settings, answers)
    assert (found["schedule"], found["daemon"], found["stale"]) == ("*/10 * * * *", False, True)
    assert "the timer does not run" in cron_text(found)
    answers["timer.timer"] = reply("[Timer]\nOnCalendar=daily\n")
    found = shown(Look.of(answers, settings), settings, answers)
    assert (found["schedule"], found["stale"]) == (None, None), "somebody has changed it"


def test_nobody_knows_what_is_in_a_crontab_that_can_t_be_read() -> None:
    settings = Settings(root="/k")
    answers = {read.key: reply(rc=1) for read in (*reads(settings), *status_reads(settings))}
    answers["cron.crontab"] = reply(rc=1, stderr="not allowed")
    with pytest.raises(TaskFailed, match="not allowed"):
        shown(Look.of(answers, settings), settings, answers)
