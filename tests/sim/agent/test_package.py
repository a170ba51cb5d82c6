"""The package: the same bytes everywhere, run by every Python that images have, leaving nothing behind."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import klops
from klops.commands import agent as commands
from klops.remote import agentpackage
from klops.remote.containerreads import AgentRead
from tests.sim.agent.site import Site


def interpreters() -> list[str]:
    """This interpreter, and others from 3.8 on that this machine has."""
    found = [sys.executable]
    for minor in range(8, 15):
        installed = sorted((Path.home() / ".pyenv" / "versions").glob(f"3.{minor}.*/bin/python"))
        path = str(installed[-1]) if installed else shutil.which(f"python3.{minor}") or ""
        if path and minor != sys.version_info[1]:
            found.append(path)
    return found


def test_two_builds_are_the_same_whatever_the_checkout_looks_like(tmp_path: Path) -> None:
    first = agentpackage.build()
    copy = tmp_path / "klops"
    old = os.umask(0o077)
    try:
        shutil.copytree(Path(klops.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
        for path in copy.rglob("*.py"):
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
            os.utime(path, (1e9, 1e9))
        (copy / "agent" / "__pycache__").mkdir()
        (copy / "agent" / "__pycache__" / "main.cpython-311.pyc").touch()
    finally:
        os.umask(old)
    second = agentpackage.pack(agentpackage.sources(copy))
    assert second == first
    assert first.sha256.startswith(first.digest)
    (copy / "agent" / "main.py").write_text("# another\n")
    assert agentpackage.pack(agentpackage.sources(copy)).digest != first.digest


def test_the_agent_needs_nothing_but_itself_and_the_standard_library() -> None:
    for name, text in agentpackage.sources(Path(klops.__file__).parent).items():
        modules = re.findall(rb"^\s*(?:from|import) (klops[\w.]*)", text, re.MULTILINE)
        allowed = [
            m for m in modules if m.startswith((b"klops.agent", b"klops.cards", b"klops.source.manifest"))
        ]
        assert modules == allowed, name


#: this one and the oldest; the others have make test-long
_PYTHONS = [
    pytest.param(
        path,
        id=path.split("/")[-3] if "/" in path else path,
        marks=[] if place < 2 else [pytest.mark.long],
    )
    for place, path in enumerate(interpreters())
]


@pytest.mark.parametrize("python", _PYTHONS)
def test_every_python_runs_it(site: Site, python: str) -> None:
    site.python = python
    package = os.path.realpath(site.root / "agent" / "current")
    for _ in range(2):  # from source, then from compiled modules
        status = site.verb("status")
        assert status["agent"] == agentpackage.build().digest
        assert (status["units"], status["supervisor"]) == ({}, None)
        listed = {row["cpid"] for row in site.verb("ps")["processes"]}
        assert os.getpid() in listed
        subprocess.run([python, "-I", "-S", package, "compile"], check=True)
    assert len(list((site.root / "agent").glob("*.cache-cpython-*"))) == 1


def snapshot(root: Path) -> dict[str, tuple[int, int]]:
    """Everything below a folder, with size and time of change."""
    return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in root.rglob("*")}


@pytest.mark.parametrize("python", _PYTHONS)
def test_several_read_verbs_in_one_start(site: Site, python: str) -> None:
    site.python = python
    before = snapshot(site.root)
    root = ["--root", str(site.root)]
    asked = [["status", *root], ["releases", *root], ["packages", "--names", "no JSON", *root], ["about"]]
    done = subprocess.run(
        site.command("several", "--asked", json.dumps(asked)), capture_output=True, env=site.env, check=False
    )
    answers = json.loads(done.stdout)
    assert (done.returncode, done.stderr, len(answers)) == (0, b"", len(asked))
    for argv, (status, out, errors) in zip(asked, answers, strict=True):
        alone = site.verb(argv[0], *argv[1:-2])
        assert (status, errors) == (2 if "error" in alone else 0, "")
        assert json.loads(out).keys() == alone.keys()
    assert answers[2][0] == 2
    assert snapshot(site.root) == before


@pytest.mark.parametrize(
    "asked", ["no JSON", '[["status", "--root", "/k"], ["start", "x", "--root", "/k"]]', '[["several"]]']
)
def test_several_are_verbs_that_only_read(site: Site, asked: str) -> None:
    assert site.verb("several", "--asked", asked)["error"]["code"] == "usage"


@pytest.mark.parametrize("verb", ["status", "ps", "holders", "about"])
def test_read_verbs_write_nothing(site: Site, verb: str) -> None:
    before = snapshot(site.root)
    site.verb(verb)
    assert snapshot(site.root) == before


def test_it_runs_as_the_probe_sends_it(site: Site, tmp_path: Path) -> None:
    # stands for `docker exec CONTAINER`: runs what follows
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\nwhile [ "$1" != box ]; do shift; done\nshift\nexec "$@"\n')
    docker.chmod(0o755)
    before = snapshot(site.root)
    read = AgentRead(
        "agent",
        docker=(str(docker),),
        container="box",
        python=sys.executable,
        agent=commands.agent_path(str(site.root)),
        verb="status",
        args=("--root", str(site.root)),
    )
    done = subprocess.run(["sh", "-c", read.script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert json.loads(done.stdout)["agent"] == agentpackage.build().digest
    assert snapshot(site.root) == before


def test_command_lines() -> None:
    assert shlex.join(
        commands.verb(["docker"], "box", "python3", "/r", "wait", "llm", "--timeout", "5", stdin=True)
    ) == ("docker exec -i box python3 -I -S -B /r/agent/current wait llm --timeout 5 --root /r")
    assert shlex.join(commands.hold("python3", "/r")) == "python3 -I -S /r/agent/current hold --root /r"
    assert shlex.join(commands.hold("python3", "/r", beside=True)) == (
        "python3 -I -S -B /r/agent/current hold --beside --root /r"
    )


@pytest.mark.parametrize(
    "argv",
    [
        ["status"],
        ["status", "x", "--root", "/r"],
        ["stop", "--root", "/r"],
        ["status", "--root", "r"],
        ["wait", "a", "--timeout"],
    ],
)
def test_wrong_usage_is_an_error_object(site: Site, argv: list[str]) -> None:
    command = [*site.command("x")[:4], *argv]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert set(json.loads(done.stdout)["error"]) == {"code", "message", "hint"}
