"""A host to run commands on: this machine, without ssh, and a stand-in for the docker client."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog

import klops
from klops.cli.main import run
from klops.commands.containerspec import MANAGED_LABEL
from klops.remote import agentpackage

#: where this klops is imported from, installed or not
CHECKOUT = Path(klops.__file__).parent.parent
MANAGED = {MANAGED_LABEL: "1"}
#: what, with these labels, tells a container of klops' making from one of an image that has them
MADE = {"HostConfig": {"LogConfig": {"Config": {"labels": MANAGED_LABEL}}}}
KEY = "S3cr3t-é\"$x y'z"
#: `exec` runs the command right here, so "inside the container" is this machine too
DOCKER = """#!/bin/sh
while [ "$1" = -H ]; do shift 2; done
case $1 in
inspect)
    [ -e {state} ] || {{ echo "Error: No such container: klops" >&2; exit 1; }}
    for word in "$@"; do
        if [ "$word" = '{{{{.Id}}}}' ]; then echo 0123456789ab; exit; fi
    done
    cat {state} ;;
exec)
    [ -e {state} ] || {{ echo "Error: No such container: klops" >&2; exit 1; }}
    grep -q running {state} || {{ echo "Error: Container klops is not running" >&2; exit 1; }}
    shift
    while [ "$1" = -i ] || [ "$1" = -it ]; do shift; done
    shift
    exec "$@" ;;
*)
    echo "the stand-in does not know docker $1" >&2; exit 64 ;;
esac
"""


@dataclass
class LocalHost:
    """``home`` holds everything; ``klops(...)`` runs one command line and returns its exit status."""

    home: Path
    capfd: pytest.CaptureFixture[str]

    @property
    def root(self) -> Path:
        return self.home / "root"

    def klops(self, *argv: str) -> tuple[int, str, str]:
        """Exit status, standard output, standard error."""
        split = argv.index("--") if "--" in argv else len(argv)
        rc = run([*argv[:split], "-i", str(self.home / "hosts.yml"), *argv[split:]])
        out, err = self.capfd.readouterr()
        return rc, out, err

    def json(self, *argv: str) -> tuple[int, Any]:
        """Exit status and the JSON document, which must be alone on standard output."""
        rc, out, _ = self.klops(argv[0], *argv[1:], "-o", "json")
        return rc, json.loads(out)

    def container(self, state: str = "running", *, labels: Mapping[str, str] = MANAGED) -> None:
        """Let there be a container in this state, of klops' making unless ``labels`` say otherwise."""
        config = {"Image": "i", "Labels": dict(labels)}
        found = [
            {**MADE, "Id": "0123456789ab", "Name": "/klops", "State": {"Status": state}, "Config": config}
        ]
        (self.home / "state.json").write_text(json.dumps(found), "utf-8")

    def agent(self) -> None:
        """Put the real agent where klops looks for it."""
        package = agentpackage.build()
        folder = self.root / "agent"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{package.digest}.pyz").write_bytes(package.data)
        (folder / "current").symlink_to(f"{package.digest}.pyz")


@pytest.fixture
def host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[LocalHost]:
    folder = tmp_path / "bin"
    folder.mkdir()
    docker = folder / "docker"
    docker.write_text(DOCKER.format(state=tmp_path / "state.json"), "utf-8")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("TINY_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    inventory = {
        "all": {
            "hosts": {"here": {"ansible_connection": "local"}},
            "vars": {
                "klops": {
                    "root": str(tmp_path / "root"),
                    "container": {"python": shutil.which("python3") or sys.executable},
                    "services": {"tiny": {"model": "/model", "api_key": {"env": "TINY_KEY"}}},
                }
            },
        }
    }
    # JSON is YAML
    (tmp_path / "hosts.yml").write_text(json.dumps(inventory), "utf-8")
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield LocalHost(tmp_path, capfd)
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
