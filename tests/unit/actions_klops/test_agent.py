from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import pytest

from klops.actions.own.agent import Prune
from klops.commands.hostpass import passscript
from klops.inventory.settings import Settings
from klops.remote import agentpackage
from klops.remote.base import Reply
from klops.remote.fake import reply

from .support import SETTINGS, Stage, whats

PACKAGE = agentpackage.build()
DIGEST = PACKAGE.digest
FOLDERS = "".join(
    f"d{mode} 2 0 0 4096 Nov 29 10:00 /k{name}\n"
    for name, mode in (
        ("", "rwxr-xr-x"),
        ("/agent", "rwxr-xr-x"),
        ("/metrics", "rwxr-xr-x"),
        ("/units", "rwx------"),
        ("/run", "rwx------"),
        ("/log", "rwx------"),
    )
)
LINK = f"lrwxrwxrwx 1 0 0 20 Nov 29 10:00 /k/agent/current -> {DIGEST}.pyz\n"
PASS = passscript.script(("docker",), "klops", "python3", "/k").encode()
OLD = [digit * 16 for digit in "abcde"]
SILENT = Reply(1, b"", b"container c0ffee is not running")


def replies(
    folders: str = FOLDERS,
    package: str = f"{PACKAGE.sha256}\n",
    link: str = LINK,
    packages: Sequence[str] = ("current", f"{DIGEST}.pyz"),
    state: str = "running",
    supervisor: str | None = DIGEST,
) -> dict[str, Reply]:
    """A host; ``state`` is its container's, ``supervisor`` the digest of what its supervisor runs."""
    status = json.dumps({"supervisor": {"agent": supervisor}, "units": {}})
    return {
        "folders": Reply(0, folders.encode()),
        "package": Reply(0, package.encode()),
        "link": Reply(0, link.encode()),
        "packages": Reply(0, "\n".join(packages).encode()),
        "pass": Reply(0, f"{hashlib.sha256(PASS).hexdigest()}\n".encode()),
        "docker.version": Reply(0, b'{"Server": {"Version": "24"}}'),
        "adopted": Reply(44),
        "container": Reply(
            0, json.dumps([{"Id": "c0ffee", "Name": "/klops", "State": {"Status": state}}]).encode()
        ),
        "agent.status": SILENT if supervisor is None else Reply(0, status.encode()),
    }


def test_in_place() -> None:
    plan = Stage().plan("klops.agent", replies())
    assert whats(plan) == []
    assert plan.result == {"digest": DIGEST}


def test_bare_host() -> None:
    stage = Stage()
    nothing = replies("", "", "", (), supervisor=None) | {
        "pass": Reply(44),
        "container": Reply(1, b"", b"Error: No such container: klops"),
    }
    plan = stage.plan("klops.agent", nothing)
    assert whats(plan)[:6] == [
        "make folder /k (mode 0755)",
        "make folder /k/agent (mode 0755)",
        "make folder /k/metrics (mode 0755)",
        "make folder /k/units (mode 0700)",
        "make folder /k/run (mode 0700)",
        "make folder /k/log (mode 0700)",
    ]
    assert whats(plan)[6].startswith(f"upload /k/agent/{DIGEST}.pyz (")
    assert whats(plan)[7:] == [
        f"point /k/agent/current to {DIGEST}.pyz",
        f"write /k/pass (0755, {len(PASS)} bytes)",
    ]
    stage.remote.on("sh -c")
    stage.action("klops.agent").apply(plan, stage.ctx)
    assert stage.remote.files == {
        f"/k/agent/{DIGEST}.pyz": (PACKAGE.data, 0o644),
        "/k/pass": (PASS, 0o755),
    }
    assert "/k/agent/current" in stage.remote.commands[-2]


def test_the_scheduled_pass_follows_the_settings() -> None:
    assert whats(Stage().plan("klops.agent", replies())) == []
    changed = SETTINGS | {"container": {"image": "vllm:1", "python": "/opt/py/bin/python3"}}
    stage = Stage(settings=Settings.model_validate(changed))
    assert [what.partition(" (")[0] for what in whats(stage.plan("klops.agent", replies()))] == [
        "write /k/pass"
    ]


def test_a_package_of_other_content_is_uploaded_again() -> None:
    plan = Stage().plan("klops.agent", replies(package="0" * 64 + "\n"))
    assert [what.split(" (")[0] for what in whats(plan)] == [f"upload /k/agent/{DIGEST}.pyz"]


