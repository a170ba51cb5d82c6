"""cron and systemd with stand-ins for crontab and systemctl, which keep their state in files."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

import pytest

from klops.errors import TaskFailed
from tests.unit.actions.playground import Playground

CRONTAB = """\
#!/bin/sh
if [ "$1" = -u ]; then user=$2; shift 2; else user=me; fi
case $1 in
  -l) cat "$SPOOL/$user" 2>/dev/null || { echo "no crontab for $user" >&2; exit 1; } ;;
  -) cat >"$SPOOL/new"
     grep -q BAD "$SPOOL/new" && { echo 'bad minute' >&2; exit 1; }
     mv "$SPOOL/new" "$SPOOL/$user" ;;
  *) exit 2 ;;
esac
"""
#: knows one unit; answers in the shapes of systemctl's manual
SYSTEMCTL = """\
#!/bin/sh
echo "$*" >>"$SPOOL/calls"
words=
for word; do case $word in -*) ;; *) words="$words $word" ;; esac; done
set -- $words
active=inactive enabled=disabled load=loaded
[ -e "$SPOOL/active" ] && active=active
[ -e "$SPOOL/enabled" ] && enabled=enabled
[ -e "$SPOOL/masked" ] && { enabled=masked; load=masked; }
[ "$2" = a ] || load=not-found
case $1 in
  show) printf 'Id=%s.service\\nLoadState=%s\\nActiveState=%s\\n' "$2" $load $active ;;
  is-enabled) echo $enabled; [ $enabled = enabled ] ;;
  start) [ $load = masked ] && { echo 'Unit a.service is masked.' >&2; exit 1; }; touch "$SPOOL/active" ;;
  stop) rm -f "$SPOOL/active" ;;
  enable) touch "$SPOOL/enabled" ;;
  mask) touch "$SPOOL/masked" ;;
  disable) rm -f "$SPOOL/enabled" ;;
  unmask) rm -f "$SPOOL/masked" ;;
esac
"""


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Playground:
    """A host with both programs."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (tmp_path / "spool").mkdir()
    for name, text in (("crontab", CRONTAB), ("systemctl", SYSTEMCTL)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return Playground(tmp_path)


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Where the stand-ins keep what they know."""
    return tmp_path / "spool"


def test_an_entry_of_a_crontab(ground: Playground, spool: Path) -> None:
    values = ground.settle("cron", name="clean", minute="15", hour="3", job="a %% b")
    assert (spool / "me").read_text() == "#Ansible: clean\n15 3 * * * a %% b\n"
    assert (values["jobs"], values["envs"]) == (["clean"], [])
    values = ground.settle("cron", name="clean", job="c", disabled=True, backup=True)
    assert (spool / "me").read_text() == "#Ansible: clean\n#* * * * * c\n"
    assert Path(values["backup_file"]).read_text() == "#Ansible: clean\n15 3 * * * a %% b\n"
    ground.settle("cron", name="MAILTO", env=True, value="root")
    assert (spool / "me").read_text().startswith('MAILTO="root"\n#Ansible: clean\n')
    ground.settle("cron", name="clean", state="absent")
    assert (spool / "me").read_text() == 'MAILTO="root"\n'


def test_the_crontab_of_another_user(ground: Playground, spool: Path) -> None:
    (spool / "her").write_text("@daily other")
    ground.settle("cron", name="clean", special_time="hourly", job="x", user="her")
    assert (spool / "her").read_text() == "@daily other\n#Ansible: clean\n@hourly x\n"


def test_ones_own_crontab_by_name(ground: Playground, spool: Path) -> None:
    ground.settle("cron", name="clean", job="x", user=getpass.getuser())
    assert (spool / "me").read_text() == "#Ansible: clean\n* * * * * x\n"


def test_a_crontab_that_cron_does_not_take(ground: Playground, spool: Path) -> None:
    (spool / "me").write_text("@daily other\n")
    with pytest.raises(Exception, match="bad minute"):
        ground.do("cron", name="clean", job="BAD")
    assert (spool / "me").read_text() == "@daily other\n"


def test_a_file_of_cron(ground: Playground, tmp_path: Path) -> None:
    path = tmp_path / "klops"
    ground.settle("cron", name="clean", job="x", user="root", cron_file=str(path))
    assert path.read_text() == "#Ansible: clean\n* * * * * root x\n"
    assert f"{path.stat().st_mode & 0o777:o}" == "644"
    values = ground.settle("cron", name="clean", state="absent", cron_file=str(path))
    assert values["cron_file"] == str(path)
    assert not path.exists()


def test_a_unit_started_and_stopped(ground: Playground, spool: Path) -> None:
    values = ground.settle("systemd", name="a", state="started", enabled=True)
    assert (values["state"], values["enabled"], values["status"]["ActiveState"]) == (
        "started",
        True,
        "inactive",
    )
    assert (spool / "active").exists()
    assert (spool / "enabled").exists()
    ground.settle("systemd", name="a", state="stopped", enabled=False)
    ground.settle("systemd", name="a", masked=True)
    with pytest.raises(TaskFailed, match=r"Unit a\.service is masked"):
        ground.do("systemd", name="a", state="started")
    ground.settle("systemd_service", name="a", masked=False, state="started")
    assert (spool / "active").exists()


def test_the_manager_reads_its_files_first(ground: Playground, spool: Path) -> None:
    values = ground.do(
        "systemd", name="a", state="restarted", daemon_reload=True, scope="user", no_block=True
    )
    assert values["changed"] is True
    assert (spool / "calls").read_text().splitlines()[2:] == [
        "--user --no-block daemon-reload",
        "--user --no-block start a",
    ]
    assert ground.do("systemd", daemon_reload=True)["changed"] is False


def test_a_unit_that_is_not_there(ground: Playground) -> None:
    with pytest.raises(TaskFailed, match="Could not find the requested service b"):
        ground.do("systemd", name="b", state="started")
