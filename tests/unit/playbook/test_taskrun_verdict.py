"""What a task's own keywords make of its result. Each was compared with what ansible-core 2.19 does."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from klops.errors import HostUnreachable, LockHeld
from klops.playbook.model import Retry, Task
from klops.playbook.results import Status
from klops.remote.fake import reply
from tests.unit.playbook.onehost import Bench, task

BAD = reply("out\n", rc=3, stderr="err\n")


@pytest.fixture
def bench() -> Bench:
    """A host on which ``good`` succeeds and ``bad`` ends with 3."""
    made = Bench()
    made.fleet.remote().on("good", "fine\n").on("bad", BAD)
    return made


def command(text: str, **keywords: Any) -> Task:
    return task("command", {"cmd": text}, register="r", **keywords)


def test_a_failed_command_registers_what_it_said(bench: Bench) -> None:
    # ansible: changed true, failed true, rc, stdout, stderr, both as lines, cmd
    result = bench.run(command("bad"))
    assert result.status is Status.FAILED
    for expression, value in {
        "r.rc": 3,
        "r.stdout": "out",
        "r.stderr_lines": ["err"],
        "r.cmd": ["bad"],
        "r is failed": True,
    }.items():
        assert bench.shows(expression) == value


# -- failed_when and changed_when ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "conditions", "status"),
    [
        ("bad", ("false",), Status.CHANGED),
        ("bad", ("r.rc not in [0, 3]",), Status.CHANGED),
        ("good", ("r.rc == 0",), Status.FAILED),
        # a list is joined by "and"
        ("good", ("true", "false"), Status.CHANGED),
        ("good", ("true", "r.stdout == 'fine'"), Status.FAILED),
    ],
)
def test_failed_when_decides(bench: Bench, text: str, conditions: tuple[str, ...], status: Status) -> None:
    result = bench.run(command(text, failed_when=conditions))
    assert result.status is status
    assert result.values["failed_when_result"] is (status is Status.FAILED)
    assert result.values["failed"] is (status is Status.FAILED)
    assert (result.error is None) is (status is not Status.FAILED)


@pytest.mark.parametrize("keyword", ["failed_when", "changed_when"])
@pytest.mark.parametrize("condition", ["nope == 0", "rc == 0", "'text'"])
def test_a_condition_that_is_none_fails_the_task(bench: Bench, keyword: str, condition: str) -> None:
    # the module's result is known under the registered name only, not by bare names
    result = bench.run(command("good", **{keyword: (condition,)}))
    assert result.status is Status.FAILED
    assert f"p.yml:3:7: {keyword}:" in result.message
    assert isinstance(result.values[f"{keyword}_result"], str)
    assert result.values["rc"] == 0


def test_changed_when_decides_and_says_nothing_of_failure(bench: Bench) -> None:
    bench.with_handlers("h")
    same = bench.run(command("good", changed_when=("false",)))
    assert (same.status, same.changes, same.values["changed"]) == (Status.OK, (), False)
    made = bench.run(task("debug", {"msg": "x"}, changed_when=("true",), notify=("h",)))
    assert made.status is Status.CHANGED
    assert bench.fleet.host("h1").notified == {"h": ""}
    failed = bench.run(command("bad", changed_when=("false",)))
    assert (failed.status, failed.values["changed"]) == (Status.FAILED, False)


def test_conditions_see_the_turn_of_a_loop(bench: Bench) -> None:
    result = bench.run(command("good", loop=[1, 2], failed_when=("item == 2 and r.stdout == 'fine'",)))
    assert [turn["failed"] for turn in result.values["results"]] == [False, True]
    assert result.status is Status.FAILED
    assert result.values["changed"] is True


def test_failed_when_saves_no_task_that_could_not_be_rendered(bench: Bench) -> None:
    result = bench.run(task("debug", {"msg": "{{ nope }}"}, failed_when=("false",)))
    assert result.status is Status.FAILED


def test_an_assertion_is_judged_as_any_failure(bench: Bench) -> None:
    assert bench.run(task("assert", {"that": "1 == 2"}, failed_when=("false",))).status is Status.OK


# -- ignore_errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [True, "yes", "{{ 1 == 1 }}"])
def test_ignored_failures_are_registered_as_such(bench: Bench, value: Any) -> None:
    result = bench.run(command("bad", ignore_errors=value))
    assert (result.status, result.ignored) == (Status.FAILED, True)
    assert bench.shows("r is failed and r.rc == 3 and r is changed") is True


def test_a_template_that_cannot_be_rendered_is_ignored_too(bench: Bench) -> None:
    assert bench.run(task("debug", {"msg": "{{ nope }}"}, ignore_errors=True)).ignored


def test_ignore_errors_has_its_own_mistakes(bench: Bench) -> None:
    for value in ("{{ nope }}", "perhaps"):
        result = bench.run(command("bad", ignore_errors=value))
        assert (result.status, result.ignored) == (Status.FAILED, False)
        assert result.message.startswith("p.yml:3:7: ")


def test_an_unreachable_host_has_a_keyword_of_its_own(bench: Bench) -> None:
    bench.fleet.remote().unreachable = "no route"
    result = bench.run(command("good", ignore_errors=True))
    assert (result.status, result.ignored) == (Status.UNREACHABLE, False)
    result = bench.run(command("good", ignore_unreachable=True))
    assert (result.status, result.ignored) == (Status.UNREACHABLE, True)
    # ansible registers unreachable and no failure
    assert bench.shows("r.unreachable and r is not failed") is True


def test_a_lock_that_somebody_holds_is_not_ignored(bench: Bench) -> None:
    def held() -> None:
        raise LockHeld("somebody else changes h1")

    bench.fleet.remote()
    bench.fleet.locks["h1"].acquire = held  # type: ignore[method-assign]  # a lock as it can be
    result = bench.run(command("good", ignore_errors=True, failed_when=("false",)))
    assert (result.status, result.ignored) == (Status.FAILED, False)


# -- until ---------------------------------------------------------------------------------------------------


def answering(bench: Bench, *statuses: int) -> list[int]:
    """Make ``again`` end with these in turn; what is left of them."""
    left = list(statuses)
    bench.fleet.remote().on("again", lambda call: reply(rc=left.pop(0)))
    return left


def test_a_task_is_tried_until_its_condition_holds(bench: Bench) -> None:
    left = answering(bench, 1, 1, 0, 0)
    result = bench.run(command("again", retry=Retry(("r.rc == 0",), retries=5, delay=0)))
    assert result.status is Status.CHANGED
    assert result.values["attempts"] == 3
    assert left == [0]
    assert bench.said == ["attempt 2 of 6", "attempt 3 of 6"]


def test_giving_up_counts_as_ansible_does(bench: Bench) -> None:
    # retries: 2 is three attempts, of which ansible registers two
    left = answering(bench, 1, 1, 1, 0)
    result = bench.run(command("again", retry=Retry(("r.rc == 0",), retries="{{ 1 + 1 }}", delay="0")))
    assert (result.status, result.values["attempts"], left) == (Status.FAILED, 2, [0])
    assert result.values["rc"] == 1


def test_without_a_condition_it_is_tried_until_it_succeeds(bench: Bench) -> None:
    left = answering(bench, 1, 0, 0)
    assert bench.run(command("again", retry=Retry((), 3, 0))).status is Status.CHANGED
    assert left == [0]


def test_a_condition_that_never_holds_fails_a_task_that_succeeds(bench: Bench) -> None:
    result = bench.run(command("good", retry=Retry(("r.stdout == 'other'",), 1, 0)))
    assert result.status is Status.FAILED
    assert result.error is not None
    assert result.error.code == "until"
    assert "after 2 attempts" in result.message
    assert result.values["stdout"] == "fine"


def test_no_retries_ask_no_condition(bench: Bench) -> None:
    result = bench.run(command("good", retry=Retry(("false",), 0, 0)))
    assert result.status is Status.CHANGED
    assert "attempts" not in result.values


def test_a_mistake_in_until_is_not_tried_again(bench: Bench) -> None:
    result = bench.run(command("good", retry=Retry(("nope",), 5, 0)))
    assert result.status is Status.FAILED
    assert bench.said == []


def test_an_unreachable_host_is_not_tried_again(bench: Bench) -> None:
    bench.fleet.remote().on("gone", HostUnreachable("no route"))
    assert bench.run(command("gone", retry=Retry(("r is succeeded",), 5, 0))).status is Status.UNREACHABLE
    assert bench.said == []


def test_conditions_of_the_task_may_tell_the_attempt(bench: Bench) -> None:
    retry = Retry(("r is succeeded",), 4, 0)
    result = bench.run(command("good", retry=retry, failed_when=("r.attempts < 3",)))
    assert (result.status, result.values["attempts"]) == (Status.CHANGED, 3)


def test_each_attempt_reads_anew_and_only_for_itself(bench: Bench) -> None:
    remote = bench.fleet.remote()
    there: list[int] = []

    def listed(call: Any) -> Any:
        there.append(1)
        return reply(rc=44) if len(there) < 3 else "-rw-r--r-- 1 0 0 1 Nov 29 15:26 /a\n"

    remote.on(lambda call: call.kind == "read" and "/a" in call.text, listed)
    remote.on(lambda call: call.kind == "read" and "/later" in call.text, reply(rc=44))
    waits = task("stat", {"path": "/a"}, register="r", retry=Retry(("r.attempts == 3",), 5, 0))
    later = task("stat", {"path": "/later"})
    bench.run(waits, later)
    assert len(there) == 3
    assert sum("/later" in call.text for call in remote.log) == 1


def test_an_interrupt_ends_the_wait(bench: Bench) -> None:
    answering(bench, 1, 1)
    timer = threading.Timer(0.1, bench.cancelled.set)
    timer.start()
    began = time.monotonic()
    result = bench.run(command("again", retry=Retry((), 3, 600)))
    assert result.error is not None
    assert result.error.code == "interrupted"
    assert time.monotonic() - began < 60
