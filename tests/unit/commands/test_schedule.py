"""What is written for cron and systemd: read here as cron's own sources read it, and run by a real shell."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from klops.commands import schedule
from tests.unit.commands.crons import busybox, cronie, vixie

WORDS = [
    ["printf", r"%s\n", "clean-$(date +%F).log"],
    ["printf", r"an escaped \% and two \\% and \\\ ", "%"],
    ["printf", 'it\'s "quoted" 100% $HOME `id`', "ends with \\"],
    ["printf", r"\\", r"\%\%", "%%", "# 5 % of it", "模型 %"],
    ["docker", "exec", "a 'b' \"c\" container", "true"],
]


def as_run(shell_line: str) -> list[str]:
    """The words that a shell makes of it."""
    show = f"show() {{ for w; do printf '%s\\0' \"$w\"; done; }}; show {shell_line}"
    done = subprocess.run(["sh", "-c", show], capture_output=True, check=True)
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a POSIX shell")
@pytest.mark.parametrize("cron", [vixie, cronie, busybox])
@pytest.mark.parametrize("words", WORDS, ids=["format", "escaped", "quotes", "backslashes", "container"])
def test_row_G43_cron_runs_what_was_meant(cron: Callable[[str], str], words: list[str]) -> None:
    line = schedule.command(words)
    assert not re.search(r"(?<!\\)%", line)
    assert as_run(cron(line)) == words


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\0b"])
def test_row_G43_a_line_break_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="line break"):
        schedule.command(["echo", text])
    with pytest.raises(ValueError, match="line break"):
        schedule.file_text(text, "klops", "* * * * *")


def test_row_G43_the_whole_file() -> None:
    text = schedule.file_text("/srv/100% 'k'", "klops", "*/10 * * * *")
    *head, line = text.removesuffix("\n").split("\n")
    assert text.endswith("\n")
    assert all(one.startswith("#") or re.fullmatch(r"[A-Z]+=\S+", one) for one in head)
    fields = line.split(" ", 6)
    assert fields[:6] == ["*/10", "*", "*", "*", "*", "root"]
    assert as_run(vixie(fields[6])) == ["sh", "/srv/100% 'k'/pass", "--log"]
    assert head[0] == schedule.mark("/srv/100% 'k'")
    assert schedule.when(schedule.line_of(text)) == "*/10 * * * *"


NAMES = [
    "llm-v1.5",
    "llm-v1_5",
    "team.example.com",
    "模型",
    "型模",
    "a b",
    "a-b",
    "a.b",
    "x" * 70,
    "x" * 71,
    "",
]


def test_row_G44_names_that_cron_does_not_pass_over() -> None:
    files = [schedule.file_name(f"/data/{name}") for name in NAMES]
    assert len(set(files)) == len(NAMES), "two roots never have one file"
    for file in files:
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", file)
    assert schedule.file_name("/data/a b") == schedule.file_name("/data/a b")


def test_row_G44_the_job_needs_no_executable_bit() -> None:
    assert schedule.job("/k")[:2] == ["sh", "/k/pass"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ""),
        ({"name": "klops.sh"}, "letters, digits"),
        ({"content": b"* * * * * root true"}, "no end"),
        ({"content": b"* * * * * root true\r\n"}, "Windows"),
        ({"mode": 0o664}, "others than its owner"),
        ({"mode": 0o602}, "others than its owner"),
        ({"uid": 1000}, "not to root"),
        ({"kind": "link"}, "regular file"),
        ({"links": 2}, "regular file"),
        ({"mode": 0o600}, ""),
    ],
)
def test_row_G44_what_cron_would_pass_over(changed: dict[str, object], said: str) -> None:
    good: dict[str, object] = {
        "name": "klops",
        "content": b"* * * * * root true\n",
        "kind": "file",
        "mode": 0o644,
        "uid": 0,
        "links": 1,
    }
    about = {**good, **changed}
    found = schedule.refusals(about.pop("name"), about.pop("content"), **about)  # type: ignore[arg-type]
    assert (said in "; ".join(found)) if said else found == []


STRANGERS = (
    "# m h dom mon dow command\nMAILTO=ada\n\n*/5 * * * * echo 10\\% done # klops\n"
    "#Ansible: klops: the scheduled pass of /other\n@daily  true\n\t \n\n"
)


def test_a_user_s_crontab_keeps_the_lines_of_strangers_byte_by_byte() -> None:
    once = schedule.with_entry(STRANGERS, "/k", "*/10 * * * *")
    assert once.startswith(STRANGERS)
    assert once.endswith("/k\n*/10 * * * * sh /k/pass --log\n")
    assert schedule.with_entry(once, "/k", "*/10 * * * *") == once
    changed = schedule.with_entry(once, "/k", "@hourly")
    assert schedule.when(schedule.entry(changed, "/k")) == "@hourly"
    assert schedule.without_entry(changed, "/k") == STRANGERS
    assert schedule.without_entry(STRANGERS, "/k") == STRANGERS
    assert schedule.entry(STRANGERS, "/k") == ""
    assert schedule.without_entry(schedule.with_entry("", "/k", "@daily"), "/k") == ""


MARK = "#Ansible: klops: the scheduled pass of /k"
JOB = "*/10 * * * * sh /k/pass --log"


@pytest.mark.parametrize(
    "below",
    [
        ["0 3 * * * backup-db", "5 5 * * * other"],
        ["#Ansible: nightly backup", "0 3 * * * backup-db"],
        ["", "0 3 * * * backup-db"],
        ["0 3 * * * sh /k/pass --logs", "0 3 * * * sh /k/passes /k/pass --log"],
        [],
    ],
    ids=["job", "mark", "blank", "like ours", "nothing"],
)
def test_a_mark_without_its_job_takes_no_line_of_a_stranger_s(below: list[str]) -> None:
    def text(*lines: str) -> str:
        return "".join(f"{line}\n" for line in lines)

    had = text("MAILTO=ada", MARK, *below)
    assert schedule.entries(had, "/k") == []
    assert schedule.without_entry(had, "/k") == text("MAILTO=ada", *below)
    assert schedule.with_entry(had, "/k", "*/10 * * * *") == text("MAILTO=ada", MARK, JOB, *below)


@pytest.mark.parametrize(
    "entry",
    [
        [MARK, MARK, JOB],
        [MARK, JOB, MARK, JOB],
        [MARK, "#" + JOB],
        [MARK, "# @daily nice sh /k/pass --log >/dev/null"],
    ],
    ids=["two marks", "copied", "disabled", "edited"],
)
def test_all_of_the_entry_goes_and_comes_once(entry: list[str]) -> None:
    had = "\n".join(["@daily true", *entry, "@weekly true", ""])
    assert schedule.without_entry(had, "/k") == "@daily true\n@weekly true\n"
    wanted = f"@daily true\n{MARK}\n{JOB}\n@weekly true\n"
    assert schedule.with_entry(had, "/k", "*/10 * * * *") == wanted


HEADER = (
    "# DO NOT EDIT THIS FILE - edit the master and reinstall.\n"
    "# (- installed on Mon Nov 30 12:00:00 2026)\n"
    "# (Cron version V5.0 -- $Id: crontab.c,v 1.12 2004/01/23 18:56:42 vixie Exp $)\n"
)


def test_only_the_header_that_cron_writes_anew_is_left_out() -> None:
    assert schedule.with_entry(HEADER + STRANGERS, "/k", "@daily").startswith(STRANGERS)
    like_it = HEADER.splitlines(keepends=True)[0] + "# (ops, version 3)\n# keep\n" + STRANGERS
    once = schedule.with_entry(like_it, "/k", "@daily")
    assert once.startswith(like_it)
    assert schedule.without_entry(once, "/k") == like_it


@pytest.mark.parametrize(
    ("text", "calendars"),
    [
        ("*/10 * * * *", ["*-*-* *:00,10,20,30,40,50:00"]),
        ("@daily", ["*-*-* 00:00:00"]),
        ("5 4 1 * *", ["*-*-01 04:05:00"]),
        ("5 4 1 2 7", ["*-02-01 04:05:00", "Sun *-02-* 04:05:00"]),
        ("* * * * *", ["*-*-* *:*:00"]),
    ],
)
def test_the_same_moments_for_systemd(text: str, calendars: list[str]) -> None:
    assert schedule.calendar(text) == calendars
    if shutil.which("systemd-analyze"):
        for one in calendars:
            subprocess.run(["systemd-analyze", "calendar", one], check=True, capture_output=True)


def test_units_of_systemd() -> None:
    root = '/srv/100% "k" $x'
    service, timer = schedule.service_unit(root, "klops"), schedule.timer_unit(root, "@hourly")
    assert 'ExecStart=/bin/sh "/srv/100%% \\"k\\" $$x/pass" --log\n' in service
    assert "OnCalendar=*-*-* *:00:00\n" in timer
    for text in (service, timer):
        assert text.startswith(schedule.mark(root) + "\n")


def test_a_real_cron_accepts_the_line(tmp_path: Path) -> None:
    crontab = shutil.which("crontab")
    if (
        crontab is None
        or "-T" not in subprocess.run([crontab, "--help"], capture_output=True, text=True, check=False).stderr
    ):
        pytest.skip("needs a crontab program that can test a file (-T)")
    file = tmp_path / "crontab"
    file.write_text(schedule.with_entry("", "/srv/100% 'k' \\ x", "*/10 * * * *"))
    assert subprocess.run([crontab, "-T", str(file)], check=False).returncode == 0
