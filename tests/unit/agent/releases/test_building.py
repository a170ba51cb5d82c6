"""A build changes a copy, becomes a release only when it is whole, and leaves nothing alive."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from klops.agent import running, store
from klops.agent.errors import VerbError
from klops.agent.generations import standing
from klops.agent.processes import procs, subreaper
from klops.agent.releases import building, files, known, log, look
from klops.agent.releases.stream import Gone

from .world import File, Link, World, install, on_disk, package, writable

TREE: dict[str, File | Link] = {
    **package("source"),
    "tool": File(b"#!/bin/sh\necho tool\n", executable=True),
    "to": Link(b"tool"),
}


@pytest.fixture(autouse=True)
def _no_orphans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a build would come to this process, whose other children it would end."""
    monkeypatch.setattr(subreaper, "become", lambda: None)
    monkeypatch.setattr(running, "end_children", lambda audit, why: None)


class Build:
    """Builds of one release."""

    def __init__(self, world: World, base: str) -> None:
        self.world, self.base = world, base
        self.name = base + "-b01234567"
        self.lines: list[str] = []

    def __call__(self, *lines: str, check: Any = lambda: None, **more: Any) -> Any:
        """Build it with these commands."""
        asked = building.read({"name": self.name, "commands": list(lines), **more})
        return building.build(self.world.places, self.base, asked, self.lines.append, check)

    @property
    def log(self) -> Path:
        """What the commands said."""
        return self.world.root / "log" / f"build-{self.name}.log"


@pytest.fixture
def build(world: World) -> Build:
    return Build(world, world.sync(TREE))


def test_what_it_made_is_part_of_another_release(world: World, build: Build) -> None:
    told = build(
        "./tool; echo $KLOPS_RELEASE; pwd >&2",
        "echo built > pkg/made.so; chmod +x pkg/made.so; mkdir -p out/empty; ln -s /etc/hostname out/link",
        "mkdir pkg/__pycache__; touch pkg/__pycache__/x.pyc",
    )
    assert (told["name"], told["cached"], told["log"]) == (build.name, False, str(build.log))
    assert build.lines[0] == "$ ./tool; echo $KLOPS_RELEASE; pwd >&2"
    assert build.lines[1:4] == ["tool", build.name, world.places.building(build.name)]
    assert build.log.read_text().splitlines() == build.lines
    assert build.log.stat().st_mode & 0o777 == 0o600
    made = known.load(world.places, build.name)
    tree = {**TREE, "pkg/made.so": File(b"built\n", executable=True), "out/link": Link(b"/etc/hostname")}
    assert {entry.path for entry in made.entries} == set(tree)
    there = on_disk(world.path(build.name))
    # it is kept, and no part of it
    assert there.pop("pkg/__pycache__/x.pyc") == File(b"")
    assert there == tree
    assert made.about["built_from"] == build.base
    assert made.about["commit"] == "c0ffee" * 4
    assert len(made.about["commands"]) == 3
    files = [
        path for path in world.path(build.name).rglob("*") if not path.is_symlink() and path.suffix != ".pyc"
    ]
    assert {path.stat().st_mode & 0o7777 for path in files} == {0o444, 0o555}
    assert world.damage(build.name) == []
    assert world.litter() == []


def test_a_build_that_appends_to_a_tracked_file_changes_no_other_release(world: World, build: Build) -> None:
    before = on_disk(world.path(build.base))
    build("echo more >> pkg/__init__.py; printf x >> tool")
    assert on_disk(world.path(build.base)) == before == TREE
    assert world.damage(build.base) == []
    assert (world.path(build.name) / "pkg/__init__.py").read_text().endswith("more\n")
    assert world.damage(build.name) == []
    # nor does what comes after share a file with one that a build has written
    writable(world.path(build.base) / "pkg/same.py")
    (world.path(build.base) / "pkg/same.py").unlink()
    later = world.send({**TREE, "new": File(b"new")})
    assert later["files"] == 1
    theirs = {path.stat().st_ino for path in world.path(build.name).rglob("*") if path.is_file()}
    ours = {path.stat().st_ino for path in world.path(later["name"]).rglob("*") if path.is_file()}
    assert not theirs & ours


