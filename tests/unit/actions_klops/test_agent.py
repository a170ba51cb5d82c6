from __future__ import annotations

from klops.remote import agentpackage
from klops.remote.base import Reply

from .support import Stage, whats

PACKAGE = agentpackage.build()
DIGEST, SIZE = PACKAGE.digest, len(PACKAGE.data)
FOLDERS = "".join(
    f"d{mode} 2 0 0 4096 Nov 29 10:00 /k{name}\n"
    for name, mode in (
        ("", "rwxr-xr-x"),
        ("/agent", "rwxr-xr-x"),
        ("/units", "rwx------"),
        ("/run", "rwx------"),
        ("/log", "rwx------"),
    )
)
THERE = (
    f"-rw-r--r-- 1 0 0 {SIZE} Nov 29 10:00 /k/agent/{DIGEST}.pyz\n"
    f"lrwxrwxrwx 1 0 0 20 Nov 29 10:00 /k/agent/current -> {DIGEST}.pyz\n"
)


def replies(
    folders: str = FOLDERS, package: str = THERE, packages: str = f"current\n{DIGEST}.pyz\n"
) -> dict[str, Reply]:
    return {
        "folders": Reply(0, folders.encode()),
        "package": Reply(0, package.encode()),
        "packages": Reply(0, packages.encode()),
    }


def test_in_place() -> None:
    plan = Stage().plan("klops.agent", replies())
    assert whats(plan) == []
    assert plan.result == {"digest": DIGEST}


def test_bare_host() -> None:
    stage = Stage()
    plan = stage.plan("klops.agent", replies("", "", ""))
    assert whats(plan)[:5] == [
        "make folder /k (mode 0755)",
        "make folder /k/agent (mode 0755)",
        "make folder /k/units (mode 0700)",
        "make folder /k/run (mode 0700)",
        "make folder /k/log (mode 0700)",
    ]
    assert whats(plan)[5].startswith(f"upload /k/agent/{DIGEST}.pyz (")
    assert whats(plan)[6:] == [f"point /k/agent/current to {DIGEST}.pyz"]
    stage.remote.on("sh -c")
    stage.action("klops.agent").apply(plan, stage.ctx)
    assert stage.remote.files == {f"/k/agent/{DIGEST}.pyz": (PACKAGE.data, 0o644)}
    assert "/k/agent/current" in stage.remote.commands[-1]


def test_a_cut_upload_is_made_again() -> None:
    plan = Stage().plan("klops.agent", replies(package=THERE.replace(f" {SIZE} ", " 100 ")))
    assert [what.split(" (")[0] for what in whats(plan)] == [f"upload /k/agent/{DIGEST}.pyz"]


def test_another_version_in_use() -> None:
    plan = Stage().plan("klops.agent", replies(package=THERE.replace(f"-> {DIGEST}", "-> 0123456789abcdef")))
    assert whats(plan) == [f"point /k/agent/current to {DIGEST}.pyz"]
    change = plan.changes[0]
    assert (change.before, change.after) == ("0123456789abcdef.pyz\n", f"{DIGEST}.pyz\n")


def test_folders_that_are_too_open_are_closed_and_narrow_ones_stay() -> None:
    open_ = FOLDERS.replace(
        "drwx------ 2 0 0 4096 Nov 29 10:00 /k/units", "drwxr-xr-x 2 0 0 4096 Nov 29 10:00 /k/units"
    )
    narrow = open_.replace(
        "drwxr-xr-x 2 0 0 4096 Nov 29 10:00 /k\n", "drwx------ 2 0 0 4096 Nov 29 10:00 /k\n"
    )
    assert whats(Stage().plan("klops.agent", replies(narrow))) == ["mode 0700 of /k/units"]


def test_the_last_three_packages_stay_with_what_belongs_to_them() -> None:
    old = [digit * 16 for digit in "abcde"]
    caches = [f"{old[3]}.cpython-310", f"{old[0]}.cpython-310"]
    names = [f"{DIGEST}.pyz", "current", *(f"{name}.pyz" for name in old), "README", *caches]
    plan = Stage().plan("klops.agent", replies(packages="\n".join(names)))
    gone = [f"/k/agent/{name}" for name in (*(f"{name}.pyz" for name in old[2:]), caches[0])]
    assert whats(plan) == [f"remove {', '.join(gone)}"]
