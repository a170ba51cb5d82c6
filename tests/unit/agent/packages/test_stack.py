"""Pinned versions installed by the real uv from a folder of wheels, and everything put back when that
fails."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from klops.agent import store
from klops.agent.packages import places
from tests.unit.agent.packages import wheels
from tests.unit.agent.packages.world import World, patch_request, sha256
from tests.waiting import until

ALPHA_1, ALPHA_2 = {"name": "alpha", "version": "1.0"}, {"name": "alpha", "version": "2.0"}


@pytest.fixture
def stocked(with_uv: World) -> World:
    """Two versions each of alpha, which needs beta, and of beta."""
    for version in ("1.0", "2.0"):
        number = version[0]
        files = {
            "alpha/__init__.py": f"V = {number}\n",
            f"alpha/only{number}.py": "",
            "alpha/core.py": "C = 1\n",
        }
        wheels.wheel(
            with_uv.wheels,
            "alpha",
            version,
            files,
            requires=[f"beta=={version}"],
            scripts=[f"alpha{number} = alpha:main"],
        )
        wheels.wheel(with_uv.wheels, "beta", version, {"beta/__init__.py": f"V = {number}\n"})
    return with_uv


def rows(answer: Any) -> list[tuple[Any, ...]]:
    return [tuple(row[key] for key in ("name", "from", "to", "asked")) for row in answer.done["changed"]]


def versions(world: World) -> dict[str, Any]:
    found = world.packages(["alpha", "beta", "coco"])["installed"]
    return {name: one["version"] if one else None for name, one in found.items()}


def test_installed_once(stocked: World) -> None:
    first = stocked.stack(ALPHA_1)
    assert rows(first) == [("alpha", None, "1.0", True), ("beta", None, "1.0", False)]
    assert any("alpha==1.0" in line for line in first.lines)
    assert (stocked.bin / "alpha1").exists()
    stocked.uv_is("echo never >&2; exit 9")
    assert rows(stocked.stack({"name": "Alpha", "version": "1.0.0"})) == []


def test_what_changed_is_noted_and_saved(stocked: World) -> None:
    stocked.stack(ALPHA_1)
    first = {name: stocked.identity(name) for name in ("alpha", "beta")}
    assert rows(stocked.stack(ALPHA_2)) == [("alpha", "1.0", "2.0", True), ("beta", "1.0", "2.0", False)]
    second = {name: stocked.identity(name) for name in ("alpha", "beta")}
    notes = json.loads((stocked.root / "stack/stack.json").read_text())
    assert notes["distributions"] == second
    assert notes["original"] == {"alpha": None, "beta": None}
    saved = stocked.packages()["saved"]
    assert [(one["name"], {key: one[key] for key in ("version", "record")}) for one in saved] == list(
        first.items()
    )
    assert stocked.litter() == []


def test_without_dependencies(stocked: World) -> None:
    assert rows(stocked.stack({**ALPHA_2, "no_deps": True})) == [("alpha", None, "2.0", True)]


def test_pins_of_both_kinds_at_once(stocked: World) -> None:
    asked: list[dict[str, Any]] = [{"name": "beta", "version": "1.0", "no_deps": True}, dict(ALPHA_2)]
    answer = stocked.stack(*asked)
    assert rows(answer) == [("alpha", None, "2.0", True), ("beta", None, "1.0", True)]
    stocked.uv_is("exit 9")
    assert rows(stocked.stack(*asked)) == []


def test_a_wheel_whose_name_lacks_the_local_part(stocked: World) -> None:
    """As cocopod's: its name says 0.0.0, its metadata 0.0.0+torch25."""
    place = stocked.wheels / "coco-0.0.0-py3-none-any.whl"
    wheels.called(place, "coco", "0.0.0+torch25", {"coco/__init__.py": ""})
    asked = {"name": "coco", "version": "0.0.0+torch25"}
    assert stocked.stack(asked).failed == "stack-failed"
    answer = stocked.stack({**asked, "check_filename": False})
    assert rows(answer) == [("coco", None, "0.0.0+torch25", True)]
    stocked.uv_is("exit 9")
    assert rows(stocked.stack({**asked, "check_filename": False})) == []