def test_a_build_that_writes_to_the_release_that_runs_is_refused(
    world: World, build: Build, site: Path
) -> None:
    """Through the link that stands for an installed package, as an installer does that isn't told of it."""
    world.activate(build.base, targets=[{"package": "pkg"}])
    (world.path(build.base) / "pkg").chmod(0o755)
    with pytest.raises(VerbError, match=r"changed 1 files of .*: pkg/same\.py") as caught:
        build(f"cp --remove-destination pkg/__init__.py '{site}/pkg/same.py'")
    assert caught.value.code == "build-outside"
    assert known.whole(world.places) == [build.base]
    world.send(TREE)
    assert (world.damage(build.base), world.litter()) == ([], [])


def test_the_same_build_is_done_once(world: World, build: Build) -> None:
    build("echo built > made")
    build.lines.clear()
    assert build("echo built > made") == {
        "name": build.name,
        "seconds": 0.0,
        "log": str(build.log),
        "cached": True,
    }
    assert build.lines == []
    # but one that is damaged is done again, while it is the current one
    world.activate(build.name)
    writable(world.path(build.name) / "made")
    (world.path(build.name) / "made").write_text("by hand")
    assert not build("echo built > made")["cached"]
    assert (world.path(build.name) / "made").read_text() == "built\n"
    assert world.litter() == []


def test_one_that_fails_never_becomes_a_release(world: World, build: Build) -> None:
    with pytest.raises(VerbError) as caught:
        build("echo fine", "echo no compiler >&2; exit 7", "echo not reached")
    assert caught.value.code == "build-failed"
    assert "exit 7' ended with status 7\nfine\n" in caught.value.message
    assert caught.value.message.endswith("no compiler")
    assert str(build.log) in caught.value.hint
    assert known.whole(world.places) == [build.base]
    assert world.current == build.base
    assert "not reached" not in build.log.read_text()
    assert world.litter() == []


@pytest.mark.parametrize("why", ["timeout", "nobody waits"])
def test_all_that_it_began_ends_with_it(world: World, build: Build, why: str) -> None:
    """One in a session of its own, too, that doesn't want to."""
    stubborn = "trap '' TERM HUP INT; while :; do sleep 0.05; done"
    seen: list[int] = []

    def check() -> None:
        seen[:] = [int(line) for line in build.lines if line.isdigit()]
        # the ones that left the session have to be noticed before anybody is ended
        record = Path(world.places.build_record)
        noted = record.read_text() if record.exists() else ""
        if len(seen) == 2 and all(f'"pid":{pid},' in noted for pid in seen):
            if why == "timeout":
                raise VerbError("build-timeout", "the time for the build is over")
            raise Gone

    command = f'echo $$; setsid sh -c "echo \\$\\$; {stubborn}" & {stubborn}'
    with pytest.raises((VerbError, Gone)) as caught:
        build(command, check=check)
    assert isinstance(caught.value, VerbError) == (why == "timeout")
    if isinstance(caught.value, VerbError):
        assert caught.value.code == "build-timeout"
    assert [pid for pid in seen if alive(pid)] == []
    assert not Path(world.places.build_record).exists()
    assert known.whole(world.places) == [build.base]


def alive(pid: int) -> bool:
    """Whether a process of that number runs."""
    process = procs.read(pid)
    return process is not None and process.alive


def test_its_time_is_limited(build: Build) -> None:
    begun = time.monotonic()
    with pytest.raises(VerbError, match=r"took longer than 0\.3 s") as caught:
        build("echo begun; exec sleep 300", timeout=0.3)
    assert caught.value.code == "build-timeout"
    assert time.monotonic() - begun < 200


def test_one_that_goes_on_in_the_background_is_not_waited_for(build: Build) -> None:
    build("(sleep 300; echo late) & echo $!")
    assert build.lines[-1].isdigit()
    assert not alive(int(build.lines[-1]))


def test_any_output_is_shown_as_lines(build: Build) -> None:
    build(r"printf 'a\r\n\377\nno end'", "exec >&- 2>&-; sleep 0.3")
    assert build.lines[1:4] == ["a", "\ufffd", "no end"]


