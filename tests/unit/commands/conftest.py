"""Fixtures of these tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from klops.commands.hostpass import passscript
from tests.unit.commands.passes import CAN_RUN, CLEAN, DEAD, DOCKER, LIVES, SHELLS, Host


@pytest.fixture(params=SHELLS, ids=["dash", "bash", "busybox"])
def host(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """A host with a card's node and a container that runs."""
    if not CAN_RUN:
        pytest.skip("needs Linux, dash, bash and busybox")
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
    (fake / "inside").mkdir()
    for answers in (fake, fake / "inside"):
        (answers / "found").write_text(CLEAN)
        (answers / "reaped").write_text(CLEAN)
        (answers / "rc").write_text("0")
    there = Host(request.param, root, fake)
    there.node.touch()
    there.container("running")
    yield there
    for process in there.running:
        if process.poll() is None:
            process.kill()
        with process:  # closes its pipes
            pass
