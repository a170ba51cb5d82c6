from __future__ import annotations

import io

import pytest
from rich.console import Console

from klops.actions.base import Change
from klops.errors import CommandFailed, HostKeyRejected, LockHeld, TaskFailed
from klops.playbook.events import (
    HostDropped,
    PlayEnded,
    PlayStarted,
    RunFinished,
    RunStarted,
    TaskFinished,
    TaskProgress,
    TaskStarted,
    Warned,
)
from klops.playbook.results import PlayRun, RunResult, Status, TaskResult, TaskRun, TurnResult
from klops.secret import Redactor, Secret
from klops.ui.diff import unified
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


def test_only_what_ends_a_line_of_a_file_ends_one_of_a_diff() -> None:
    change = Change("write /a", "one\x0ctwo\u2028three\nsame\r\n", "other\nsame\n")
    assert unified(change)[3:] == ["-one\x0ctwo\u2028three", "+other", " same"]
    assert unified(Change("write /a", "", "\n"))[3:] == ["+"]
    assert unified(Change("write /a", "no end", "no end\n")) == []


def test_with_the_free_strategy_a_heading_comes_back_when_the_task_changes() -> None:
    text = shown(
        PlayStarted("up", ("a", "b"), 2, 3, free=True),
        TaskStarted("one", "copy", number=1),
        TaskStarted("two", "copy", number=2),
        *(
            TaskFinished(host, "-", "copy", TaskResult(Status.OK), n)
            for host, n in [("a", 1), ("a", 2), ("b", 1)]
        ),
        TaskFinished("b", "-", "copy", TaskResult(Status.FAILED, ignored=True), 1),
        PlayEnded("up", "too many"),
        Warned("", "for all"),
    )
    assert text.splitlines() == [
        "PLAY up (batch 2/3)",
        "TASK one",
        "  ok          a",
        "TASK two",
        "  ok          a",
        "TASK one",
        "  ok          b",
        "  failed      b  (ignored)",
        "PLAY up ends here: too many",
        "  warning  for all",
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


def test_a_failure_that_quotes_an_earlier_one_of_its_host_repeats_no_lines() -> None:
    first = TaskFailed("main failed: boom\nits last lines:\nx", hint="look")
    after = TaskFailed("1 serves again; given up: main failed: boom\nits last lines:\nx")
    text = shown(*(finished(Status.FAILED, error=one, message=one.message) for one in (first, after)))
    assert text.splitlines() == [
        "  failed      demo1",
        "      main failed: boom",
        "      its last lines:",
        "      x",
        "      fix: look",
        "  failed      demo1",
        "      1 serves again; given up: main failed: boom",
    ]


def test_the_host_is_named_once() -> None:
    error = LockHeld("demo1: lilei is changing this host")
    text = shown(finished(Status.FAILED, error=error, message=error.message))
    assert text.splitlines() == ["  failed      demo1", "      lilei is changing this host"]


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
        "host", "ok", "changed", "failed", "unreachable", "skipped", "rescued", "ignored", "unknown",
        "seconds", "commands",
    ]  # fmt: skip
    assert lines[2] == ["demo1", "1", "1", "0", "0", "0", "0", "0", "0", "1.5", "2"]
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


def test_the_end_tells_in_one_line_a_failure_that_was_told_and_what_to_do() -> None:
    error = TaskFailed("card 1 is gone (and 1 more)\n- port 8000 is taken", hint="look at xpu-smi")
    lost = HostKeyRejected("demo1: unknown host key")
    result = RunResult("up.yml", hosts=("demo1", "demo2"), errors={"demo2": error, "demo1": lost})
    told = [TaskFinished("demo2", "t", "copy", TaskResult(Status.FAILED, error=error, message=error.message))]
    told += [TaskFinished("demo1", "t", "copy", TaskResult(Status.UNREACHABLE, error=lost, place="web"))]
    dropped = (HostDropped("demo2", error), HostDropped("demo1", lost))
    assert shown(*told, *dropped, RunFinished(result)).splitlines()[-3:-1] == [
        "demo2: card 1 is gone (and 1 more); fix: look at xpu-smi",
        # where it was delegated to
        "demo1: unknown host key; next: klops hosts trust web",
    ]