def test_the_log_does_not_grow_for_ever(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "LONGEST", 1000)
    build(
        "i=0; while [ $i -lt 300 ]; do echo line $i; i=$((i+1)); done",
        "head -c 200000 /dev/zero | tr '\\0' x",
    )
    assert len(build.lines) > 300
    assert max(map(len, build.lines)) <= 4096
    kept = [build.log, build.log.with_name(build.log.name + ".1")]
    assert all(path.stat().st_size < 1000 + 2 * 65536 for path in kept)
    assert build.log.parent.stat().st_mode & 0o777 == 0o700


def test_variables_are_given_and_its_python_is_the_containers(
    build: Build, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin/python-of-the-container"
    python.write_text("#!/bin/sh\necho it is me\n")
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    build("python-of-the-container; echo $JOBS", env={"JOBS": "a b"})
    assert build.lines[1:] == ["it is me", "a b"]


def test_files_of_the_installed_package_are_carried_over(world: World, build: Build, site: Path) -> None:
    installed = install(site, "installed")
    (installed / "_C.so").write_bytes(b"\x7fELF")
    (installed / "_C.so").chmod(0o755)
    (installed / "deep").mkdir()
    (installed / "deep/ops.so").write_bytes(b"ops")
    carry = [{"package": "pkg", "path": "pkg", "globs": ["*.so", "__init__.py"]}]
    build("cat pkg/deep/ops.so", carry=carry)
    assert build.lines[0].startswith("2 files of the installed pkg")
    assert on_disk(world.path(build.name)) == {
        **TREE,
        "pkg/_C.so": File(b"\x7fELF", executable=True),
        "pkg/deep/ops.so": File(b"ops"),
    }
    # they come from what was kept, once the link stands there
    world.activate(build.name, targets=[{"package": "pkg"}])
    writable(world.path(build.name) / "pkg/_C.so")
    (world.path(build.name) / "pkg/_C.so").unlink()
    build(carry=carry)
    assert (world.path(build.name) / "pkg/_C.so").read_bytes() == b"\x7fELF"
    with pytest.raises(VerbError) as caught:
        build(
            "true",
            carry=[{"package": "other", "path": "pkg", "globs": ["*"]}],
            name=build.base + "-b76543210",
        )
    assert caught.value.code == "nothing-to-carry"


class Wheel:
    """A distribution of the package in a tree, installed as an installer does it."""

    def __init__(self, site: Path) -> None:
        self.site = site
        self.info = site / "Pkg_X-1.dist-info"

    def put(self, version: str = "1") -> str:
        """A command that puts it there."""
        files = ("pkg/__init__.py", "pkg/same.py", "Pkg_X-1.dist-info/METADATA", "Pkg_X-1.dist-info/RECORD")
        record = "".join(f"{file},,\\n" for file in files)
        metadata = f"Metadata-Version: 2.1\\nName: Pkg.X\\nVersion: {version}\\n"
        # as installers do it, a file is never written to where it lies
        return (
            f"mkdir -p '{self.site}/pkg' '{self.info}'; cp --remove-destination pkg/*.py '{self.site}/pkg/';"
            f"printf '{metadata}' > '{self.info}/METADATA';"
            f"printf '{record}# {version}' > '{self.info}/RECORD'"
        )


def test_a_build_that_installs_has_to_be_what_is_installed(world: World, build: Build, site: Path) -> None:
    wheel = Wheel(site)
    build(wheel.put(), installs=["pkg.x"])
    made = known.load(world.places, build.name)
    assert re.fullmatch("[0-9a-f]{64}", made.about["installed"]["pkg.x"])
    told = world.activate(build.name, targets=[])
    assert told["imports"] == [
        {"package": "pkg", "file": str(site / "pkg/__init__.py"), "ok": True, "why": ""}
    ]
    assert build(wheel.put(), installs=["pkg.x"])["cached"]
    # somebody installs another: it is no longer what was built
    (site / "pkg/same.py").chmod(0o644)
    (site / "pkg/same.py").write_text("same = 2\n")
    with pytest.raises(VerbError, match=r"same\.py is not the same there") as caught:
        world.activate(build.name)
    assert caught.value.code == "import-elsewhere"
    assert look.look(world.places, verify=False, wanted=[])["imports"][0]["why"] == caught.value.message
    (wheel.info / "RECORD").write_text("pkg/same.py,,\n")
    with pytest.raises(VerbError, match=r"pkg\.x is not installed as the build of"):
        world.activate(build.name)
    assert not build(wheel.put(), installs=["pkg.x"])["cached"]
    assert world.activate(build.name)["imports"][0]["ok"]


def test_a_build_that_fails_has_installed_nothing(world: World, build: Build, site: Path) -> None:
    wheel = Wheel(site)
    with pytest.raises(VerbError, match="exit 3"):
        build(wheel.put(), "exit 3", installs=["pkg.x"])
    with pytest.raises(VerbError, match=r"there is no RECORD of pkg\.y"):
        build(wheel.put(), installs=["pkg.x", "pkg.y"])
    assert list(site.glob("*kg*")) == []
    build(wheel.put(), installs=["pkg.x"])
    before = {path: path.read_bytes() for path in site.rglob("*") if path.is_file()}
    writable(world.path(build.name) / "tool")
    (world.path(build.name) / "tool").unlink()
    with pytest.raises(VerbError, match="exit 3"):
        build("echo other > pkg/same.py; " + wheel.put("2"), "exit 3", installs=["pkg.x"])
    assert {path: path.read_bytes() for path in site.rglob("*") if path.is_file()} == before
    # what klops has installed is known, so that one can go back from it
    noted = json.loads((world.root / "stack/stack.json").read_text())
    assert noted["original"] == {"pkg-x": None}
    assert noted["distributions"]["pkg-x"]["version"] == "1"


def test_a_patch_that_a_build_installs_over_is_no_longer_there(
    world: World, build: Build, site: Path
) -> None:
    build(Wheel(site).put(), installs=["pkg.x"])
    (site / "pkg/same.py").chmod(0o644)
    (site / "pkg/same.py").write_text("same = 'patched'\n")
    entry = {"pristine": "a", "patched": files.sha256(os.fsencode(site / "pkg/same.py")), "patch": "c"}
    where = {"distribution": "pkg-x", "version": "1", "path": str(site / "pkg/same.py")}
    notes = {"pkg/same.py": {**entry, **where}}
    store.write_json(str(world.root / "patches.json"), {"patches": notes, "before": []})
    assert standing.now(str(world.root))["patches"] == {"pkg/same.py": entry}
    build(Wheel(site).put("2"), installs=["pkg.x"], name=build.base + "-b76543210")
    assert standing.now(str(world.root))["patches"] == {}


def test_what_is_no_file_makes_no_release(build: Build, world: World) -> None:
    with pytest.raises(VerbError, match="left pipe, which is no file"):
        build("mkfifo pipe")
    assert known.whole(world.places) == [build.base]


def test_a_damaged_release_is_not_built_from(build: Build, world: World) -> None:
    writable(world.path(build.base) / "tool")
    (world.path(build.base) / "tool").write_text("by hand")
    with pytest.raises(VerbError) as caught:
        build("true")
    assert caught.value.code == "damaged-release"
    (world.path(build.base) / "tool").unlink()
    with pytest.raises(VerbError) as caught:
        build("true")
    assert caught.value.code == "damaged-release"
    with pytest.raises(VerbError) as caught:
        Build(world, "c0ffeec0ffee-000000000000")("true")
    assert caught.value.code == "no-release"


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"name": "../x"},
        {"name": "x", "env": {"A=B": "c"}},
        {"name": "x", "timeout": "soon"},
        {"name": "x", "carry": [1]},
    ],
    ids=str,
)
def test_what_is_asked_for_is_checked(request_: Any) -> None:
    with pytest.raises(VerbError):
        building.read(request_)


