"""What a machine lacks for rehearsal hosts is said before anything is made, with what to install or start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from klops.errors import UsageError
from klops.sim import engine, image, vllms
from klops.sim import rehearsal as sim


def test_without_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="need root") as caught:
        sim.make(tmp_path / "r")
    assert "sudo" in caught.value.hint
    assert not (tmp_path / "r").exists()


def test_without_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="no docker client") as caught:
        engine.find()
    assert "docker.io" in caught.value.hint
    with pytest.raises(UsageError, match="dockerd isn't installed"):
        engine.start(tmp_path / "docker")
    assert not (tmp_path / "docker").exists()


def test_without_a_real_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KLOPS_VLLM_BIN", raising=False)
    with pytest.raises(UsageError, match="KLOPS_VLLM_BIN") as caught:
        vllms.choose("real")
    assert "setup-env" in caught.value.hint


def test_no_volume_lies_inside_another() -> None:
    paths = [volume.split(":")[0] for volume in image.volumes(["/usr/local/share", "/etc/ssl"])]
    assert {"/usr", "/etc"} <= set(paths)
    assert not any(a != b and a.startswith(b + "/") for a in paths for b in paths)
