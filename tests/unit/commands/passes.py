"""A host for the scheduled pass: a folder, a shell, and a docker that writes down what it is asked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from klops.commands.hostpass import passscript

SHELLS = [["dash"], ["bash", "--posix"], ["busybox", "sh"]]
CAN_RUN = Path("/proc/self/stat").exists() and all(shutil.which(shell[0]) for shell in SHELLS)
ID = "c0ffee" + "0" * 58
IMAGE = "sha256:" + "1" * 64
BOOT = "00000000-made-up-boot-of-before"
NAME, PYTHON = 'it\'s "a" $box', "/opt/my python/bin/python3"
LIVES = json.dumps({"supervisor": {"agent": "abc"}, "units": {}})
#: what a unit says may look like the answer itself
DEAD = json.dumps({"units": {"a": {"error": '"supervisor": {'}}, "supervisor": None})
NOTHING: dict[str, Any] = {"schema": 1, "view": "host", "processes": [], "unowned": [], "shm": []}
CLEAN = json.dumps(NOTHING) + "\n"
DOCKER = """#!/bin/sh
for word; do printf '%s\\037' "$word"; done >>"$FAKE/log"
echo >>"$FAKE/log"
if [ -e "$FAKE/hang" ]; then
    . "$FAKE/hang"
    echo $$ >"$FAKE/pid.new" && mv "$FAKE/pid.new" "$FAKE/pid"
    while :; do sleep 0.05; done
fi
[ ! -e "$FAKE/after-$1" ] || trap '. "$FAKE/after-$1"' EXIT
case $1,$* in
inspect,*) cat "$FAKE/inspect" 2>/dev/null || { echo "Error: No such container: x" >&2; exit 1; } ;;
ps,*) cat "$FAKE/helpers" 2>/dev/null; exit 0 ;;
run,*|exec,*" reap "*)
    from=$FAKE
    case $1,$(ls "$FAKE") in
    run,*no-helper*) echo "docker: no helper here" >&2; exit 125 ;;
    exec,*no-helper*) ;;
    exec,*) from=$FAKE/inside ;;
    esac
    case $* in
    *--check*) cat "$from/found" ;;
    *" --run "*) cat "$from/reaped"; exit "$(cat "$from/rc")" ;;
    *) cat "$from/reaped-alone" ;;
    esac ;;
start,*)
    [ ! -e "$FAKE/wait" ] || { : >"$FAKE/waiting"; while [ -e "$FAKE/wait" ]; do sleep 0.05; done; }
    [ ! -e "$FAKE/refuse" ] || { cat "$FAKE/refuse" >&2; exit 1; }
    sed 's/ exited / running /; s/ failed / clean /' "$FAKE/inspect" >"$FAKE/new.$$"
    mv "$FAKE/new.$$" "$FAKE/inspect" ;;
exec,"exec -d "*) [ -e "$FAKE/deaf" ] || cp "$FAKE/alive" "$FAKE/status" ;;
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
        ipc: str = "private",
    ) -> None:
        """What docker says of the container, with one device."""
        line = f"{ID} {state} {policy} {error} {made} {IMAGE} {ipc}"
        (self.fake / "inspect").write_text(f"{line}\n/{name}\n{self.node}\n")

    @property
    def node(self) -> Path:
        return self.fake / "a card"

    def adopt(self, identity: str = ID) -> None:
        record = {"schema": 1, "id": identity, "name": NAME, "who": "ada", "at": 1.0}
        (self.root / "adopted.json").write_text(json.dumps(record, indent=1) + "\n")

    def begin(self, *args: str) -> subprocess.Popen[str]:
        """Start a pass."""
        new = self.root / "pass.new"
        new.write_text(
            passscript.script(self.docker, NAME, PYTHON, str(self.root), device_dir=str(self.fake), young=90)
        )
        new.rename(self.root / "pass")  # a shell may be reading the one of before
        process = subprocess.Popen(
            [*self.shell, str(self.root / "pass"), *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": f"{self.fake}:{os.environ['PATH']}", "FAKE": str(self.fake)},
        )
        self.running.append(process)
        return process

    def go(self, *args: str) -> tuple[int, str, str]:
        """One pass to its end: exit status, standard output and error."""
        process = self.begin(*args)
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
        """The words that name what docker was asked, but for helpers of earlier passes."""
        asked = [words for words in self.asked if words[0] != "ps"]
        return [" ".join(words[:2]) if words[:2] == ["exec", "-d"] else words[0] for words in asked]

    @property
    def audit(self) -> list[dict[str, Any]]:
        path = self.root / "audit.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []

    @property
    def left(self) -> set[str]:
        """Files in the root that no pass may leave there."""
        return {path.name for path in self.root.iterdir()} - {
            *("pass", "adopted.json", "audit.jsonl", "pass.jsonl", "metrics", "log")
        }

    @property
    def records(self) -> list[dict[str, Any]]:
        """How passes ended, the first one first."""
        return [json.loads(line) for line in (self.root / "pass.jsonl").read_text().splitlines()]

    @property
    def ended(self) -> tuple[str, str]:
        """How the last pass ended, and why."""
        last = self.records[-1]
        return last["outcome"], last["why"]

    def nothing(self, also: str = "") -> None:
        """One pass that finds nothing to do, and says only that; and ``also`` what it has left alone."""
        rc, out, err = self.go()
        said = f"nothing to do; {also}" if also else "nothing to do"
        assert (rc, err) == (0, "")
        assert out.endswith(f"klops: ok: {said}\n")
        assert out.count("\n") == 1
        assert self.ended == ("ok", said)


#: for what is decided the same in every shell
in_one_shell = pytest.mark.parametrize("host", SHELLS[2:], ids=["busybox"], indirect=True)


def lock(boot: str, left: int) -> str:
    """A lock of ``boot`` ("" for this one) that expires in ``left`` seconds."""
    up = float(Path("/proc/uptime").read_text().split()[0])
    boot = boot or Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    head = {"schema": 1, "who": 'a "boot_id": "x", "expires": 1', "from": "desk", "run": "abc"}
    return json.dumps({**head, "boot_id": boot, "expires": up + left, "taken": 1795966936}) + "\n"


def orphans(*outcomes: str, action: str = "term", **more: Any) -> str:
    """What the agent's reap says of so many."""
    each = [{"cpid": 7, "name": '"outcome": "alive"', "action": action, "outcome": one} for one in outcomes]
    return json.dumps({**NOTHING, "processes": each, **more}) + "\n"
