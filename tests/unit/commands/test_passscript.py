"""The scheduled pass as the shells of hosts run it, with a docker that writes down what it is asked."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from klops.commands import passscript
from klops.commands.agent import hold, verb
from klops.remote.lock import parse_lock
from tests.waiting import until

SHELLS = [["dash"], ["bash", "--posix"], ["busybox", "sh"]]
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists() or not all(shutil.which(shell[0]) for shell in SHELLS),
    reason="needs Linux, dash, bash and busybox",
)
ID = "c0ffee" + "0" * 58
BOOT = "00000000-made-up-boot-of-before"
NAME, PYTHON = 'it\'s "a" $box', "/opt/my python/bin/python3"
LIVES = json.dumps({"supervisor": {"agent": "abc"}, "units": {}})
#: what a unit says may look like the answer itself
DEAD = json.dumps({"units": {"a": {"error": '"supervisor": {'}}, "supervisor": None})
DOCKER = """#!/bin/sh
for word; do printf '%s\\037' "$word"; done >>"$FAKE/log"
echo >>"$FAKE/log"
if [ -e "$FAKE/hang" ]; then
    . "$FAKE/hang"
    echo $$ >"$FAKE/pid.new" && mv "$FAKE/pid.new" "$FAKE/pid"
    while :; do sleep 0.05; done
fi
[ ! -e "$FAKE/after-$1" ] || trap '. "$FAKE/after-$1"' EXIT
case $1,$2 in
inspect,*) cat "$FAKE/inspect" 2>/dev/null || { echo "Error: No such container: x" >&2; exit 1; } ;;
start,*)
    [ ! -e "$FAKE/wait" ] || { : >"$FAKE/waiting"; while [ -e "$FAKE/wait" ]; do sleep 0.05; done; }
    [ ! -e "$FAKE/refuse" ] || { cat "$FAKE/refuse" >&2; exit 1; }
    sed 's/ exited / running /; s/ failed / clean /' "$FAKE/inspect" >"$FAKE/new"
    mv "$FAKE/new" "$FAKE/inspect" ;;