def test_its_log_goes_with_it(world: World, build: Build) -> None:
    build("true")
    assert build.log.exists()
    world.activate(build.base, keep=0)
    assert known.whole(world.places) == [build.base]
    assert not build.log.exists()


def test_of_builds_that_fail_the_last_logs_stay_and_errors_are_short(world: World, build: Build) -> None:
    for number in range(5):
        build.name = f"{build.base}-b0000000{number}"
        with pytest.raises(VerbError) as caught:
            build("head -c 100000 /dev/zero | tr '\\0' x; exit 1")
        assert len(caught.value.message) < 3000
        assert build.log.stat().st_size > 100_000
    world.send({**TREE, "new": File(b"new")})
    logs = {path.name for path in (world.root / "log").glob("build-*")}
    assert logs == {f"build-{build.base}-b0000000{number}.log" for number in (2, 3, 4)}


def test_what_a_build_was_made_from_takes_no_other_ones_place(world: World) -> None:
    names = []
    for number in range(4):
        base = str(world.send(package(str(number)))["name"])
        asked = building.read({"name": base + "-b01234567", "commands": []})
        building.build(world.places, base, asked, lambda line: None, lambda: None)
        names += [base, asked.name]
        world.activate(asked.name, keep=2)
    # two that one can go back to, and what the next build of the current one shares
    assert set(known.whole(world.places)) == {*names[3::2], names[6]}


