"""Dry runs: what later tasks would find once earlier ones had run, and what nobody can tell."""

from __future__ import annotations

import getpass
import importlib
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import klops.actions
from klops.actions.base import Plan, Step
from klops.actions.steps import SetMode
from klops.actions.touched import Becomes, Touched
from klops.playbook.tasks.foresight import Foreseen
from klops.playbook.tasks.rewriting import ANYBODY, ROOT, rewritten
from klops.remote.base import Reply
from klops.remote.environment import EnvironmentRead
from klops.remote.filereads import GlobRead, StatRead
from klops.remote.reads import (
    CommandRead,
    DigestRead,
    FileRead,
    FilesRead,
    PathRead,
    Read,
    RealPathRead,
    TreeRead,
)
from klops.remote.systemreads import CrontabRead, UnitRead
from tests.unit.playbook.onehost import Bench, task
from tests.unit.playbook.test_taskrun_local import LocalFleet

GONE = Reply(2, b"", b"ls: no such file")
NOTHING = Reply(44, b"", b"")


UNIT_FILE = "/etc/systemd/system/x.service"


def listed(
    letters: str, path: str, *, uid: int = 0, size: int = 4, more: str = "", names: str = "root"
) -> Reply:
    name = names if uid == 0 else str(uid)
    line = "{} 1 {} {} {} Jan  1  2000 {}{}\n"
    both = line.format(letters, uid, uid, size, path, more) + line.format(
        letters, name, name, size, path, more
    )
    return Reply(0, both.encode(), b"")


def path(name: str = "/a/b") -> PathRead:
    return PathRead("p", (name,))


MADE = Touched("/a/b", Becomes.DIRECTORY, 0o750, (0, 0))
WRITTEN = Touched("/a/b", Becomes.FILE, 0o640, (7, 7), b"new\n")
REMOVED = Touched("/a", Becomes.ABSENT)
FILE = listed("-rw-r--r--", "/a/b")


@pytest.mark.parametrize(
    ("touched", "read", "before", "after"),
    [
        # what stands beside, below or above is as it was
        (MADE, path("/a/bc"), FILE, FILE),
        (MADE, path("/a/b/c"), GONE, GONE),
        (MADE, path("/a"), listed("drwxr-xr-x", "/a"), listed("drwxr-xr-x", "/a")),
        (WRITTEN, FileRead("f", "/a/b/c"), NOTHING, NOTHING),
        (MADE, CommandRead("c", ("id", "-u", "/a/b")), Reply(0, b"0\n"), Reply(0, b"0\n")),
        (WRITTEN, TreeRead("t", "/other"), NOTHING, NOTHING),
        # folders that are missing above are made, and nothing tells how
        (MADE, path("/a"), GONE, "/a"),
        # the path itself
        (MADE, path(), GONE, listed("drwxr-x---", "/a/b", size=0, names="0")),
        (WRITTEN, path(), FILE, listed("-rw-r-----", "/a/b", uid=7)),
        (WRITTEN, path("//a/./b"), GONE, listed("-rw-r-----", "//a/./b", uid=7)),
        (WRITTEN, FileRead("f", "/a/b", 3), NOTHING, Reply(0, b"new")),
        (WRITTEN, RealPathRead("r", "/a/b"), Reply(0, b"/x/b\n"), Reply(0, b"/x/b\n")),
        (WRITTEN, RealPathRead("r", "/a/b"), Reply(0, b"/x/other\n"), "/a/b"),
        (WRITTEN, StatRead("s", "/a/b"), NOTHING, "/a/b"),
        (WRITTEN, EnvironmentRead("f", FileRead("f", "/a/b"), ()), NOTHING, Reply(0, b"new\n")),
        # attributes alone
        (Touched("/a/b", Becomes.SAME, 0o600), path(), FILE, listed("-rw-------", "/a/b")),
        (Touched("/a/b", Becomes.SAME, owner=(7, 7)), path(), FILE, listed("-rw-r--r--", "/a/b", uid=7)),
        (Touched("/a/b", Becomes.SAME, 0o600), path(), listed("lrwxrwxrwx", "/a/b", more=" -> c"), "/a/b"),
        (Touched("/a/b", Becomes.SAME, 0o600), DigestRead("d", "/a/b"), Reply(0, b"1"), Reply(0, b"1")),
        (Touched("/a/b", Becomes.SAME, 0o600), StatRead("s", "/a/b"), Reply(0, b"1"), "/a/b"),
        # what goes takes along what is below
        (REMOVED, path(), FILE, Reply(2)),
        (REMOVED, FileRead("f", "/a/b"), Reply(0, b"x"), Reply(44)),
        (REMOVED, StatRead("s", "/a/b"), Reply(0, b"x"), "/a/b"),
        (REMOVED, StatRead("s", "/a/b"), NOTHING, NOTHING),
        (REMOVED, TreeRead("t", "/a/b"), Reply(0, b"x"), "/a/b"),
        # anything may be behind a link
        (Touched("/a", below=True), path(), FILE, "/a/b"),
        # trees and patterns
        (WRITTEN, TreeRead("t", "/a"), Reply(0, b"x"), "/a"),
        (WRITTEN, GlobRead("g", "/a/*.conf"), NOTHING, "/a"),
        (WRITTEN, GlobRead("g", "/a/b"), NOTHING, "/a/b"),
        (WRITTEN, GlobRead("g", "b", "/a"), NOTHING, "/a/b"),
        (MADE, FilesRead("f", "/a/b", ("x",), ()), NOTHING, Reply(0)),
        (WRITTEN, FilesRead("f", "/a", ("b",), ()), Reply(0), "/a"),
        # a path that the host expands
        (Touched("/root/b"), StatRead("s", "~/b"), NOTHING, "~/b"),
        # what is no path
        (Touched("cron:me", Becomes.FILE, content=b"x\n"), CrontabRead("c", "me"), NOTHING, Reply(0, b"x\n")),
        (Touched("cron:me", Becomes.FILE, content=b"x\n"), CrontabRead("c", "you"), NOTHING, NOTHING),
        (Touched("cron:", Becomes.FILE, content=b"x\n"), CrontabRead("c", "you"), NOTHING, "cron:you"),
        (Touched("systemd:system:x.service"), UnitRead("u", "x"), Reply(0), "systemd:system:x.service"),
        (Touched("systemd:system:x.service"), UnitRead("u", "x", "user"), Reply(0), Reply(0)),
        (
            Touched(UNIT_FILE),
            UnitRead("u", "x"),
            Reply(0),
            UNIT_FILE,
        ),
        (
            Touched(UNIT_FILE),
            UnitRead("u", "x"),
            Reply(0, b"LoadState=loaded\n"),
            Reply(0, b"LoadState=loaded\n"),
        ),
    ],
)
def test_replies_after_a_change(touched: Touched, read: Read, before: Reply, after: Reply | str) -> None:
    assert rewritten(read, before, (touched,), ROOT) == after


