"""Check mode: what is certain is said, what isn't is unknown; and what nobody may see is not shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from klops.errors import CommandFailed
from klops.playbook.model import Retry, Task
from klops.playbook.results import Status
from klops.playbook.tasks.redaction import hidden, redacted
from klops.remote.fake import reply
from klops.secret import Secret
from tests.unit.playbook.onehost import Bench, task
from tests.unit.playbook.support import Lab


@pytest.fixture
def bench() -> Bench:
    """A dry run on a host where no file is."""
    made = Bench(check=True)
    made.fleet.remote().on(lambda call: call.kind == "read", reply(rc=44))
    return made


def copied(**keywords: Any) -> Task:
    return task("copy", {"content": "x", "dest": "/a"}, register="r", **keywords)


def test_what_would_change_is_known_in_part(bench: Bench) -> None:
    assert bench.run(copied()).status is Status.CHANGED
    assert bench.shows("r is changed and r is not failed and r is not skipped") is True
    assert bench.run(task("debug", {"msg": "{{ r.nothing }}"})).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("keywords", "status"),
    [
        ({"failed_when": ("r is changed",)}, Status.FAILED),
        ({"failed_when": ("r.later == 1",)}, Status.UNKNOWN),
        ({"changed_when": ("r.later == 1",)}, Status.UNKNOWN),
        ({"changed_when": ("false",)}, Status.OK),
        # what would change isn't tried again: nothing would become of it
        ({"retry": Retry(("r is not changed",), 5, 600)}, Status.CHANGED),
    ],
)
def test_conditions_on_what_would_change(bench: Bench, keywords: Any, status: Status) -> None:
    assert bench.run(copied(**keywords)).status is status


def test_what_is_said_to_be_no_change_is_still_known_in_part_only(bench: Bench) -> None:
    bench.run(copied(changed_when=("false",)))
    assert bench.shows("r is changed") is False
    assert bench.run(task("debug", {"msg": "{{ r.later }}"})).status is Status.UNKNOWN


def test_a_command_stays_unknown_whatever_its_conditions(bench: Bench) -> None:
    # ansible skips it; klops doesn't know what it would do
    made = task("command", {"cmd": "x"}, register="r", changed_when=("false",), failed_when=("r.rc == 1",))
    assert bench.run(made).status is Status.UNKNOWN
    assert bench.run(task("debug", {"msg": "x"}, when=("r.rc == 0",))).status is Status.UNKNOWN
    assert bench.run(task("debug", {"msg": "x"}, loop="{{ r.stdout_lines }}")).status is Status.UNKNOWN


@pytest.mark.parametrize(("ignores", "status"), [(False, Status.OK), (True, Status.UNKNOWN)])
def test_whether_an_unknown_command_fails_is_known_where_the_play_would_end(
    bench: Bench, ignores: bool, status: Status
) -> None:
    bench.run(task("command", {"cmd": "x"}, register="r", ignore_errors=ignores, retry=Retry((), 2, 0)))
    assert bench.run(task("debug", {"msg": "{{ r is failed }}"})).status is status
    assert bench.run(task("debug", {"msg": "{{ r.attempts }}"})).status is Status.UNKNOWN


def test_whether_it_fails_is_not_known_where_a_rescue_would_take_care(bench: Bench) -> None:
    made = task("command", {"cmd": "x"}, register="r")
    bench.on().run(made, (), caught=True)
    assert bench.run(task("debug", {"msg": "{{ r is failed }}"})).status is Status.UNKNOWN
    bench.run(replace(made, ignore_errors="{{ false }}"))
    assert bench.run(task("debug", {"msg": "{{ r is failed }}"})).status is Status.UNKNOWN


def test_the_engine_says_that_there_is_a_rescue(lab: Lab) -> None:
    ran = lab.tasks(
        """\
        - block: [{command: x, register: r}]
          rescue: [{debug: }]
        - debug: {msg: "{{ r is failed }}"}
        """,
        check=True,
    )
    assert ran.statuses() == ["unknown", "unknown"]


def test_nothing_is_waited_for(bench: Bench) -> None:
    result = bench.run(task("debug", {"msg": "x"}, register="r", retry=Retry(("r.msg == 'y'",), 5, 600)))
    assert result.status is Status.UNKNOWN
    assert "would be tried again" in result.message


def test_set_fact_is_exact(bench: Bench) -> None:
    bench.run(task("set_fact", {"v": 5}))
    assert bench.shows("v + 1") == 6
    bench.run(task("command", {"cmd": "x"}, register="c"))
    bench.run(task("set_fact", {"v": "{{ c.stdout }}"}))
    assert bench.run(task("debug", {"msg": "{{ v }}"})).status is Status.UNKNOWN


def test_an_adopted_result_is_as_uncertain_as_where_it_was_made(bench: Bench) -> None:
    made = copied()
    bench.on("h2").adopt(made, bench.run(made))
    assert bench.shows("r is changed", on="h2") is True
    assert bench.run(task("debug", {"msg": "{{ r.later }}"}), on="h2").status is Status.UNKNOWN


def test_a_task_may_hide_its_diff(bench: Bench) -> None:
    assert bench.run(copied()).changes[0].after == "x"
    other = task("copy", {"content": "x", "dest": "/b"}, diff=False)
    assert bench.run(other).changes[0].after is None


# -- secrets -------------------------------------------------------------------------------------------------

SENTINEL = "s3n 'tin' $el"


@pytest.fixture
def keeper() -> Bench:
    """A run that knows a secret, on hosts that say it."""
    made = Bench(extra={"key": SENTINEL})
    made.redactor.add(Secret(SENTINEL))
    for name in ("h1", "h2"):
        remote = made.fleet.remote(name)
        remote.on("tell", SENTINEL).on("fail", reply(SENTINEL, rc=1, stderr=SENTINEL))
    return made


@pytest.mark.parametrize(
    "made",
    [
        task("command", {"cmd": "tell"}, register="r"),
        task("command", {"argv": ["fail", "{{ key }}"]}, register="r"),
        task("command", {"cmd": "fail"}, register="r", delegate_to="h2", ignore_errors=True),
        task(
            "command", {"cmd": "fail"}, register="r", environment=({"A": "{{ key }}"},), retry=Retry((), 1, 0)
        ),
        task("debug", {"msg": "{{ item }}"}, register="r", loop=["{{ key }}"]),
        task("debug", {"msg": "x"}, register="r", failed_when=("key == key",), name="{{ key }}"),
        task("debug", {"msg": "x"}, delegate_to="{{ key }}"),
        task("debug", {"msg": "x"}, when=("key",)),
        task("debug", {"msg": "x"}, loop="{{ key }}"),
        task("debug", {"msg": "x"}, retry=Retry((), "{{ key }}", 0)),
    ],
)
def test_known_secrets_are_in_no_result(keeper: Bench, made: Task) -> None:
    result = redacted(keeper.run(made), keeper.redactor)
    error = result.error
    shown = [repr(result), keeper.on().title(made), *keeper.said]
    shown += [] if error is None else [str(error), error.hint, repr(error.values), repr(error.args)]
    if isinstance(error, CommandFailed):
        shown += [error.stdout, error.stderr]
    assert "s3n" not in "".join(shown)
    # registered all the same
    if made.register and made.action.name == "command":
        assert keeper.run(task("assert", {"that": "key in r.stdout"})).status is Status.OK


def test_no_log_hides_progress_and_all_that_a_failure_tells(keeper: Bench) -> None:
    keeper.redactor = type(keeper.redactor)()
    made = task("command", {"cmd": "fail"}, register="r", no_log=True, retry=Retry((), 1, 0))
    result = hidden(keeper.run(made))
    assert isinstance(result.error, CommandFailed)
    shown = [repr(result), result.error.stdout, result.error.stderr, repr(result.error.values), *keeper.said]
    assert "s3n" not in "".join(shown)
    assert keeper.run(task("assert", {"that": "r.rc == 1"})).status is Status.OK