def test_the_end_of_a_delegated_loop_names_the_host_of_its_first_failed_turn() -> None:
    turns = tuple(
        TurnResult(name, Status.UNREACHABLE, error=HostKeyRejected(f"{name}: unknown"), place=name)
        for name in ("web", "db")
    )
    # errors are copied on their way
    error = HostKeyRejected("web: unknown")
    told = finished(Status.UNREACHABLE, error=error, items=turns)
    end = RunFinished(RunResult("x", hosts=("demo1",), errors={"demo1": HostKeyRejected("web: unknown")}))
    last = shown(told, HostDropped("demo1", error), end).splitlines()[-2]
    assert last == "demo1: web: unknown; next: klops hosts trust web"


def test_the_end_says_what_is_left_for_another_run() -> None:
    result = RunResult("x", hosts=("h1", "h2", "h3"), errors={"h1": TaskFailed("no")})
    result.not_run = [("p", ("h2", "h3"))]
    result.handlers_left = {"h1": ("restart app",)}
    result.plays = [PlayRun("p", ("h1",))]
    assert shown(RunFinished(result)).splitlines()[-4:-1] == [
        "h1: no",
        "h1: handler restart app runs at the next run of this play",
        "not run: h2, h3",
    ]
    result.not_run.append(("q", ("h2",)))
    result.handlers_left["h1"] = ("a", "b")
    assert shown(RunFinished(result)).splitlines()[-4:-1] == [
        "h1: handlers a, b run at the next run of this play",
        "not run in play p: h2, h3",
        "not run in play q: h2",
    ]


def test_ignored_failures_are_counted_in_the_last_line() -> None:
    done = TaskResult(Status.FAILED, ignored=True)
    result = RunResult("x", hosts=("h1", "h2"), plays=[PlayRun("p", ("h1", "h2"), [
        TaskRun(name, "copy", {"h1": done, "h2": done}) for name in "ab"
    ])])  # fmt: skip
    assert shown(RunFinished(result)).splitlines()[-1] == "ok: 2 hosts, nothing changed, 4 ignored, 0.0 s"


def looped(status: Status, **values: object) -> TaskFinished:
    turns = (
        TurnResult("a", Status.OK, "fine"),
        TurnResult("b", Status.FAILED, "no b", TaskFailed("no b", hint="make it")),
        TurnResult("c", Status.CHANGED),
        TurnResult("d", Status.FAILED, "no d\nat all", TaskFailed("no d\nat all", hint="make it")),
    )
    return finished(status, items=turns, error=turns[1].error, message="b: no b", **values)


def test_every_failed_turn_of_a_loop_is_told_and_with_v_the_others_too() -> None:
    failures = [
        "      failed      b: no b",
        "      fix: make it",
        "      failed      d: no d",
        "        at all",
    ]
    assert shown(looped(Status.FAILED)).splitlines() == ["  failed      demo1", *failures]
    assert shown(looped(Status.FAILED), verbose=1).splitlines() == [
        "  failed      demo1",
        "      ok          a: fine",
        *failures[:2],
        "      changed     c",
        *failures[2:],
    ]


def test_a_failure_that_is_taken_care_of_comes_without_advice() -> None:
    error = TaskFailed("no", hint="to run it alone: klops exec")
    for event in (finished(Status.RESCUED, error=error), finished(Status.FAILED, error=error, ignored=True)):
        assert "fix:" not in shown(event)
    assert "fix:" not in shown(looped(Status.RESCUED))
    assert "fix: to run it alone" in shown(finished(Status.FAILED, error=error))


def test_a_line_says_where_a_delegated_task_ran_and_wide_names_are_aligned() -> None:
    lines = shown(
        PlayStarted("p", ("p800-01", "主机")),
        TaskFinished("p800-01", "t", "copy", TaskResult(Status.CHANGED, message="m", place="web-b")),
        TaskFinished("主机", "t", "copy", TaskResult(Status.CHANGED, message="m")),
    ).splitlines()[1:]
    assert lines == ["  changed     p800-01 -> web-b  m", "  changed     主机     m"]


def test_hints_of_several_lines_are_indented() -> None:
    text = shown(finished(Status.FAILED, error=TaskFailed("no", hint="do\nthis")))
    assert text.splitlines()[2:] == ["      fix: do", "           this"]


def test_the_end_has_the_whole_of_a_failure_that_was_not_told() -> None:
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