def test_another_local_part_is_another_version(stocked: World) -> None:
    wheels.wheel(stocked.wheels, "coco", "1.0", {"coco/__init__.py": "L = ''\n"})
    stocked.put("coco", "1.0+old", {"coco/__init__.py": "L = 'old'\n"})
    assert rows(stocked.stack({"name": "coco", "version": "1.0"})) == [("coco", "1.0+old", "1.0", True)]


def test_metadata_that_says_another_version(stocked: World) -> None:
    wheels.wheel(stocked.wheels, "coco", "1.0+cu128", {"coco/__init__.py": ""})
    stocked.stack(ALPHA_1)
    before = stocked.tree()
    refused = stocked.stack({"name": "coco", "version": "1.0"}, ALPHA_2)
    assert refused.failed == "stack-unmet"
    assert "coco 1.0 (metadata says 1.0+cu128)" in refused.error["message"]
    assert stocked.tree() == before
    assert stocked.litter() == []


def test_a_version_that_is_nowhere(stocked: World) -> None:
    stocked.stack(ALPHA_1)
    before = stocked.tree()
    refused = stocked.stack({"name": "alpha", "version": "9.9"}, {"name": "beta", "version": "1.0"})
    assert refused.failed == "stack-failed"
    assert "alpha==9.9" in refused.error["message"]
    assert "Using Python" not in refused.error["message"]
    assert stocked.tree() == before


def test_no_uv(world: World) -> None:
    refused = world.stack(ALPHA_1)
    assert refused.failed == "uv-missing"
    assert str(world.python) in refused.error["message"]


def test_uv_where_its_installer_puts_it(stocked: World) -> None:
    place = stocked.home / ".local/bin/uv"
    place.parent.mkdir(parents=True)
    shutil.move(stocked.bin / "uv", place)
    assert stocked.packages()["uv"] == str(place)
    assert len(rows(stocked.stack(ALPHA_1))) == 2


#: Half of an installation: the old one's files and metadata are partly gone, new ones partly there.
HALF = """
case "$*" in *--dry-run*) exec $UV "$@";; esac
cd {site} && rm -r alpha/__init__.py alpha/only1.py alpha-1.0.dist-info/METADATA
mkdir -p alpha/deep alpha-2.0.dist-info
echo new > alpha/only2.py; echo new > alpha/deep/er.py; echo new > other.py
echo x > alpha-2.0.dist-info/INSTALLER; printf 'alpha\\nother\\n' > alpha-2.0.dist-info/top_level.txt
printf '#!{python}\\nimport sys\\nfrom alpha import main\\n' > {bin}/alpha2
"""


def half(world: World) -> str:
    return HALF.format(site=world.site, python=world.python, bin=world.bin)


def test_uv_that_fails_half_way(stocked: World) -> None:
    """All is put back: what was there, with a patch of it and a change by hand; what came goes."""
    for asked in (ALPHA_1, ALPHA_2, ALPHA_1):  # the first is saved already, without what follows
        stocked.stack(asked)
    assert stocked.run("patch", patch_request("alpha/core.py", "C = 2\n")).code == 0
    (stocked.site / "alpha/only1.py").write_text("by = 'hand'\n")
    (stocked.site / "colleague.py").write_text("")
    before = stocked.tree()
    stocked.uv_is(half(stocked) + "\necho 'error: No space left' >&2; exit 2\n")
    before["bin/uv"] = stocked.tree()["bin/uv"]
    refused = stocked.stack(ALPHA_2)
    assert refused.failed == "stack-failed"
    assert "No space left" in refused.error["message"]
    assert stocked.tree() == before
    assert stocked.text("alpha/core.py") == "C = 2\n"
    assert versions(stocked)["alpha"] == "1.0"
    assert stocked.litter() == []
    assert not stocked.run("patch", patch_request("alpha/core.py", "C = 2\n")).done["changed"]


