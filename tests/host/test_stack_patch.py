"""Pinned packages from a folder of wheels, and patched files, in a container's own Python."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.host import sources
from tests.host.sources import VENV, Ground, put
from tests.host.support import Done, klops
from tests.rehearsals import MakeRehearsal
from tests.unit.agent.packages import wheels

pytestmark = [pytest.mark.host, pytest.mark.timeout(400)]

OPS, OLD, NEW = "kunlun_ops", "3.0.0+b2cde523", "3.1.0+f00dcafe"
BUILT = "0.0.0+torch25"
PRISTINE = "def load():\n    return 'slow'\n\n\ndef free():\n    pass\n"
PATCHED = PRISTINE.replace("'slow'", "'fast'")
TASKS = "[{klops.stack: {}}, {klops.patch: {}}]"


def module(version: str, text: str = PRISTINE) -> dict[str, str]:
    return {f"{OPS}/__init__.py": f"VERSION = {version!r}\n", f"{OPS}/loader.py": text}


@pytest.fixture(scope="module")
def ground(make_rehearsal: MakeRehearsal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A host whose container has the old version, and wheels of others."""
    with sources.ground(make_rehearsal, tmp_path_factory.mktemp("source")) as made:
        put(made.site, OPS, OLD, module(OLD))
        place = made.venv / "wheels"
        wheels.wheel(place, OPS, NEW, module(NEW), requires=["kunlun_torch"])
        wheels.wheel(place, "kunlun_torch", "2.5.1", {"kunlun_torch.py": ""})
        # as the vendor's are: the name of the file isn't what is in it
        odd = place / "kunlun_attn-0.0.0-py3-none-any.whl"
        wheels.called(odd, "kunlun_attn", BUILT, {"kunlun_attn.py": ""}, requires=["not-to-be-had"])
        made.settings({"source": None, "stack": {"wheel_dir": f"{VENV}/wheels", "packages": {OPS: NEW}}})
        made.container()
        yield made


def play(ground: Ground, tasks: str = TASKS, *options: str, rc: int = 0) -> dict[str, Any]:
    """The results of a play's tasks, by action."""
    book = ground.folder / "play.yml"
    book.write_text(f"[{{hosts: all, gather_facts: false, tasks: {tasks}}}]")
    done = _run(ground, book, *options)
    assert done.rc == rc, done.stdout + done.stderr
    return {
        task["action"]: task["hosts"][ground.host.name]
        for task in done.json["plays"][0]["tasks"]
        if ground.host.name in task["hosts"]
    }


def _run(ground: Ground, book: Path, *options: str) -> Done:
    return klops("play", str(book), "-i", str(ground.rehearsal.inventory), "-o", "json", *options)


def said(result: Mapping[str, Any]) -> str:
    return "\n".join([*(one["what"] for one in result["changes"]), result["message"]])


def versions(ground: Ground) -> dict[str, str]:
    """What the container's Python says is installed."""
    code = "import importlib.metadata as m; import json; "
    code += "print(json.dumps({d.metadata['Name']: d.version for d in m.distributions()}))"
    found: dict[str, str] = json.loads(ground.python(code))
    return found