def test_an_owner_that_is_not_known_is_told_in_two_ways() -> None:
    new = Touched("/a/b", Becomes.DIRECTORY, 0o755)
    assert rewritten(path(), GONE, (new,), ROOT) != rewritten(path(), GONE, (new,), ANYBODY)


def test_changes_add_up() -> None:
    steps = [REMOVED, MADE, Touched("/a/b", Becomes.SAME, 0o700)]
    assert rewritten(path(), FILE, steps, ROOT) == listed("drwx------", "/a/b", size=0, names="0")
    # what was below the folder that went is not back
    assert rewritten(path("/a/b/c"), listed("-rw-r--r--", "/a/b/c"), steps, ROOT) == Reply(2)


def planned(foreseen: Foreseen, reads: Mapping[Read, Reply], plan: Plan) -> Plan:
    return foreseen.plan(lambda known: plan, tuple(reads), {read.key: reply for read, reply in reads.items()})


def test_a_change_through_a_link_is_one_of_the_link_and_of_what_it_leads_to() -> None:
    link = listed("lrwxrwxrwx", "/a/b", more=" -> ../c")
    plan = planned(Foreseen(), {path(): link}, Plan((SetMode("/c", 0o600, 0o644),)))
    assert {one.path for one in plan.touches} == {"/c", "/a/b", "/a/../c"}


def test_what_a_task_that_is_unknown_may_change_is_unknown_too() -> None:
    foreseen = Foreseen()
    foreseen.add([Touched("/a/b")])
    copied = {path(): FILE, PathRead("q", ("/copy",)): GONE, FileRead("g", "/etc/group"): Reply(0, b"")}
    plan = planned(foreseen, copied, Plan())
    assert plan.unknown == "an earlier task would change /a/b"
    foreseen.add(plan.touches)
    assert planned(foreseen, {path("/copy"): GONE}, Plan()).unknown
    # only the content of this was looked at
    assert not planned(foreseen, {path("/etc/group"): FILE}, Plan()).unknown


#: their reads ask the container, and the agent in it
OWN = "klops.actions.own."


def steps_of(kind: Any) -> Iterator[type[Step]]:
    for one in kind.__subclasses__():
        yield one
        yield from steps_of(one)


