"""Steps of ``klops.stack`` and ``klops.patch``: what the agent is asked, and what comes of its answers."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pytest

from klops.actions.base import Plan
from klops.actions.catalog import catalog
from klops.actions.own.patch.steps import ApplyPatch, RevertPatch
from klops.actions.own.patch.wanted import Kept, Wanted, sides
from klops.actions.own.stack.installing import InstallPackages
from klops.actions.own.telling import CHANGES
from klops.errors import AgentError, TaskFailed
from klops.inventory.settings import Settings
from klops.playbook.params import validate
from klops.secret import Secret
from klops.testing import reply

from .support import SETTINGS, Stage

DRIFT = (("vllm", "none", "0.19.0"),)
DIFF = """diff --git a/x.py b/x.py
--- a/x.py
+++ b/x.py
@@ -1,4 +1,3 @@ def f():
 one
-two
---- a line of dashes
+2
 three
\\ No newline at end of file
diff --git a/y.py b/y.py
--- a/y.py
+++ b/y.py
@@ -9 +9,2 @@
 nine
+ten
"""


def stage(**stack: Any) -> Stage:
    return Stage(settings=Settings.model_validate({**SETTINGS, "stack": stack}))


def done(answer: Mapping[str, Any], *lines: str) -> str:
    rows = [*({"line": line} for line in lines), {"done": answer}]
    return "".join(json.dumps(row) + "\n" for row in rows)


def asked(there: Stage) -> Any:
    (call,) = there.remote.log
    assert call.keep_stdin
    assert call.stdin.endswith(b"\n")
    return json.loads(call.stdin)


PACKAGES = {"vllm": "0.19.0", "torch": {"version": "2.5+cu1", "no_deps": True, "check_filename": False}}


def test_all_that_is_pinned_is_asked_for() -> None:
    there = stage(packages=PACKAGES, wheel_dir="/wheels", options=["--pre"], timeout=60)
    changed = [
        {"name": "vllm", "from": None, "to": "0.19.0", "asked": True},
        {"name": "numpy", "from": "1.26", "to": None, "asked": False},
    ]
    there.remote.on(" stack ", done({"changed": changed, "put_back": ["torch"]}, "Resolved 2 packages"))
    result = InstallPackages(there.settings, DRIFT).carry_out(there.ctx)
    assert there.remote.log[0].argv[-4:] == ("stack", "--while-stdin", "--root", "/k")
    assert asked(there) == {
        "install": [
            {"name": "vllm", "version": "0.19.0", "no_deps": False, "check_filename": True},
            {"name": "torch", "version": "2.5+cu1", "no_deps": True, "check_filename": False},
        ],
        "index_url": None,
        "wheel_dir": "/wheels",
        "options": ["--pre"],
        "timeout": 60,
        "run": "",
    }
    assert [change.what for change in result[CHANGES]] == [
        "vllm none -> 0.19.0",
        "numpy 1.26 -> none",
        "put torch back, which an earlier installation had left half changed",
    ]
    assert result["changed_packages"] == changed
    assert [one.message for one in there.progress] == ["Resolved 2 packages"]


def test_a_secret_index_goes_by_standard_input_only() -> None:
    index = Secret("https://me:s3cret@index.example/simple")
    there = stage(packages=PACKAGES, index_url=index)
    there.remote.on(" stack ", done({"changed": [], "put_back": []}))
    step = InstallPackages(there.settings, DRIFT)
    assert step.carry_out(there.ctx)[CHANGES] == ()
    assert asked(there)["index_url"] == "https://me:s3cret@index.example/simple"
    assert "s3cret" not in " ".join(there.remote.log[0].argv)
    assert "s3cret" not in repr(step)


def test_a_failed_installation_is_told_in_the_agents_words() -> None:
    there = stage(packages=PACKAGES)
    error = {"error": {"code": "stack-failed", "message": "no such version", "hint": "look"}}
    there.remote.on(" stack ", reply(json.dumps(error) + "\n", rc=1))
    with pytest.raises(AgentError, match=r"^no such version$") as caught:
        InstallPackages(there.settings, DRIFT).carry_out(there.ctx)
    assert (caught.value.code, caught.value.hint) == ("stack-failed", "look")


def test_a_patch_is_sent_with_its_digest() -> None:
    there = stage()
    answer = {"before": "b1", "after": "b2", "changed": True, "assumed": True, "offsets": [[2, -3]]}
    there.remote.on(" patch ", done(answer))
    step = ApplyPatch(
        there.settings, Wanted("x.py", "diff", "/p/x.diff", "true"), DIFF.encode(), "new", "x.py"
    )
    assert step.carry_out(there.ctx) == {
        "file": "x.py",
        "before": "b1",
        "after": "b2",
        CHANGES: (step.change(),),
    }
    assert asked(there) == {
        "file": "x.py",
        "run": "",
        "kind": "diff",
        "data": base64.b64encode(DIFF.encode()).decode(),
        "digest": hashlib.sha256(DIFF.encode()).hexdigest(),
        "test": "true",
        "timeout": 300.0,
    }
    assert there.warnings == [
        "x.py: no distribution tells its digest, so it was taken for pristine",
        "x.py: hunk 2 of the diff fits -3 lines away",
    ]


@pytest.mark.parametrize(
    ("said", "told"),
    [("hunk 1 (line 1) doesn't fit", "x.py: hunk 1 (line 1) doesn't fit"), ("x.py is away", "x.py is away")],
)
def test_a_patch_that_fails_names_its_file_once(said: str, told: str) -> None:
    there = stage()
    error = {"error": {"code": "patch-failed", "message": said, "hint": ""}}
    there.remote.on(" patch ", reply(json.dumps(error) + "\n", rc=1))
    with pytest.raises(AgentError) as caught:
        RevertPatch(there.settings, "x.py").carry_out(there.ctx)
    assert (caught.value.message, caught.value.code) == (told, "patch-failed")


def test_a_file_that_was_as_it_should_be_is_no_change() -> None:
    there = stage()
    there.remote.on(" patch ", done({"before": "b", "after": "b", "changed": False}))
    assert RevertPatch(there.settings, "x.py").carry_out(there.ctx)[CHANGES] == ()
    assert asked(there) == {"file": "x.py", "run": "", "revert": True}


def test_the_action_tells_of_each_file() -> None:
    there = stage()
    there.remote.on(" patch ", done({"before": "b1", "after": "b2", "changed": True}))
    ctx = there.ctx
    plan = Plan(steps=tuple(RevertPatch(there.settings, file) for file in ("x.py", "y.py")))
    result = catalog()["klops.patch"].apply(plan, ctx)
    assert [one["file"] for one in result["patches"]] == ["x.py", "y.py"]
    assert (result["changed"], len(ctx.done)) == (True, 2)


def test_a_diff_is_shown_as_what_it_changes() -> None:
    assert sides(DIFF.encode(), "x.py") == (
        "one\ntwo\n--- a line of dashes\nthree\n",
        "one\n2\nthree\n",
    )


def test_of_a_diff_of_several_files_that_of_the_file_is_shown() -> None:
    heads = [f"--- a/{name}.py\n+++ b/{name}.py\n@@ -1 +1 @@\n" for name in ("x", "y")]
    plain = f"{heads[0]}-a\n+b\n{heads[1]}-c\n+d\n"
    assert sides(plain.encode(), "y.py") == ("c\n", "d\n")
    assert sides(plain.encode(), "z.py") is None
    assert sides(b"no diff", "x.py") is None


def test_a_line_of_a_diff_is_what_a_file_has_as_one() -> None:
    diff = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n \x0cimport os\n-a = 'p\u2028q'\n+b\n"
    assert sides(diff.encode(), "x.py") == ("\x0cimport os\na = 'p\u2028q'\n", "\x0cimport os\nb\n")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"copy": "x"}, "write file, too"),
        ({"file": "a.py"}, "write copy, or diff"),
        ({"file": "a.py", "copy": "x", "diff": "y"}, "write copy, or diff"),
        ({"file": "a.py", "copy": "x", "state": "reverted"}, "copy and diff mean nothing here"),
    ],
)
def test_a_task_names_one_patch_whole(given: dict[str, Any], said: str) -> None:
    with pytest.raises(TaskFailed, match=said):
        validate(catalog()["klops.patch"], given)


@pytest.mark.parametrize("file", ["v/a.py", "/site/v/a.py", "/site/./v//a.py"])
def test_a_file_is_known_by_its_place_in_site_packages(file: str) -> None:
    assert Kept("/pristine", "/site", "h").within(file) == "v/a.py"