def test_what_failing_builds_were_made_from_takes_no_other_ones_place(world: World) -> None:
    built = []
    for number in range(7):
        base = str(world.send(package(str(number)))["name"])
        one = Build(world, base)
        if number in (3, 4, 5):
            with pytest.raises(VerbError, match="exit 1"):
                one("exit 1")
            continue
        one("true")
        world.activate(one.name, keep=2)
        built.append(one.name)
    assert set(known.whole(world.places)) == {*built[1:], base}


def test_what_a_build_was_made_from_counts_where_it_ran_itself(world: World, build: Build) -> None:
    """There were no commands yet when it did."""
    build("true")
    world.activate(build.name, keep=2)
    other = world.sync(package("other"), keep=2)
    assert known.whole(world.places) == [other, build.name, build.base]


def test_the_next_one_shares_files_with_what_the_last_build_was_made_from(world: World, build: Build) -> None:
    build("true")
    world.activate(build.name, keep=2)
    shared = world.send({**TREE, "new": File(b"new")})["linked"]
    assert shared == sum(isinstance(one, File) for one in TREE.values())


def test_another_commit_of_the_same_content_is_not_built_again(world: World, build: Build) -> None:
    build("echo built > pkg/made; chmod +x pkg/made; mkdir -p out/empty; ln -s tool link")
    base = str(world.send(TREE, commit="beefed" * 4)["name"])
    again = Build(world, base)

    told = again("echo it is built again; exit 1")

    assert (told["name"], told["cached"]) == (again.name, True)
    assert "it is built again" not in "".join(again.lines)
    assert build.name in again.lines[0]
    made = known.load(world.places, again.name)
    assert made.digest == known.load(world.places, build.name).digest
    assert (made.about["commit"], made.about["built_from"]) == ("beefed" * 4, base)
    assert on_disk(world.path(again.name)) == on_disk(world.path(build.name))
    assert (world.path(again.name) / "out/empty").is_dir()
    assert (world.damage(again.name), world.litter()) == ([], [])
    # what is written to one of them is no change of the other
    writable(world.path(again.name) / "pkg/made")
    (world.path(again.name) / "pkg/made").write_text("by hand")
    assert world.damage(build.name) == []
    # and none that is damaged is taken for another
    writable(world.path(build.name) / "tool")
    (world.path(build.name) / "tool").unlink()
    with pytest.raises(VerbError, match="exit 1"):
        again("exit 1")


@pytest.mark.parametrize("tail", ["-b76543210", "-000000000000-b01234567"])
def test_what_was_built_otherwise_is_built(world: World, build: Build, tail: str) -> None:
    build("true")
    other = Build(world, str(world.send(TREE, commit="beefed" * 4)["name"]))
    other.name = other.base + tail if tail.startswith("-b") else other.base.partition("-")[0] + tail
    assert not other("true")["cached"]