def everything(ground: Ground) -> dict[str, bytes]:
    """All of site-packages but what Python compiled."""
    top = ground.site
    return {
        str(path.relative_to(top)): path.read_bytes()
        for path in sorted(top.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# One story, in this order.


def test_drift_is_shown_and_nothing_changed(ground: Ground) -> None:
    before = everything(ground)
    found = play(ground, TASKS, "--check", "--diff")
    assert f"{OPS} {OLD} -> {NEW}" in said(found["klops.stack"])
    assert found["klops.patch"]["status"] == "skipped"
    assert everything(ground) == before


def test_what_is_pinned_is_installed_offline_and_once(ground: Ground) -> None:
    pins = {OPS: NEW, "kunlun_attn": {"version": BUILT, "no_deps": True, "check_filename": False}}
    ground.settings({"stack": {"packages": pins}})
    ground.object("up")
    found = versions(ground)
    assert (found[OPS], found["kunlun_attn"], found["kunlun_torch"]) == (NEW, BUILT, "2.5.1")
    assert ground.python(f"import {OPS}; print({OPS}.VERSION)") == NEW
    again = play(ground)["klops.stack"]
    assert (again["status"], again["changes"]) == ("ok", [])


def test_what_cannot_be_had_leaves_all_as_it_was(ground: Ground) -> None:
    before = everything(ground)
    ground.settings({"stack": {"packages": {OPS: "9.9"}}})
    failed = play(ground, rc=1)["klops.stack"]
    assert failed["status"] == "failed"
    assert "9.9" in failed["message"]
    assert everything(ground) == before
    ground.settings({"stack": {"packages": {OPS: NEW}}})


def test_a_patch_is_applied_tested_and_applied_once(ground: Ground) -> None:
    patch = ground.folder / "loader.diff"
    lines = difflib.unified_diff(
        PRISTINE.splitlines(keepends=True),
        PATCHED.splitlines(keepends=True),
        f"a/{OPS}/loader.py",
        f"b/{OPS}/loader.py",
    )
    patch.write_text("".join(lines))
    copy = ground.folder / "init.py"
    copy.write_text(f"VERSION = {NEW!r}  # ours\n")
    test = f"python -c 'from {OPS} import loader; assert loader.load() == \"fast\"'"
    patches = [
        {"file": f"{OPS}/loader.py", "diff": str(patch), "test": test},
        {"file": f"{OPS}/__init__.py", "copy": str(copy)},
    ]
    ground.settings({"stack": {"patches": patches}})
    found = ground.run("up")
    assert ground.python(f"from {OPS} import loader; print(loader.load())") == "fast"
    assert (ground.site / OPS / "__init__.py").read_text().endswith("# ours\n")
    assert (ground.host.root / "pristine" / sha256(PRISTINE)).read_text() == PRISTINE
    assert f"{OPS}/loader.py" in found.stdout
    again = play(ground)["klops.patch"]
    assert (again["status"], again["changes"]) == ("ok", [])


def test_a_patched_file_that_was_changed_by_hand_is_refused(ground: Ground) -> None:
    path = ground.site / OPS / "loader.py"
    by_hand = PATCHED + "# by hand\n"
    path.write_text(by_hand)
    failed = play(ground, rc=1)["klops.patch"]
    for text in (by_hand, PRISTINE, PATCHED):
        assert sha256(text) in failed["message"]
    assert path.read_text() == by_hand
    path.write_text(PATCHED)
    assert play(ground)["klops.patch"]["status"] == "ok"


def test_a_patch_whose_test_fails_is_taken_back(ground: Ground) -> None:
    before = everything(ground)
    copy = ground.folder / "slower.py"
    copy.write_text("def load():\n    return 'slower'\n")
    task = f"{{klops.patch: {{file: {OPS}/loader.py, copy: {copy}, test: 'echo it is slower; exit 3'}}}}"
    failed = play(ground, f"[{task}]", rc=1)["klops.patch"]
    assert "ended with 3: it is slower" in failed["message"]
    assert everything(ground) == before


def test_rollback_undoes_packages_and_patches_as_one(ground: Ground) -> None:
    generations = ground.object("releases")["generations"]
    assert [set(one["patches"]) for one in generations] == [{f"{OPS}/loader.py", f"{OPS}/__init__.py"}, set()]
    ground.object("rollback")
    assert (ground.site / OPS / "loader.py").read_text() == PRISTINE
    assert ground.python(f"from {OPS} import loader; print(loader.load())") == "slow"
    assert versions(ground)[OPS] == NEW
    ground.object("rollback", "--to", str(generations[0]["number"]))
    assert (ground.site / OPS / "loader.py").read_text() == PATCHED


def test_patches_are_taken_back_once(ground: Ground) -> None:
    revert = "[{klops.patch: {state: reverted}}]"
    assert play(ground, revert)["klops.patch"]["status"] == "changed"
    assert (ground.site / OPS / "loader.py").read_text() == PRISTINE
    assert (ground.site / OPS / "__init__.py").read_text() == f"VERSION = {NEW!r}\n"
    assert play(ground, revert)["klops.patch"]["status"] == "ok"