exec,-d) [ -e "$FAKE/deaf" ] || cp "$FAKE/alive" "$FAKE/status" ;;
exec,*) cat "$FAKE/status" ;;
esac
"""


@dataclass
class Host:
    """A folder that stands for klops' root, and the docker of that host."""

    shell: Sequence[str]
    root: Path
    fake: Path
    docker: tuple[str, ...] = ("docker", "-H", "unix:///made up.sock")
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def container(
        self,
        state: str,
        *,
        policy: str = "always",
        error: str = "clean",
        made: str = "made",
        name: str = NAME,
    ) -> None:
        """What docker says of the container, with one device."""
        line = f"{ID} {state} {policy} {error} {made}"
        (self.fake / "inspect").write_text(f"{line}\n/{name}\n{self.node}\n")

    @property
    def node(self) -> Path:
        return self.fake / "a card"

    def adopt(self, identity: str = ID) -> None:
        record = {"schema": 1, "id": identity, "name": NAME, "who": "ada", "at": 1.0}
        (self.root / "adopted.json").write_text(json.dumps(record, indent=1) + "\n")

    def begin(self) -> subprocess.Popen[str]:
        """Start a pass."""
        new = self.root / "pass.new"
        new.write_text(passscript.script(self.docker, NAME, PYTHON, str(self.root)))
        new.rename(self.root / "pass")  # a shell may be reading the one of before
        process = subprocess.Popen(
            [*self.shell, str(self.root / "pass")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": f"{self.fake}:{os.environ['PATH']}", "FAKE": str(self.fake)},
        )
        self.running.append(process)
        return process

    def go(self) -> tuple[int, str, str]:
        """One pass to its end: exit status, standard output and error."""
        process = self.begin()
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    @property
    def asked(self) -> list[list[str]]:
        """What docker was asked, without how it is called."""
        log = self.fake / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [line.split("\037")[:-1] for line in lines]

    @property
    def did(self) -> list[str]:
        """The words that name what docker was asked."""
        return [" ".join(words[:2]) if words[:2] == ["exec", "-d"] else words[0] for words in self.asked]

    @property
    def audit(self) -> list[dict[str, Any]]:
        path = self.root / "audit.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []

    @property
    def left(self) -> set[str]:
        """Files in the root that no pass may leave there."""
        return {path.name for path in self.root.iterdir()} - {"pass", "adopted.json", "audit.jsonl"}


#: for what is decided the same in every shell
in_one_shell = pytest.mark.parametrize("host", SHELLS[2:], ids=["busybox"], indirect=True)


@pytest.fixture(params=SHELLS, ids=["dash", "bash", "busybox"])
def host(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """A host with a card's node and a container that runs."""
    monkeypatch.setattr(passscript, "PAUSE", "0.01")
    root, fake = tmp_path / 'it\'s the "root" of $klops', tmp_path / "fake"
    root.mkdir()
    fake.mkdir()
    docker = fake / "docker"
    # the options before the verb are how docker is called
    docker.write_text(DOCKER.replace("#!/bin/sh\n", '#!/bin/sh\n[ "$1" != -H ] || shift 2\n'))
    docker.chmod(0o755)
    (fake / "alive").write_text(LIVES)
    (fake / "status").write_text(DEAD)
    there = Host(request.param, root, fake)
    there.node.touch()
    there.container("running")
    yield there
    for process in there.running:
        if process.poll() is None:
            process.kill()
        with process:  # closes its pipes
            pass


def test_nothing_to_do_is_silent_and_leaves_nothing(host: Host) -> None:
    assert host.go() == (0, "", "")
    assert host.did == ["inspect"]
    assert host.asked[0][-1] == NAME
    assert host.left == set()
    assert host.audit == []


def test_a_failed_start_is_repeated_once_the_nodes_are_there(host: Host) -> None:
    host.container("exited", error="failed")
    host.node.unlink()
    assert host.go() == (0, "", "")
    assert host.did == ["inspect"]
    host.node.touch()
    rc, out, err = host.go()
    assert (rc, err) == (0, "")
    assert NAME in out
    assert ["start", ID] in host.asked
    (line,) = host.audit
    assert line["event"] == "container-started"
    assert (line["container"], line["id"], line["by"]) == (NAME, ID, "pass")
    assert abs(line["at"] - time.time()) < 60
    assert host.left == set()
    again = len(host.asked)
    assert host.go() == (0, "", "")
    assert host.did[again:] == ["inspect"]


@in_one_shell
def test_a_container_without_devices_needs_none(host: Host) -> None:
    host.container("created", error="failed")
    lines = (host.fake / "inspect").read_text().splitlines()
    (host.fake / "inspect").write_text("\n".join(lines[:2]) + "\n")
    assert host.go()[0] == 0
    assert ["start", ID] in host.asked


@in_one_shell
@pytest.mark.parametrize(
    ("state", "policy", "error", "made"),
    [
        ("exited", "always", "clean", "made"),  # stopped by hand
        ("exited", "no", "failed", "made"),  # told to stay down
        ("exited", "always", "failed", "other"),  # a stranger's
        ("running", "always", "clean", "other"),
        ("paused", "always", "failed", "made"),
        ("restarting", "always", "failed", "made"),
        ("dead", "always", "failed", "made"),
    ],
)
def test_what_is_left_alone(host: Host, state: str, policy: str, error: str, made: str) -> None:
    host.container(state, policy=policy, error=error, made=made)
    assert host.go() == (0, "", "")
    assert host.did == ["inspect"]


@in_one_shell
def test_a_container_whose_id_begins_like_the_name_is_another_one(host: Host) -> None:
    host.container("exited", error="failed", name="another")
    assert host.go() == (0, "", "")
    assert host.did == ["inspect"]


@in_one_shell
def test_no_container(host: Host) -> None:
    (host.fake / "inspect").unlink()
    assert host.go() == (0, "", "")


@in_one_shell
def test_a_recreation_is_left_to_the_next_up(host: Host) -> None:
    host.container("exited", error="failed")
    (host.root / "recreation.json").write_text("{}")
    assert host.go() == (0, "", "")
    assert host.asked == []


def lock(boot: str, left: int) -> str:
    """A lock of ``boot`` ("" for this one) that expires in ``left`` seconds."""
    up = float(Path("/proc/uptime").read_text().split()[0])
    boot = boot or Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    head = {"schema": 1, "who": 'a "boot_id": "x", "expires": 1', "from": "desk", "run": "abc"}
    return json.dumps({**head, "boot_id": boot, "expires": up + left, "taken": 1795966936}) + "\n"


@pytest.mark.parametrize(
    ("content", "living"),
    [
        (lambda: lock("", 60), True),
        (lambda: lock("", -2), False),
        (lambda: lock(BOOT, 10**6), False),
        (lambda: "", True),  # just being written
        (lambda: "not a lock\n", True),
    ],
    ids=["living", "expired", "other boot", "empty", "none"],
)
def test_a_living_lock_keeps_it_away_and_a_dead_one_is_taken_over(
    host: Host, content: Any, living: bool
) -> None:
    host.container("exited", error="failed")
    path = host.root / "lock"
    text = content()
    path.write_text(text)
    rc, _, err = host.go()
    assert (rc, err) == (0, "")
    if living:
        assert host.asked == []
        assert path.read_text() == text
        assert host.left == {"lock"}
    else:
        assert ["start", ID] in host.asked
        assert host.left == set()
        taken, started = host.audit
        assert taken["event"] == "lock-taken-over"
        assert json.loads(taken["previous"]) == json.loads(text)
        assert started["event"] == "container-started"


@in_one_shell
def test_a_lock_that_a_crash_left_empty_is_dead_after_a_minute(host: Host) -> None:
    host.container("exited", error="failed")
    path = host.root / "lock"
    path.touch()
    guard = host.root / "lock.takeover"  # of that crash, too
    guard.symlink_to(f"{BOOT}.5")
    os.utime(path, (time.time() - 130, time.time() - 130))
    assert host.go()[0] == 0
    assert ["start", ID] in host.asked
    assert host.left == set()


def test_an_adopted_container_gets_its_supervisor(host: Host) -> None:
    host.container("running", policy="no", made="other")
    host.adopt()
    rc, out, err = host.go()
    assert (rc, err) == (0, "")
    assert NAME in out
    inside = verb((), ID, PYTHON, str(host.root), "status")
    assert inside in host.asked
    (started,) = [words for words in host.asked if words[:2] == ["exec", "-d"]]
    assert started[2:5] == [ID, "sh", "-c"]
    assert started[6] == f"{host.root}/log/launcher.log"
    assert started[7:] == hold(PYTHON, str(host.root), beside=True)
    assert [line["event"] for line in host.audit] == ["supervisor-started"]
    count = len(host.asked)
    assert host.go() == (0, "", "")
    assert host.did[count:] == ["inspect", "exec"]


@in_one_shell
def test_an_adopted_container_is_known_by_its_id(host: Host) -> None:
    host.container("running", made="other")
    host.adopt("d" * 64)
    assert host.go() == (0, "", "")
    assert host.did == ["inspect"]


@in_one_shell
def test_an_adopted_container_whose_start_failed_gets_both(host: Host) -> None:
    host.container("exited", error="failed", made="other")
    host.adopt()
    assert host.go()[0] == 0
    assert [line["event"] for line in host.audit] == ["container-started", "supervisor-started"]


@in_one_shell
def test_a_supervisor_that_does_not_come_up(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passscript, "WAIT", 1)
    host.container("running", made="other")
    host.adopt()
    (host.fake / "deaf").touch()
    rc, out, err = host.go()
    assert (rc, out) == (1, "")
    assert "does not answer" in err
    assert host.left == {"pass.last"}


@in_one_shell
def test_an_agent_that_can_t_be_asked(host: Host) -> None:
    host.container("running", made="other")
    host.adopt()
    (host.fake / "status").write_text("something else\n")
    rc, _, err = host.go()
    assert rc == 1
    assert "can't be asked" in err
    assert "exec -d" not in host.did


def test_the_same_trouble_is_told_once(host: Host) -> None:
    host.container("exited", error="failed")
    (host.fake / "refuse").write_text('Error: port "80" \\ is \x1b[1mtaken\nError: failed to start\n')
    rc, _, err = host.go()
    assert rc == 1
    assert err.count("\n") == 1
    assert 'port "80" \\ is [1mtaken Error: failed to start' in err
    assert host.go() == (1, "", "")
    (line,) = host.audit
    assert line["event"] == "container-not-started"
    assert 'port "80" \\ is' in line["error"]
    (host.fake / "refuse").unlink()
    assert host.go()[0] == 0
    assert host.left == set()


@in_one_shell
def test_an_audit_log_that_can_t_be_written(host: Host) -> None:
    host.container("exited", error="failed")
    (host.root / "audit.jsonl").mkdir()
    rc, _, err = host.go()
    assert (rc, err) == (0, "")
    assert json.loads((host.root / "pass.log").read_text())["event"] == "container-started"


@pytest.mark.parametrize("stubborn", ["", "trap '' TERM"], ids=["ends", "ignores TERM"])
def test_a_docker_that_hangs_is_left_in_time(
    host: Host, monkeypatch: pytest.MonkeyPatch, stubborn: str
) -> None:
    monkeypatch.setattr(passscript, "ASK", 1)
    monkeypatch.setattr(passscript, "GRACE", 0)
    (host.fake / "hang").write_text(stubborn + "\n")
    rc, out, err = host.go()
    assert (rc, out) == (1, "")
    assert "no answer within 1 s" in err
    assert not Path("/proc", (host.fake / "pid").read_text().strip()).exists()
    assert err.count("\n") == 1
    assert host.left == {"pass.last"}


def test_two_at_once_and_how_klops_sees_the_one_that_acts(host: Host) -> None:
    host.container("exited", error="failed")
    (host.fake / "wait").touch()
    first = host.begin()
    until((host.fake / "waiting").exists, what="the first pass starts the container")
    # whoever klops works as on the host has to see whose it is
    assert (host.root / "lock").stat().st_mode & 0o777 == 0o644
    held = parse_lock((host.root / "lock").read_text())
    assert held is not None
    assert held.run.startswith(f"pass-{first.pid}-")
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    up = float(Path("/proc/uptime").read_text().split()[0])
    assert not held.is_dead(boot, up)
    assert held.is_dead(boot, up + passscript.LIFETIME)
    count = len(host.asked)
    assert host.go() == (0, "", "")
    assert len(host.asked) == count
    (host.fake / "wait").unlink()
    assert first.wait(timeout=60) == 0
    assert host.did.count("start") == 1
    assert host.left == set()


@in_one_shell
def test_of_many_that_find_a_dead_lock_one_acts(host: Host) -> None:
    host.container("exited", error="failed")
    (host.root / "lock").write_text(lock("", -2))
    (host.fake / "wait").touch()
    passes = [host.begin() for _ in range(8)]
    until(lambda: sum(one.poll() is None for one in passes) == 1, what="all but one have left")
    until((host.fake / "waiting").exists, what="one starts the container")
    (host.fake / "wait").unlink()
    assert [one.wait(timeout=60) for one in passes] == [0] * 8
    assert host.did.count("start") == 1
    assert host.left == set()


@in_one_shell
def test_a_run_that_takes_the_lock_meanwhile_is_left_alone(host: Host) -> None:
    host.container("exited", error="failed")
    (host.fake / "wait").touch()
    first = host.begin()
    until((host.fake / "waiting").exists, what="the pass starts the container")
    theirs = lock("", 60)
    (host.root / "lock").write_text(theirs)  # as a run does that found it dead
    (host.fake / "wait").unlink()
    assert first.wait(timeout=60) == 0
    assert (host.root / "lock").read_text() == theirs
    assert host.did[-1] == "start", "without the lock it does no more"


@in_one_shell
@pytest.mark.parametrize("change", ["recreation", "container"])
def test_what_a_run_does_before_the_lock_is_taken_counts(host: Host, change: str) -> None:
    host.container("exited", error="failed")
    line = f"{ID} running always clean made"
    (host.fake / "root").symlink_to(host.root)
    changes = {
        "recreation": ': >"$FAKE/root/recreation.json"',
        "container": f'echo "{line}" >"$FAKE/inspect"',
    }
    (host.fake / "after-inspect").write_text(changes[change] + "\n")
    assert host.go() == (0, "", "")
    assert "start" not in host.did
    assert host.left <= {"recreation.json"}


def test_ended_in_the_middle_it_leaves_neither_lock_nor_docker(host: Host) -> None:
    host.container("exited", error="failed")
    (host.fake / "wait").touch()
    process = host.begin()
    until((host.fake / "waiting").exists, what="the pass starts the container")
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[:1]
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143
    assert not Path("/proc", child).exists()
    assert host.left == set()
