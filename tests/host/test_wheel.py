"""The wheel, installed into an empty environment and run from another folder."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.host
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)],
        check=True,
        capture_output=True,
    )
    return next(out.glob("*.whl"))


def test_the_wheel_carries_playbooks_and_templates(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for kind in ("playbooks", "templates"):
        expected = {f"klops/shipped/{kind}/{p.name}" for p in (ROOT / kind).iterdir() if p.is_file()}
        assert expected
        assert expected <= set(names)


@pytest.mark.long
def test_the_whole_story_from_the_wheel_in_another_folder(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run(
        [str(python), "-m", "pip", "install", "--quiet", str(wheel)], check=True, capture_output=True
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(
        [str(python.parent / "klops"), "demo", "--transport", "local"],
        cwd=elsewhere,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert list(elsewhere.iterdir()) == []
