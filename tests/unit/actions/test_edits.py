"""Edits of text files: what lineinfile and blockinfile make of them, compared with what Ansible makes.

``edits/MODULE.yml`` holds files and parameters, ``edits/MODULE.json`` what ansible-core 2.19 made of them
(once, and when the task was run again): it was recorded by :func:`ansible`, and is compared again wherever
Ansible is installed. A case that is different on purpose says so.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped,unused-ignore]  # no stubs here

from klops.actions.base import Action, Context, Seen, View
from klops.actions.files.blockinfile import BlockInFile
from klops.actions.files.lineinfile import LineInFile
from klops.errors import TaskFailed
from klops.inventory.settings import Settings
from klops.playbook.params import validate
from klops.remote.local import LocalRemote

HERE = Path(__file__).parent / "edits"
MODULES: Mapping[str, Action[Any]] = {"lineinfile": LineInFile(), "blockinfile": BlockInFile()}


def given(module: str) -> list[dict[str, Any]]:
    """The cases of a module."""
    cases: list[dict[str, Any]] = yaml.safe_load((HERE / f"{module}.yml").read_text("utf-8"))
    return cases


def prepare(folder: Path, cases: list[dict[str, Any]]) -> list[Path]:
    """The files that the cases begin with."""
    paths = [folder / f"f{number}" for number in range(len(cases))]
    for path, case in zip(paths, cases, strict=True):
        if case["file"] is not None:
            path.write_bytes(case["file"].encode("latin-1"))
    return paths


def after(path: Path) -> str | None:
    """Content as the data files have it."""
    return path.read_bytes().decode("latin-1") if path.exists() else None


def registered(values: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """What is compared of the values that a task registers."""
    kept = {key: values[key] for key in ("found", "msg") if key in values}
    return {**kept, "msg": kept["msg"].replace(str(path), "PATH")}


def ansible(module: str, folder: Path) -> list[dict[str, Any]]:
    """What Ansible makes of the cases, in one run of a playbook."""
    cases = given(module)
    paths = prepare(folder, cases)
    tasks: list[dict[str, Any]] = []
    for number, (path, case) in enumerate(zip(paths, cases, strict=True)):
        for turn in ("once", "again"):
            task = {module: {"path": str(path), **case["params"]}, "register": f"{turn}{number}"}
            tasks.append({**task, "ignore_errors": True})
    names = [[f"once{number}", f"again{number}"] for number in range(len(cases))]
    expression = ", ".join(f"[{one}, {other}]" for one, other in names)
    out = folder / "results.json"
    tasks.append({"copy": {"content": "{{ [" + expression + "] | to_json }}", "dest": str(out)}})
    book = folder / "play.yml"
    book.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    program = Path(sys.executable).with_name("ansible-playbook")
    here = ["-i", "h1,", "-c", "local", "-e", f"ansible_python_interpreter={sys.executable}"]
    env = {**os.environ, "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"), "LC_ALL": "C.UTF-8"}
    subprocess.run([str(program), *here, str(book)], check=True, capture_output=True, env=env, cwd=folder)
    found = []
    for path, (once, again) in zip(paths, json.loads(out.read_text()), strict=True):
        values = registered(once, path)
        status = {"failed": once["failed"], "changed": once["changed"], "again": again["changed"]}
        found.append({"after": after(path), **status, **values})
    return found


def klops(action: Action[Any], path: Path, params: Mapping[str, Any]) -> dict[str, Any]:
    """What klops makes of one case: the status, and what is registered."""
    remote = LocalRemote("h1")
    view = View("h1", Settings(), {}, str)
    typed = validate(action, {"path": str(path), **params})
    found: dict[str, Any] = {}
    for turn in ("once", "again"):
        seen = Seen(remote.read(action.probe(typed, view).reads))
        try:
            plan = action.plan(typed, view, seen)
        except TaskFailed as error:
            failed = {"failed": True, "changed": False, "again": False}
            return {**failed, **registered({"msg": error.message}, path)}
        added = action.apply(plan, Context(remote, view, lambda now: None, lambda text: None))
        if turn == "once":
            found = registered({**plan.result, **added}, path)
            found |= {"failed": False, "changed": bool(plan.changes)}
        found["again"] = bool(plan.changes)
    return found


def numbered(module: str) -> list[tuple[str, int]]:
    return [(module, number) for number in range(len(given(module)))]


@pytest.mark.parametrize(("module", "number"), [*numbered("lineinfile"), *numbered("blockinfile")])
def test_an_edit_gives_what_ansible_gives(module: str, number: int, tmp_path: Path) -> None:
    case = given(module)[number]
    recorded = json.loads((HERE / f"{module}.json").read_text("utf-8"))[number]
    (path,) = prepare(tmp_path, [case])
    made = {"after": None, **klops(MODULES[module], path, case["params"])}
    made["after"] = after(path)
    if case.get("different"):
        assert made != recorded
        assert made["again"] is False
    else:
        assert made == recorded


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("ansible") is None, reason="needs ansible-core")
@pytest.mark.parametrize("module", MODULES)
def test_the_record_is_what_ansible_does(module: str, tmp_path: Path) -> None:
    assert ansible(module, tmp_path) == json.loads((HERE / f"{module}.json").read_text("utf-8"))


def test_an_edit_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "y").write_text("a\n")
    (tmp_path / "x").symlink_to("y")
    klops(MODULES["lineinfile"], tmp_path / "x", {"line": "b", "backup": True})
    assert (tmp_path / "x").is_symlink()
    assert (tmp_path / "y").read_text() == "a\nb\n"
    (backup,) = tmp_path.glob("x.*~")
    assert backup.read_text() == "a\n"
