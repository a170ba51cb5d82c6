"""The pass that a host runs by itself: installed by klops, run as cron runs it, and by a real cron daemon."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from ruamel.yaml import YAML

from klops.commands import schedule
from klops.remote.schedulereads import DAEMONS
from tests.host.processes import running
from tests.host.support import Done, klops
from tests.host.test_adoption import Hand
from tests.rehearsals import MakeRehearsal
from tests.unit.commands.crons import vixie
from tests.waiting import until

pytestmark = pytest.mark.host

#: Run in the container: a process that holds a card and whose parents are gone. argv: stubborn, its name.
PLANT = """
import os, signal, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        if sys.argv[1] == "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.set_inheritable(os.open("/dev/xpu3", os.O_RDWR), True)
        os.execv("/bin/sleep", [sys.argv[2], "600"])
    os._exit(0)
os.wait()
"""
#: Every minute, and what has lived for a second is old enough.
EAGER = json.dumps({"klops": {"cleanup": {"schedule": "* * * * *", "grace": 1}}})
#: The environment that cron gives a job, by the manual of Debian's.
OF_CRON = {"SHELL": "/bin/sh", "PATH": "/usr/bin:/bin", "HOME": "/root", "LOGNAME": "root"}


class Machine(Hand):
    """A rehearsal host that cleans up by itself."""

    @property
    def file(self) -> Path:
        """Its file among cron's."""
        return Path(schedule.FOLDER, schedule.file_name(str(self.host.root)))

    def cron(self, verb: str, *args: str) -> Done:
        inventory = str(self.rehearsal.inventory)
        return klops("cron", verb, self.host.name, *args, "-i", inventory, "-o", "json")

    def shown(self, verb: str, *args: str) -> Any:
        done = self.cron(verb, *args)
        assert done.rc == 0, done.stdout + done.stderr
        return done.json["hosts"][self.host.name]

    def plant(self, name: str, *, stubborn: bool = False) -> int:
        """An orphan, older than a second; its pid."""
        wanted = YAML(typ="safe").load(self.rehearsal.inventory)["all"]["vars"]["klops"]["container"]
        how = "stubborn" if stubborn else "meek"
        self.docker("exec", self.host.container, wanted["python"], "-c", PLANT, how, name)
        (pid,) = until(lambda: running(name, "600"), what="the orphan runs")
        began = time.monotonic()
        until(lambda: time.monotonic() > began + 1.1, what="it is old enough")
        return pid

    def begin(self) -> subprocess.Popen[str]:
        """The job of the installed line, as cron starts it: no terminal, hardly any environment."""
        line = schedule.line_of(self.file.read_text())
        command = vixie(line.split(" ", 6)[6])
        return subprocess.Popen(
            ["/bin/sh", "-c", command],
            env=OF_CRON,
            cwd="/root",
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def passes(self) -> list[dict[str, Any]]:
        """How passes ended, the first one first."""
        path = self.host.root / "pass.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture(scope="module")
def machine(make_rehearsal: MakeRehearsal) -> Machine:
    """A host whose service is up."""
    rehearsal = make_rehearsal()
    machine = Machine(rehearsal, rehearsal.hosts[0])
    machine.done("up")
    assert not machine.file.exists(), "the inventory of a rehearsal leaves this machine's cron alone"
    return machine


def test_row_G44_install_replaces_what_was_there_and_remove_takes_it_away(machine: Machine) -> None:
    old = Path(schedule.FOLDER, f"{machine.file.name}.v1")  # cron never ran it
    own = f"root {schedule.command(schedule.job(str(machine.host.root)))}\n"
    old.write_text(text := f"{schedule.mark(str(machine.host.root))}\n* * * * * {own}")
    copy = Path(schedule.FOLDER, f"{machine.file.name}.copy")
    copy.write_text(f"{text}@daily root true\n")
    stranger = Path(schedule.FOLDER, f"{machine.file.name}.other")
    stranger.write_text(text.replace("/root\n", "/root2\n"))
    try:
        umask = os.umask(0o077)
        try:
            found = machine.shown("install")
        finally:
            os.umask(umask)
        assert not old.exists()
        assert copy.read_text().endswith(f"{own}@daily root true\n"), "somebody else has a line in it"
        assert stranger.read_text().endswith(own)
    finally:
        old.unlink(missing_ok=True)
        copy.unlink()
        stranger.unlink()
    assert found["installed"] is True
    assert found["file"] == str(machine.file)
    stat = machine.file.stat()
    assert (stat.st_uid, stat.st_gid, stat.st_mode & 0o7777) == (0, 0, 0o644)
    again = machine.cron("install", "--detailed-exitcode", "--check")
    assert again.rc == 0, "nothing to change"
    assert machine.shown("status")["schedule"] == "*/10 * * * *"
    assert machine.shown("remove")["installed"] is False
    assert not machine.file.exists()
    assert machine.shown("status")["installed"] is False


def test_the_job_of_the_line_removes_an_orphan(machine: Machine) -> None:
    machine.shown("install", "-e", EAGER)
    (machine.host.root / "pass").chmod(0o644)  # as a copy from Windows would be
    pid = machine.plant("planted-for-the-line")
    out, _ = machine.begin().communicate(timeout=120)
    assert out == "", "it has a log of its own"
    assert not running("planted-for-the-line", "600")
    last = machine.passes()[-1]
    assert (last["outcome"], last["why"], last["view"]) == ("did", "orphans ended: 1", "host")
    log = (machine.host.root / "log" / "pass.log").read_text()
    assert log.endswith("klops: did: orphans ended: 1\n")
    (metrics,) = (machine.host.root / "metrics").glob("klops_pass.prom")
    assert 'outcome="did"} 1\n' in metrics.read_text()
    lines = (machine.host.root / "audit.jsonl").read_text().splitlines()
    signals = [one for one in map(json.loads, lines) if one["event"] == "signal" and one["pid"] == pid]
    assert [one["signal"] for one in signals] == ["SIGTERM"]
    found = machine.shown("status")
    assert found["last"] == last
    assert found["stale"] is False
    assert machine.status["services"]["llm"]["state"] == "ready", "the service was none of it"


def test_row_G46_of_three_at_once_one_works_and_two_say_why_not(machine: Machine) -> None:
    machine.shown("install", "-e", EAGER)
    machine.plant("planted-for-three", stubborn=True)
    count = len(machine.passes())
    jobs = [machine.begin() for _ in range(3)]
    for job in jobs:
        job.communicate(timeout=120)
    ended = sorted((one["outcome"], one["why"]) for one in machine.passes()[count:])
    assert [outcome for outcome, _ in ended] == ["did", "skipped", "skipped"]
    assert all(why.startswith("another pass is at work: process ") for _, why in ended[1:])
    assert not running("planted-for-three", "600")
    assert not (machine.host.root / "lock").exists()
    assert not (machine.host.root / "pass.lock").is_symlink()


@pytest.mark.long
def test_row_G46_after_a_pass_was_killed_the_next_one_works(machine: Machine) -> None:
    machine.shown("install", "-e", EAGER)
    machine.plant("planted-for-the-killed", stubborn=True)
    first = machine.begin()
    until((machine.host.root / "lock").exists, what="it has the lock")
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate(timeout=60)
    assert (machine.host.root / "lock").exists(), "what a killed one leaves"

    def works() -> bool:
        machine.begin().communicate(timeout=120)
        outcome, why = (machine.passes()[-1][key] for key in ("outcome", "why"))
        # what the killed one had docker begin may be at it still
        busy = ("another clean-up is at work", "a helper of an earlier pass is still at work: container ")
        assert outcome in ("ok", "did") or why.startswith(busy)
        return outcome in ("ok", "did")

    until(works, what="a pass works")
    assert not running("planted-for-the-killed", "600")
    assert not (machine.host.root / "lock").exists()


@pytest.fixture
def cron_daemon(tmp_path: Path) -> Iterator[None]:
    """A cron daemon that reads /etc/cron.d of this machine, and none of its other jobs."""
    cron = shutil.which("cron", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if cron is None or shutil.which("unshare") is None:
        pytest.skip("needs cron and unshare (scripts/setup-host installs cron)")
    # one that ends while it is looked at has no name
    if any(process.info["name"] in DAEMONS for process in psutil.process_iter(["name"])):
        yield  # the machine's own
        return
    (tmp_path / "crontab").touch()
    (tmp_path / "spool").mkdir()
    hide = 'mount --bind "$1/crontab" /etc/crontab && mount --bind "$1/spool" /var/spool/cron && exec "$2" -f'
    argv = ["unshare", "--mount", "sh", "-c", hide, "sh", str(tmp_path), cron]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL) as process:
        yield
        process.terminate()
        process.wait(timeout=30)


@pytest.mark.long
def test_the_line_run_by_a_real_cron_daemon(machine: Machine, cron_daemon: None) -> None:
    machine.shown("install", "-e", EAGER)
    count = len(machine.passes())
    until(lambda: machine.shown("status")["daemon"], what="the daemon is seen")
    machine.plant("planted-for-cron")
    # the next full minute, and the time that a pass takes
    until(lambda: not running("planted-for-cron", "600"), timeout=100, what="the orphan is gone")
    until(lambda: len(machine.passes()) > count, what="the pass has ended")
    ended = machine.passes()[count:]
    assert ended[-1]["outcome"] in ("did", "ok"), ended
    assert "did" in [one["outcome"] for one in ended]
    machine.shown("remove")


@pytest.mark.long
def test_the_second_up_with_a_schedule_changes_nothing_in_two_remote_commands(machine: Machine) -> None:
    auto = json.dumps({"klops": {"cleanup": {"scheduler": "auto"}}})
    machine.done("up", "-e", auto)
    assert machine.file.exists()
    written = machine.file.stat()
    again = machine.done("up", "-e", auto)
    assert machine.file.stat().st_mtime_ns == written.st_mtime_ns
    assert again["recap"][machine.host.name]["changed"] == 0
    commands = again["remote_commands"][machine.host.name]
    print(f"converged up with a schedule: {commands} remote commands")
    assert commands <= 2
    machine.shown("remove")


@pytest.mark.long
def test_down_with_remove_takes_the_schedule_too(machine: Machine) -> None:
    machine.shown("install")
    assert machine.file.exists()
    machine.done("down", "--remove", "--yes")
    assert not machine.file.exists()
