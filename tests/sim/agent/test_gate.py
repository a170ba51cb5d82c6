"""The gate opens only for whole instructions."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.sim.agent.site import Site


def told(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    """Instructions to a program that shows what it was given."""
    show = f"umask > {tmp_path}/shown; env >> {tmp_path}/shown; ps -o sid= -p $$ >> {tmp_path}/shown; cat"
    base: dict[str, Any] = {
        "argv": ["sh", "-c", show],
        "env": {"FROM_SPEC": "1", "BOTH": "spec", "XPU_VISIBLE_DEVICES": "7"},
        "env_script": None,
        "select": {"XPU_VISIBLE_DEVICES": "2,3", "CUDA_VISIBLE_DEVICES": None},
        "release": None,
        "secrets": {"VLLM_API_KEY": "a b$c'"},
        "umask": 0o022,
        "header": "llm generation 1",
    }
    return {**base, **changes}


def gate(site: Site, given: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run a gate; its standard input is closed after what is given."""
    env = {**site.env, "CUDA_VISIBLE_DEVICES": "0", "BOTH": "supervisor"}
    argv = [site.python, "-I", "-S", str(site.root / "agent" / "current"), "gate"]
    return subprocess.run(argv, input=given, env=env, capture_output=True, timeout=30, check=False)


def test_a_gate_becomes_the_program(site: Site, tmp_path: Path) -> None:
    script = tmp_path / "env.sh"
    script.write_text("BOTH=script\nXPU_VISIBLE_DEVICES=0,1,2,3\n")
    done = gate(site, json.dumps(told(tmp_path, env_script=str(script))).encode() + b"\n")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"klops' choice wins: 2,3" in done.stdout
    assert b"a b$c" not in done.stdout
    shown = (tmp_path / "shown").read_text().splitlines()
    assert shown[0] == "0022"
    env = dict(line.split("=", 1) for line in shown[1:-1])
    assert {k: env.get(k) for k in ("FROM_SPEC", "BOTH", "XPU_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")} == {
        "FROM_SPEC": "1",
        "BOTH": "script",
        "XPU_VISIBLE_DEVICES": "2,3",
        "CUDA_VISIBLE_DEVICES": None,
    }
    assert env["VLLM_API_KEY"] == "a b$c'"
    assert env["IN_SUPERVISOR"] == "yes"
    assert int(shown[-1]) != os.getsid(0)


@pytest.mark.parametrize("cut", [0, 40, -1])
def test_a_supervisor_killed_before_its_instructions_are_whole_leaves_no_server(
    site: Site, tmp_path: Path, cut: int
) -> None:
    line = json.dumps(told(tmp_path)).encode() + b"\n"
    done = gate(site, line[:cut])
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not (tmp_path / "shown").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"argv": ["no-such-program"]}, "no-such-program is neither beside"),
        ({"argv": ["/etc/passwd"]}, "can't run /etc/passwd: Permission denied"),
        ({"env_script": "/no/such.sh"}, "env_script /no/such.sh: No such file"),
    ],
)
def test_what_cant_be_started_is_said_in_the_log(
    site: Site, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    done = gate(site, json.dumps(told(tmp_path, **changes)).encode() + b"\n")
    assert done.returncode == 78
    assert message in done.stdout.decode()
    assert not (tmp_path / "shown").exists()