def test_every_step_says_what_it_touches_unless_nobody_can_know() -> None:
    for module in pkgutil.walk_packages(klops.actions.__path__, prefix="klops.actions."):
        importlib.import_module(module.name)
    silent = {
        step.__name__
        for step in steps_of(Step)
        if step.__module__.startswith("klops.actions.")
        and not step.__module__.startswith(OWN)
        and step.changes
        and step.on_host
        and step.touches is Step.touches
    }
    # programs of the author, and a restart
    assert silent == {"RunCommand", "RunScript", "Restart"}


# -- with the modules: a dry run on this machine, then the run -----------------------------------------------

NEW = ("file", {"path": "{d}/new", "state": "directory", "mode": "0750"})
HELD = ("copy", {"content": "x\n", "dest": "{d}/held", "mode": "0644"})
LINE = {"path": "{d}/held", "line": "y", "mode": "0644"}

STORIES: list[tuple[str, list[tuple[str, dict[str, Any]]], str]] = [
    ("a file in a new folder", [NEW, ("copy", {"content": "x", "dest": "{d}/new/f"})], "changed changed"),
    (
        "into a new folder",
        [NEW, ("copy", {"src": "{d}/was", "remote_src": True, "dest": "{d}/new/"})],
        "changed changed",
    ),
    ("the folder again", [NEW, NEW], "changed ok"),
    ("its owner", [NEW, (NEW[0], {**NEW[1], "owner": "{me}"})], "changed unknown"),
    ("its mode", [NEW, (NEW[0], {**NEW[1], "mode": "0700"}), NEW], "changed changed changed"),
    ("the file again", [HELD, HELD], "changed ok"),
    ("a line of it", [HELD, ("lineinfile", LINE), ("lineinfile", LINE), HELD], "changed changed ok changed"),
    ("gone", [("file", {"path": "{d}/was", "state": "absent"})] * 2, "changed ok"),
    (
        "gone, and made",
        [
            ("file", {"path": "{d}/was", "state": "absent"}),
            ("copy", {"content": "was", "dest": "{d}/was", "mode": "0600"}),
            ("file", {"path": "{d}/was", "mode": "0600"}),
        ],
        "changed changed ok",
    ),
    ("a mode alone", [("file", {"path": "{d}/was", "mode": "0611"})] * 2, "changed ok"),
    (
        "a copy of it",
        [HELD, ("copy", {"src": "{d}/held", "remote_src": True, "dest": "{d}/copy"})],
        "changed unknown",
    ),
    (
        "through a link",
        [
            ("file", {"src": "was", "path": "{d}/link", "state": "link"}),
            ("lineinfile", {"path": "{d}/link", "line": "y"}),
            ("lineinfile", {"path": "{d}/was", "line": "y"}),
        ],
        "changed unknown unknown",
    ),
    ("looked at", [HELD, ("stat", {"path": "{d}/held"})], "changed unknown"),
    (
        "not made by a program, for all that is known",
        [("command", {"cmd": "touch {d}/x"}), ("file", {"path": "{d}/was", "mode": "0644"})],
        "unknown ok",
    ),
    (
        "whether it is changed isn't known",
        [
            ("command", {"cmd": "echo x"}),
            ("copy", {"content": "x", "dest": "{d}/held", "when": "r.stdout == 'y'"}),
            ("file", {"path": "{d}/held", "state": "absent"}),
            ("file", {"path": "{d}/was", "state": "absent"}),
        ],
        "unknown unknown unknown changed",
    ),
    (
        "a folder in the way",
        [NEW, ("copy", {"content": "x", "dest": "{d}/new"})],
        "changed failed",
    ),
]


@pytest.mark.skipif(sys.platform == "win32", reason="programs of a POSIX host")
@pytest.mark.parametrize(("tasks", "expected"), [story[1:] for story in STORIES], ids=[s[0] for s in STORIES])
def test_a_dry_run_sees_what_earlier_tasks_would_have_done(
    tasks: list[tuple[str, dict[str, Any]]], expected: str, tmp_path: Path
) -> None:
    was = tmp_path / "was"
    was.write_text("was")
    was.chmod(0o644)

    def told(text: Any) -> Any:
        return text.format(d=tmp_path, me=getpass.getuser()) if isinstance(text, str) else text

    def statuses(check: bool) -> list[str]:
        bench = Bench(LocalFleet({"h1": {}}), check=check)
        made = [
            task(
                action,
                {key: told(value) for key, value in params.items() if key != "when"},
                when=tuple(filter(None, [params.get("when")])),
                register="r",
            )
            for action, params in tasks
        ]
        found = [bench.run(each).status.value for each in made]
        bench.fleet.host("h1").close()
        return found

    checked = statuses(check=True)
    assert " ".join(checked) == expected
    assert list(tmp_path.iterdir()) == [was]
    wrong = [
        (foretold, real)
        for foretold, real in zip(checked, statuses(check=False), strict=True)
        if foretold not in ("unknown", real)
    ]
    assert not wrong
