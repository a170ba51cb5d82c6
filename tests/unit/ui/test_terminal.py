from __future__ import annotations

import io

import pytest
from rich.console import Console

from klops.actions.base import Change
from klops.errors import CommandFailed, HostKeyRejected, TaskFailed
from klops.playbook.events import (
    HostDropped,
    PlayStarted,
    RunFinished,
    RunStarted,
    TaskFinished,
    TaskProgress,
    TaskStarted,
    Warned,
)
from klops.playbook.results import PlayRun, RunResult, Status, TaskResult, TaskRun
from klops.secret import Redactor, Secret
from klops.ui.progress import Progress, clock, line
from klops.ui.terminal import TerminalSink, make_console

KEY = "obviously-a-secret"


def shown(*events: object, diff: bool = False, verbose: int = 0, origin: str = "shipped") -> str:
    stream = io.StringIO()
    redactor = Redactor()
    redactor.add(Secret(KEY))
    sink = TerminalSink(make_console(stream), redactor, origin=origin, diff=diff, verbose=verbose)
    for event in events:
        sink.handle(event)  # type: ignore[arg-type]  # a test may hand over any event
    return stream.getvalue()


def finished(status: Status, **values: object) -> TaskFinished:
    return TaskFinished("demo1", "task", "copy", TaskResult(status, **values))  # type: ignore[arg-type]


def test_it_says_which_playbook_runs_and_whether_it_is_shipped() -> None:
    text = shown(
        RunStarted("up.yml", ("demo1", "demo2"), True),
        PlayStarted("up", ("demo1",)),
        TaskStarted("t", "copy"),
    )
    assert text.splitlines() == [
        "up.yml (shipped) on 2 hosts, check mode: nothing is written",
        "PLAY up",
        "TASK t",
    ]


def test_a_change_is_listed_and_its_diff_only_when_asked_for() -> None:
    event = finished(Status.CHANGED, changes=(Change("write /a", "old\nsame\n", "new\nsame\n"),))
    plain, with_diff = shown(event), shown(event, diff=True)
    assert "+ write /a" in plain
    assert "-old" not in plain
    assert [x.strip() for x in with_diff.splitlines()[2:]] == [
        "--- before",
        "+++ after",
        "@@ -1,2 +1,2 @@",
        "-old",
        "+new",
        "same",
    ]


def test_debug_shows_its_message_and_other_tasks_theirs_only_with_v() -> None:
    result = TaskResult(Status.OK, message="one\ntwo")
    debug, other = TaskFinished("demo1", "t", "debug", result), TaskFinished("demo1", "t", "copy", result)
    assert shown(debug).splitlines() == ["  ok          demo1  one", "      two"]
    assert shown(other).splitlines() == ["  ok          demo1"]
    assert shown(other, verbose=1).splitlines() == ["  ok          demo1  one", "      two"]


def test_a_failure_has_message_and_fix() -> None:
    text = shown(
        finished(Status.FAILED, error=TaskFailed("disk is full", hint="make room"), message="disk is full")
    )
    assert text.splitlines() == ["  failed      demo1", "      disk is full", "      fix: make room"]


def test_no_secret_and_no_escape_sequence_comes_through() -> None:
    evil = f"\x1b]0;title\x07\x1b[31m{KEY}\x1b[0m\x00"
    text = shown(
        TaskStarted(evil, "copy"),
        finished(Status.CHANGED, message=evil, changes=(Change(evil, None, evil),)),
        finished(Status.FAILED, error=TaskFailed(evil, hint=evil)),
        TaskProgress("demo1", "t", evil, 1.0),
        Warned("demo1", evil),
        HostDropped("demo1", TaskFailed(evil)),
        RunFinished(RunResult("x", hosts=("demo1",))),
        diff=True,
        verbose=1,
    )
    assert KEY not in text
    assert "\x1b" not in text
    assert "\x00" not in text


def test_the_end_counts_names_the_failed_and_says_what_to_try_next() -> None:
    error = HostKeyRejected("demo2: unknown host key")
    result = RunResult(
        "up.yml",
        plays=[
            PlayRun(
                "up", ("demo1",), [TaskRun("t", "copy", {"demo1": TaskResult(Status.CHANGED, seconds=1.5)})]
            )
        ],
        hosts=("demo1", "demo2"),
        errors={"demo2": error},
        remote_commands={"demo1": 2},
        seconds=2.0,
    )
    lines = [
        x.split() for x in shown(HostDropped("demo2", error), RunFinished(result)).splitlines() if x.strip()
    ]
    assert lines[0] == [
        "host", "ok", "changed", "failed", "unreachable", "skipped", "rescued", "unknown", "seconds",
        "commands",
    ]  # fmt: skip
    assert lines[2] == ["demo1", "1", "1", "0", "0", "0", "0", "0", "1.5", "2"]
    assert " ".join(lines[-3]) == "demo2: unknown host key"
    assert " ".join(lines[-2]) == "next: klops hosts trust demo2"
    assert " ".join(lines[-1]) == "failed: 1 of 2 hosts (demo2), 2.0 s"


def test_progress_without_a_terminal_is_a_line_every_five_seconds_a_host() -> None:
    said: list[str] = []
    now = [100.0]
    progress = Progress(Console(file=io.StringIO()), live=False, say=said.append, now=lambda: now[0])
    for second in range(12):
        now[0] = 100.0 + second
        progress.update(TaskProgress("a", "t", f"loading {second}", float(second), percent=float(second)))
    progress.update(TaskProgress("b", "t", "loading", 61.0))
    assert said == [
        "a  0s   0%  loading 0",
        "a  5s   5%  loading 5",
        "a  10s  10%  loading 10",
        "b  1m01s  loading",
    ]


def test_on_a_terminal_the_line_is_live_and_gone_at_the_end() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=60)
    progress = Progress(console, live=True, say=lambda _: pytest.fail("a plain line"), now=lambda: 5.0)
    progress.update(TaskProgress("a", "t", "loading weights", 3.0, percent=40.0))
    progress.done("a")
    assert "a  3s  40%  loading weights" in stream.getvalue()
    assert progress._display is None


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0s"), (59.9, "59s"), (125, "2m05s"), (3720, "1h02m")])
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_a_line_without_percentage() -> None:
    assert line(TaskProgress("a", "t", "m", 1.0), 2.0) == "a  2s  m"


def test_no_color_and_no_terminal_give_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    console = make_console(Terminal())
    assert console.no_color
    assert console.is_terminal
    assert not make_console(io.StringIO()).is_terminal


def test_the_end_repeats_the_whole_failure_and_what_to_do() -> None:
    error = TaskFailed(
        "card 1 is gone (and 1 more)\n- port 8000 is taken", hint="look at xpu-smi", code="card-missing"
    )
    result = RunResult("up.yml", hosts=("demo2",), errors={"demo2": error})
    lines = shown(HostDropped("demo2", error), RunFinished(result)).splitlines()
    assert lines[-4:-1] == [
        "demo2: card 1 is gone (and 1 more)",
        "  - port 8000 is taken",
        "  fix: look at xpu-smi",
    ]


def test_a_long_output_of_a_command_is_cut_at_its_beginning() -> None:
    said = "".join(f"line {n}\n" for n in range(50))
    text = shown(finished(Status.FAILED, error=CommandFailed("ended with 1: line 49", stdout=said)))
    assert "... 30 more lines before" in text
    assert "line 29\n" not in text
    assert text.endswith("line 49\n")
    once = shown(finished(Status.FAILED, error=CommandFailed("ended with 1: oops", stderr="oops\n")))
    assert once.count("oops") == 1
