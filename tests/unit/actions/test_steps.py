"""What the scripts of steps leave behind, in the shells of hosts; and what others write meanwhile."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from klops.actions.base import Context
from klops.actions.files.filesteps import CopyOnHost, MakeLink, SetBelow
from klops.actions.steps import MakeDirectory, SetMode, WriteFile
from klops.actions.system.cron import InstallCrontab
from klops.errors import ChangedMeanwhile, TaskFailed
from klops.remote.base import Remote, Reply
from klops.remote.local import LocalRemote
from klops.remote.placing import CHANGED, NOTHING, digest_of, put_input
from tests.unit.actions.playground import Playground
from tests.unit.playbook.support import Lab

SHELLS = [["dash"], ["busybox", "sh"]]
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
pytestmark = pytest.mark.skipif(
    not all(shutil.which(shell[0]) for shell in SHELLS), reason="needs dash and busybox"
)


@pytest.fixture(params=SHELLS, ids=["dash", "busybox"])
def shell(request: pytest.FixtureRequest) -> list[str]:
    """A shell that hosts have."""
    found: list[str] = request.param
    return found


@pytest.fixture
def ground(tmp_path: Path) -> Playground:
    (tmp_path / "control").mkdir()
    return Playground(tmp_path / "control")


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """The folder that steps work in."""
    made = tmp_path / "host"
    made.mkdir()
    return made


def context(ground: Playground) -> Context:
    return Context(ground.remote, ground.view(), lambda now: None, ground.warned.append)


def sh(shell: list[str], script: str, *args: object, path: str = "", stdin: bytes = b"") -> int:
    env = {"PATH": f"{path}:{os.environ['PATH']}"}
    argv = [*shell, "-c", script, "step", *map(str, args)]
    return subprocess.run(argv, input=stdin, env=env, check=False).returncode


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@ROOT
def test_nobody_gets_a_folder_before_what_is_below_it_is_done(
    shell: list[str], host: Path, tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("chown", "chmod", "mkdir"):
        log = 'for p; do :; done; echo "$0 ${p##*/}" | sed s,.*/,, >>"$LOG"'
        (tools / tool).write_text(f'#!/bin/sh\nLOG={tmp_path}/log\n{log}\nexec /bin/{tool} "$@"\n')
        (tools / tool).chmod(0o755)
    new = host / "a" / "b b" / "c"
    assert sh(["dash"], MakeDirectory.SCRIPT, new, "02770", "12:13", path=str(tools)) == 0
    made = ["mkdir a", "mkdir b b", "mkdir c"]
    handed = [f"{tool} {name}" for name in ("c", "b b", "a") for tool in ("chmod", "chown")]
    assert (tmp_path / "log").read_text().splitlines() == made + handed
    shutil.rmtree(host / "a")
    assert sh(shell, MakeDirectory.SCRIPT, new, "02770", "12:13") == 0
    for folder in (new, new.parent, host / "a"):
        found = folder.stat()
        assert (found.st_uid, found.st_gid, mode(folder)) == (12, 13, 0o2770)
    assert sh(shell, MakeDirectory.SCRIPT, new, "0700", "") == 0
    assert mode(new) == 0o2770
    (host / "file").write_text("")
    assert sh(shell, MakeDirectory.SCRIPT, host / "file" / "x", "0700", "") != 0


def test_links_are_swapped_without_a_moment_in_which_there_is_none(
    shell: list[str], host: Path, tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "rm").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/log\nexec /bin/rm "$@"\n')
    (tools / "rm").chmod(0o755)
    (host / "one").mkdir()
    (host / "two").mkdir()
    (host / "l").symlink_to("one")
    assert sh(shell, MakeLink.SCRIPT, "two", host / "l", "-s", "") == 0
    assert (host / "l").readlink() == Path("two")
    assert sh(["dash"], MakeLink.SCRIPT, "one", host / "l", "-s", "", path=str(tools)) == 0
    assert f"{host}/l" not in (tmp_path / "log").read_text().split()
    assert sorted(path.name for path in host.rglob("*")) == ["l", "one", "two"]
    assert sh(shell, MakeLink.SCRIPT, "one", host / "two", "-s", "yes") == 0
    assert (host / "two").readlink() == Path("one")


def test_a_link_of_a_host_whose_mv_knows_less(shell: list[str], host: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "mv").write_text('#!/bin/sh\n[ "$1" != -fT ] || exit 64\nexec /bin/mv "$@"\n')
    (tools / "mv").chmod(0o755)
    script = MakeLink.SCRIPT.replace("mv -f", f"{tools}/mv -f")
    (host / "one").mkdir()
    (host / "l").symlink_to("one")
    assert sh(shell, script, "two", host / "l", "-s", "") == 0
    assert (host / "l").readlink() == Path("two")
    assert sh(shell, script, "two", host / "one", "-s", "") == 73
    assert list((host / "one").iterdir()) == []


def test_a_copy_on_the_host(shell: list[str], host: Path) -> None:
    (host / "src").write_text("x")
    to = host / "new" / ("n" * 255)
    assert sh(shell, CopyOnHost.SCRIPT, host / "src", to, "00640") == 0
    assert (to.read_text(), mode(to)) == ("x", 0o640)
    assert len(list(to.parent.iterdir())) == 1


def test_what_became_a_link_keeps_its_target_as_it_is(shell: list[str], host: Path) -> None:
    (host / "outside").write_text("")
    (host / "outside").chmod(0o600)
    (host / "in").mkdir()
    (host / "in" / "a").write_text("")
    (host / "in" / "l").symlink_to("../outside")
    paths = (host / "in" / "l", host / "in" / "a", host / "in")
    assert sh(shell, SetBelow.CHMOD, "00770", *paths) == 0
    assert [mode(path) for path in (host / "in", host / "in" / "a")] == [0o770, 0o770]
    assert mode(host / "outside") == 0o600


def test_modes_and_owners_where_options_end_at_the_first_word(
    ground: Playground, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSIXLY_CORRECT", "1")
    (host / "x").write_text("")
    SetMode(f"{host}/x", 0o644, 0o600).carry_out(context(ground))
    assert mode(host / "x") == 0o600
    ids = {"owner": str(os.geteuid()), "group": str(os.getegid())}
    ground.settle("file", path=f"{host}/d", state="directory", mode="0750", **ids)
    ground.settle("copy", content="a", dest=f"{host}/y", mode="0600", **ids)
    ground.settle("file", path=f"{host}", state="directory", recurse=True, mode="u=rwX,go=")
    assert [mode(path) for path in (host / "x", host / "d", host / "y")] == [0o600, 0o700, 0o600]


@pytest.mark.parametrize("validate", ["", "test -f %s"])
def test_a_file_that_changed_since_the_plan_is_left_alone(
    ground: Playground, host: Path, validate: str
) -> None:
    path = host / "x"
    path.write_text("theirs")
    for seen in (digest_of(b"ours"), NOTHING):
        step = WriteFile(
            str(path), b"new", 0o644, seen=seen, backup=str(path), validate=validate, owner=(None, None)
        )
        with pytest.raises(ChangedMeanwhile):
            step.carry_out(context(ground))
    assert path.read_text() == "theirs"
    assert [found.name for found in host.iterdir()] == ["x"]


def test_what_a_plan_writes_it_has_seen(ground: Playground, host: Path) -> None:
    (host / "x").write_text("one")
    given = {"content": "two", "dest": f"{host}/x"}
    (step,) = ground.plan("copy", given).steps
    assert isinstance(step, WriteFile)
    assert step.seen == digest_of(b"one")
    (step,) = ground.plan("copy", {**given, "dest": f"{host}/y"}).steps
    assert isinstance(step, WriteFile)
    assert step.seen == NOTHING
    (host / "l").symlink_to("x")
    (step,) = ground.plan("copy", {**given, "dest": f"{host}/l"}).steps
    # the link makes way whatever it leads to
    assert isinstance(step, WriteFile)
    assert step.seen == ""


def test_one_command_writes_a_file_and_says_what_it_is(ground: Playground, host: Path) -> None:
    plan = ground.plan("copy", {"content": "x", "dest": f"{host}/new/x", "mode": "0600"})
    before = ground.remote.commands_run
    (step,) = plan.steps
    values = step.carry_out(context(ground))
    assert values is not None
    assert (values["mode"], values["size"], values["state"]) == ("0600", 1, "file")
    assert ground.remote.commands_run == before + 1


def test_a_crontab_that_changed_since_the_plan_is_left_alone(
    shell: list[str], host: Path, tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    store = host / "tab"
    script = f'#!/bin/sh\nif [ "$1" = -l ]; then cat {store} 2>/dev/null; else cat >{store}; fi\n'
    (tools / "crontab").write_text(script)
    (tools / "crontab").chmod(0o755)

    def install(text: bytes, seen: bytes) -> int:
        stdin = put_input(text, digest_of(seen))
        return sh(shell, InstallCrontab.INSTALL, "", path=str(tools), stdin=stdin)

    assert install(b"one\n", b"") == 0
    assert install(b"two\n", b"") == CHANGED
    assert store.read_text() == "one\n"
    assert install(b"two\n", b"one\n") == 0
    assert store.read_text() == "two\n"


def test_a_crontab_that_was_not_read_whole_is_not_written(
    ground: Playground, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("klops.actions.system.cron.SIZE_LIMIT", 20)
    (host / "tab").write_text("# what somebody wrote there\n")
    with pytest.raises(TaskFailed, match="larger than"):
        ground.do("cron", name="x", job="true", user="root", cron_file=f"{host}/tab")


def test_a_line_added_between_the_plan_and_the_change_is_there_in_the_end(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("one\n")

    class Meddled(LocalRemote):
        """Somebody else writes to the file just before it is written."""

        def put(self, data: bytes, path: str, **more: Any) -> Reply:
            with Path(path).open("a") as file:
                if "theirs" not in Path(path).read_text():
                    file.write("theirs\n")
            return super().put(data, path, **more)

        def clone(self, **_: Any) -> Remote:
            return self

    folder = tmp_path / "playbook"
    folder.mkdir()
    lab = Lab(folder, inventory="all: {hosts: {h1: {}}}", wrap=lambda _: Meddled("h1"))
    ran = lab.tasks(f"- lineinfile: {{path: {path}, line: ours}}")
    assert ran.statuses() == ["changed"]
    assert path.read_text() == "one\ntheirs\nours\n"