def test_another_version_in_use() -> None:
    plan = Stage().plan("klops.agent", replies(link=LINK.replace(f"-> {DIGEST}", "-> 0123456789abcdef")))
    assert whats(plan) == [
        f"point /k/agent/current to {DIGEST}.pyz",
        f"compile agent {DIGEST} in the container",
    ]
    change = plan.changes[0]
    assert (change.before, change.after) == ("0123456789abcdef.pyz\n", f"{DIGEST}.pyz\n")


@pytest.mark.parametrize(
    ("answer", "warned"),
    [
        (reply(""), []),
        (
            reply("", stderr="klops: no compiled modules beside x, so verbs are slower: full\n"),
            ["klops: no compiled modules beside x, so verbs are slower: full"],
        ),
        (reply("", rc=137), ["status 137"]),
    ],
)
def test_an_agent_that_comes_while_the_container_runs_is_compiled_in_it(
    answer: Reply, warned: list[str]
) -> None:
    stage = Stage()
    stage.remote.on("sh -c").on(" compile ", answer)
    plan = stage.plan("klops.agent", replies(link=""))
    stage.action("klops.agent").apply(plan, stage.ctx)
    assert stage.remote.commands[-1].startswith("docker exec klops python3 -I -S -B /k/agent/current compile")
    told = "the agent is not compiled, so it is slower: "
    assert stage.warnings == [told + why for why in warned]
    # where none runs, the supervisor does it at its start; where no agent answers, it may not be able to
    for state, supervisor in (("exited", DIGEST), ("running", None)):
        other = Stage().plan("klops.agent", replies(link="", state=state, supervisor=supervisor))
        assert not any(what.startswith("compile") for what in whats(other))


def test_folders_that_are_too_open_are_closed_and_narrow_ones_stay() -> None:
    open_ = FOLDERS.replace(
        "drwx------ 2 0 0 4096 Nov 29 10:00 /k/units", "drwxr-xr-x 2 0 0 4096 Nov 29 10:00 /k/units"
    )
    narrow = open_.replace(
        "drwxr-xr-x 2 0 0 4096 Nov 29 10:00 /k\n", "drwx------ 2 0 0 4096 Nov 29 10:00 /k\n"
    )
    assert whats(Stage().plan("klops.agent", replies(narrow))) == ["mode 0700 of /k/units"]


def test_the_last_three_packages_stay_with_what_belongs_to_them() -> None:
    caches = [f"{OLD[3]}.cache-310", f"{OLD[0]}.cache-310"]
    names = [f"{DIGEST}.pyz", "current", *(f"{name}.pyz" for name in OLD), "README", *caches]
    plan = Stage().plan("klops.agent", replies(packages=names))
    gone = [f"/k/agent/{name}" for name in (*(f"{name}.pyz" for name in OLD[2:]), caches[0])]
    assert whats(plan) == [f"remove {', '.join(gone)}"]


def test_what_the_supervisor_runs_stays_however_old_it_is() -> None:
    names = [f"{name}.pyz" for name in (DIGEST, *OLD)]
    plan = Stage().plan("klops.agent", replies(packages=names, supervisor=OLD[4]))
    assert whats(plan) == [f"remove /k/agent/{OLD[2]}.pyz, /k/agent/{OLD[3]}.pyz"]


@pytest.mark.parametrize("state", ["running", "paused", "restarting"])
def test_nothing_goes_while_it_is_not_known_what_is_in_use(state: str) -> None:
    names = [f"{name}.pyz" for name in (DIGEST, *OLD)]
    assert whats(Stage().plan("klops.agent", replies(packages=names, state=state, supervisor=None))) == []
    assert whats(Stage().plan("klops.agent", replies(packages=names, state="exited", supervisor=None)))


def test_what_the_container_compiled_is_removed_through_it() -> None:
    stage = Stage()
    stage.remote.on("rm -rf", reply(rc=1, stderr="rm: cannot remove: Permission denied"))
    stage.remote.on("docker exec klops rm -rf")
    plan = stage.plan("klops.agent", replies(packages=[f"{name}.pyz" for name in (DIGEST, *OLD[:3])]))
    stage.action("klops.agent").apply(plan, stage.ctx)
    gone = f"rm -rf -- /k/agent/{OLD[2]}.pyz"
    assert stage.remote.commands == [gone, f"docker exec klops {gone}"]
    assert stage.warnings == []


def test_what_can_not_be_removed_is_a_warning() -> None:
    stage = Stage()
    stage.remote.on("rm -rf", reply(rc=1, stderr="rm: cannot remove: Permission denied"))
    Prune(("/k/agent/x.pyz",), ()).carry_out(stage.ctx)
    assert stage.warnings == [
        "old agents could not be removed, they stay: rm: cannot remove: Permission denied"
    ]
