"""A pid on record that belongs to a stranger by now: forced in a pid namespace, with the real agent in it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rehearsals import missing
from tests.shortpaths import short_folder

pytestmark = pytest.mark.host


def test_a_recorded_pid_that_a_stranger_has_now_is_never_signalled(tmp_path: Path) -> None:
    reason = missing() or ("" if shutil.which("unshare") else "not installed: unshare")
    if reason:
        pytest.skip(reason)
    with short_folder() as sockets:
        inside = [sys.executable, "-m", "tests.host.reused", str(tmp_path), str(sockets)]
        # bash stays as pid 1 and reaps what nobody else does
        argv = [
            "unshare",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "bash",
            "-c",
            '"$@"; exit $?',
            "-",
        ]
        done = subprocess.run([*argv, *inside], capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    pids = [pid for _, _, pid, _ in found["were"]]
    assert [pid for _, _, pid, _ in found["now"]] == pids
    for was, now in zip(found["were"], found["now"], strict=True):
        assert was[:3] == now[:3]
        assert was[3] != now[3]
    assert found["held before"] == "gone"
    assert found["held now"] == [False, False, False]
    assert found["living"] == []
    assert found["unrecorded"] == []
    for when in ("without supervisor", "with supervisor"):
        assert [p["cpid"] for p in found[when]["processes"] if p["cpid"] in pids] == [], found[when]
    assert (found["again"], found["stopped"]) == (2, "stopped")
    # row B13 (d): those that came next were on record by their pids, pid 1 by all it is
    sent = {line["pid"] for line in found["signals"]}
    assert found["recorded"][0] <= found["supervisor"][2] < found["recorded"][1]
    assert found["supervisor"][2] not in sent
    assert found["first"][2] == 1
    assert 1 not in sent
    assert all(pid > 0 for pid in sent)
    strangers = {tuple(now[2:]) for now in found["now"]}
    assert not strangers & {(line["pid"], line["start"]) for line in found["signals"]}
    assert found["alive"] == [True, True, True]