def test_what_others_put_there_meanwhile_stays(stocked: World) -> None:
    """A colleague by hand, and a server that runs and notes what it has measured."""
    stocked.put("gamma", "1.0", {"gamma/__init__.py": ""})
    stocked.stack(ALPHA_1)
    before = stocked.tree()
    theirs = "mkdir gamma/configs; echo {} > gamma/configs/tuned.json; echo x > my_fix.pth; echo > hers.py\n"
    program = f"printf '#!{stocked.python}\\nimport gamma\\n' > {stocked.bin}/hers\n"
    stocked.uv_is(half(stocked) + theirs + program + "exit 2\n")
    assert stocked.stack(ALPHA_2).failed == "stack-failed"
    added = {path.rpartition("site-packages/")[2] for path in {*stocked.tree()} - {*before}}
    assert added == {"gamma/configs", "gamma/configs/tuned.json", "my_fix.pth", "hers.py", "bin/hers"}
    assert versions(stocked)["alpha"] == "1.0"


def test_killed_half_way(stocked: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGKILL of the agent while uv works: uv dies with it, the next run puts back first, then installs."""
    stocked.stack(ALPHA_1)
    before = stocked.tree()
    mark = stocked.base / "mark"
    stocked.uv_is(half(stocked) + f"\necho $$ > {mark}.new; mv {mark}.new {mark}; exec sleep 600\n")
    with started(stocked, ALPHA_2) as agent:
        until(mark.exists, what="uv is at work")
        with monkeypatch.context() as impatient:
            impatient.setattr(places, "_PATIENCE", 0.2)
            busy = stocked.run("patch", patch_request("alpha/core.py", "C = 2\n"))
        assert busy.failed == "packages-busy"
        os.kill(agent.pid, signal.SIGKILL)
    installer = int(mark.read_text())
    until(lambda: not runs(installer), what="uv has died with the agent")
    assert stocked.packages()["interrupted"]
    assert stocked.tree() != before

    stocked.have_uv()
    again = stocked.stack(ALPHA_1)  # what was asked before: nothing but putting back
    assert again.done["put_back"] == ["alpha", "beta"]
    assert rows(again) == []
    assert stocked.tree() == before
    assert not stocked.packages()["interrupted"]
    assert len(rows(stocked.stack(ALPHA_2))) == 2
    assert stocked.litter() == []


@contextlib.contextmanager
def started(world: World, *install: Any, **more: Any) -> Any:
    """An agent at the verb stack that has its request, and whose standard input stays open."""
    request = {"install": install, "wheel_dir": str(world.wheels), "timeout": 120, "run": "r1", **more}
    argv = world.argv("stack", "--while-stdin")
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdin is not None
        agent.stdin.write(json.dumps(request) + "\n")
        agent.stdin.flush()
        try:
            yield agent
        finally:
            agent.kill()


def runs(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_nobody_waits_any_more(stocked: World) -> None:
    stocked.stack(ALPHA_1)
    before = stocked.tree()
    mark = stocked.base / "mark"
    stocked.uv_is(half(stocked) + f"\ntouch {mark}; sleep 600 & wait\n")
    before["bin/uv"] = stocked.tree()["bin/uv"]
    with started(stocked, ALPHA_2) as agent:
        until(mark.exists, what="uv is at work")
        output, _ = agent.communicate()
    assert json.loads(output.splitlines()[-1])["error"]["code"] == "interrupted"
    assert stocked.tree() == before


def test_the_limit_of_time(stocked: World) -> None:
    """uv ignores TERM: it is killed, and what it did is put back."""
    stocked.stack(ALPHA_1)
    before = stocked.tree()
    stocked.uv_is(
        'case "$*" in *--dry-run*) exec $UV "$@";; esac\ntrap "" TERM; rm -r ' + str(stocked.site / "alpha")
    )
    with (stocked.bin / "uv").open("a") as script:
        script.write("sleep 600\n")
    before["bin/uv"] = stocked.tree()["bin/uv"]
    refused = stocked.stack(ALPHA_2, timeout=4)
    assert refused.failed == "stack-timeout"
    assert stocked.tree() == before


def test_what_uv_had_not_announced_is_told_and_in_the_way_of_nothing(stocked: World) -> None:
    stocked.put("gamma", "1.0", {"gamma/__init__.py": ""})
    stocked.stack(ALPHA_1)
    first = {name: stocked.identity(name) for name in ("alpha", "beta")}
    also = f"$UV pip install -q --python {stocked.python} --no-index --find-links {stocked.wheels}"
    wheels.wheel(stocked.wheels, "gamma", "2.0", {"gamma/__init__.py": "V = 2\n"})
    wheels.wheel(stocked.wheels, "delta", "1.0", {"delta/__init__.py": ""})
    stocked.uv_is(f'case "$*" in *--dry-run*) ;; *) {also} gamma==2.0 delta==1.0;; esac\nexec $UV "$@"\n')
    answer = stocked.stack(ALPHA_2)
    assert [row[0] for row in rows(answer)] == ["alpha", "beta", "delta", "gamma"]
    (note,) = answer.done["notes"]  # of one that wasn't there before nothing has to be saved
    assert "gamma, 1.0 -> 2.0" in note
    assert stocked.restore(first, {}).code == 0
    found = stocked.packages(["alpha", "beta", "gamma", "delta"])["installed"]
    assert {name: one and one["version"] for name, one in found.items()} == {
        "alpha": "1.0",
        "beta": "1.0",
        "gamma": "2.0",
        "delta": None,
    }


def test_a_password_of_an_index_is_nowhere(stocked: World) -> None:
    secret = "s3cr'et"
    url = f"http://user:{secret}@127.0.0.1:9/simple"
    said = stocked.base / "said"
    stocked.uv_is(f'echo "$@" >> {said}; echo "$UV_DEFAULT_INDEX" >> {said}.env; exec $UV "$@"')
    refused = stocked.stack({"name": "nowhere", "version": "1.0"}, index_url=url, wheel_dir=None)
    assert refused.failed == "stack-failed"
    assert url in (stocked.base / "said.env").read_text()
    assert secret not in said.read_text()
    assert "--no-index" not in said.read_text()
    assert secret not in refused.output
    for path in stocked.root.rglob("*"):
        assert path.is_dir() or secret.encode() not in path.read_bytes()
    stocked.uv_is(f'echo "error: failed: {url}"; exit 1')
    refused = stocked.stack({"name": "nowhere", "version": "1.0"}, index_url=url)
    assert refused.error["message"] == "error: failed: http://***@127.0.0.1:9/simple"
    stocked.uv_is("exit 7")
    silent = stocked.stack({"name": "nowhere", "version": "1.0"})
    assert silent.error["message"] == "uv ended with status 7 and said nothing"


@pytest.mark.parametrize("wheel", [True, False], ids=["of a wheel", "of no distribution"])
def test_a_package_that_is_a_release_is_left_alone(stocked: World, *, wheel: bool) -> None:
    release = stocked.root / "releases/abc"
    release.mkdir(parents=True)
    if wheel:
        stocked.stack(ALPHA_1)
        shutil.move(stocked.site / "alpha", release / "alpha")
    else:
        (release / "alpha").mkdir()
        (release / "alpha/__init__.py").write_text("V = 1\n")
    (stocked.root / "releases/current").symlink_to("abc")
    (stocked.site / "alpha").symlink_to(stocked.root / "releases/current/alpha")
    target = {"package": "alpha", "path": "alpha", "place": "site-packages"}
    store.write_json(str(stocked.root / "releases/targets.json"), {"targets": [target]})
    before = stocked.tree()
    refused = stocked.stack(ALPHA_2)
    assert refused.failed == "stack-in-release"
    assert "klops sync takes the link away" in refused.error["hint"]
    assert stocked.tree() == before
    assert (release / "alpha/__init__.py").read_text() == "V = 1\n"
    # also where the notes on that are damaged
    for text in ("", '{"schema": 1, "targets": [7]}'):
        (stocked.root / "releases/targets.json").write_text(text)
        assert stocked.stack(ALPHA_2).failed == "stack-in-release"
    assert stocked.tree() == before
    # another container of the same root has no link, so that it can be installed there
    (stocked.site / "alpha").unlink()
    if not wheel:
        assert rows(stocked.stack(ALPHA_2))[0] == ("alpha", None, "2.0", True)


def test_without_a_record_nothing_is_begun(stocked: World) -> None:
    egg = stocked.site / "alpha-1.0-py3.10.egg-info"
    egg.write_text("Metadata-Version: 1.0\nName: alpha\nVersion: 1.0\n")
    before = stocked.tree()
    assert stocked.stack(ALPHA_2).failed == "not-savable"
    assert stocked.tree() == before


def test_of_an_editable_one_the_metadata_is_saved(stocked: World) -> None:
    stocked.put("alpha", "1.0", {"_alpha.pth": "/src/alpha\n"})
    direct = json.dumps({"url": "file:///src/alpha", "dir_info": {"editable": True}})
    info = stocked.site / "alpha-1.0.dist-info"
    (info / "direct_url.json").write_text(direct)
    with (info / "RECORD").open("a") as record:
        record.write("alpha-1.0.dist-info/direct_url.json,,\n")
    before = stocked.tree()
    was = stocked.identity("alpha")
    answer = stocked.stack(ALPHA_2)
    assert "alpha is editable: of it only the metadata is saved" in answer.lines
    assert not (stocked.site / "_alpha.pth").exists()
    assert stocked.restore({"alpha": was}, {}).code == 0
    assert stocked.tree() == before


def test_a_patched_file_of_a_new_version_is_as_it_came(stocked: World) -> None:
    stocked.stack(ALPHA_1)
    stocked.run("patch", patch_request("alpha/__init__.py", "V = 'patched'\n"))
    assert stocked.stack(ALPHA_2).code == 0
    assert stocked.text("alpha/__init__.py") == "V = 2\n"
    shown = stocked.packages([], ["alpha/__init__.py"])["patches"][0]
    assert shown["sha256"] == shown["record_sha256"] == sha256("V = 2\n")
    assert stocked.run("patch", patch_request("alpha/__init__.py", "V = 'patched'\n")).failed == "patch-stale"


@pytest.mark.parametrize("request_", [{}, {"install": [{"name": "x"}]}, [], {"install": 3}])
def test_a_request_that_is_none(world: World, request_: Any) -> None:
    assert world.run("stack", request_).failed == "bad-request"


def test_no_room_for_what_is_saved(stocked: World) -> None:
    """On a file system of 64 KiB, of its own."""
    files = {"alpha/__init__.py": "V = 1\n", "alpha/data.txt": "x" * 200_000}
    stocked.put("alpha", "1.0", files)
    (stocked.root / "stack").mkdir(parents=True)
    mount = f"mount -t tmpfs -o size=64k none {stocked.root}/stack"
    alone = ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting needs root")
    before = stocked.tree()
    request = {"install": [ALPHA_2], "wheel_dir": str(stocked.wheels), "timeout": 120, "run": "r1"}
    argv = [*alone, *stocked.argv("stack")]
    done = subprocess.run(argv, input=json.dumps(request), capture_output=True, text=True, check=False)
    assert json.loads(done.stdout.splitlines()[-1])["error"]["code"] == "disk-full"
    assert stocked.tree() == before


def test_what_the_system_installed_elsewhere_stays(stocked: World) -> None:
    """Both put back: the one in site-packages by its archive, that on the path untouched."""
    elsewhere = stocked.base / "dist-packages"
    for path, data in wheels.contents("alpha", "0.5", {"alpha/__init__.py": "V = 0.5\n"}).items():
        (elsewhere / path).parent.mkdir(parents=True, exist_ok=True)
        (elsewhere / path).write_bytes(data)
    (stocked.site / "zz.pth").write_text(f"{elsewhere}\n")
    stocked.sites_anew()
    before = stocked.tree()
    assert rows(stocked.stack(ALPHA_2))[0] == ("alpha", "0.5", "2.0", True)
    assert stocked.restore({}, {}).code == 0
    assert stocked.tree() == before
    assert (elsewhere / "alpha/__init__.py").read_text() == "V = 0.5\n"
    assert (elsewhere / "alpha-0.5.dist-info/RECORD").exists()
