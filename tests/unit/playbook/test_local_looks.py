"""Looks at the control node: one for all hosts of a run, whoever asks and however it ends."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import ClassVar

import pytest

from klops.actions.base import Action, Params, Plan, Probe, Seen, View
from klops.errors import KlopsError, TaskFailed
from klops.playbook.results import Status
from klops.playbook.tasks.locallooks import LocalLooks
from klops.remote.base import Reply
from klops.remote.fake import Call, reply
from klops.remote.reads import FileRead
from tests.unit.playbook.onehost import Bench, task
from tests.waiting import until


@dataclass(frozen=True)
class Counted:
    """A look that counts how often it is carried out."""

    name: str
    error: KlopsError | None = field(default=None, compare=False)
    log: list[str] = field(default_factory=list, compare=False)
    hold: threading.Event | None = field(default=None, compare=False)

    @property
    def what(self) -> str:
        return f"reading {self.name}"

    def look(self) -> object:
        self.log.append(self.name)
        if self.hold is not None:
            self.hold.wait(30)
        if self.error is not None:
            raise self.error
        return f"seen {self.name}"


class LookingParams(Params):
    """``name``: what is looked at."""

    name: str


class Looking(Action[LookingParams]):
    """Tells what a look gave, beside a read of the host."""

    name: ClassVar[str] = "looking"
    params = LookingParams

    def __init__(self, look: Counted) -> None:
        self._look = look

    def probe(self, params: LookingParams, view: View) -> Probe:
        return Probe((FileRead("file", "/a"),), local={"it": replace(self._look, name=params.name)})

    def plan(self, params: LookingParams, view: View, seen: Seen) -> Plan:
        return Plan(result={"it": seen.local["it"]}, message=f"{seen.local['it']}, {seen.replies['file'].rc}")


def looked(bench: Bench, look: Counted, on: str, name: str = "a") -> tuple[Status, str]:
    bench.fleet.remote(on).on(lambda call: call.kind == "read", reply(rc=44))
    result = bench.run(replace(task("debug", {"name": name}), action=Looking(look)), on=on)
    return result.status, result.error.code if result.error else result.message


@pytest.mark.parametrize("check", [False, True])
def test_equal_looks_are_carried_out_once_a_run(check: bool) -> None:
    bench, look = Bench(check=check), Counted("a")
    for on in ("h1", "h2"):
        assert looked(bench, look, on) == (Status.OK, "seen a, 44")
    assert looked(bench, look, "h1", "b") == (Status.OK, "seen b, 44")
    assert look.log == ["a", "b"]


def test_a_look_is_under_way_while_the_host_is_asked() -> None:
    bench, look = Bench(), Counted("a", hold=threading.Event())

    def asked(_call: Call) -> Reply:
        until(lambda: look.log == ["a"], what="the look began")
        return reply(rc=44)

    bench.fleet.remote().on(lambda call: call.kind == "read", asked)
    with ThreadPoolExecutor(1) as pool:
        job = replace(task("debug", {"name": "a"}), action=Looking(look))
        result = pool.submit(bench.run, job)
        # and told of while somebody has to wait
        until(lambda: bench.said == ["reading a"], what="somebody waits")
        assert not result.done()
        look.hold.set()  # type: ignore[union-attr]  # given above
        assert result.result(60).message == "seen a, 44"


def test_a_look_of_a_task_that_is_never_reached_is_nobodys_error() -> None:
    looks = LocalLooks()
    look = Counted("a", TaskFailed("no", code="no-such-ref"))
    for _ in range(2):
        looks.begin(look)
    with pytest.raises(TaskFailed):
        looks.answer(look)
    assert look.log == ["a"]


def test_a_dry_run_that_plans_for_what_will_be_there_looks_once() -> None:
    bench, look = Bench(check=True), Counted("a")
    bench.fleet.remote().on(lambda call: call.kind == "read", reply(rc=44))
    bench.run(task("copy", {"content": "x", "dest": "/a"}))
    assert looked(bench, look, "h1") == (Status.OK, "seen a, 0")
    assert look.log == ["a"]


def test_a_look_that_fails_fails_each_task_that_asked() -> None:
    bench, look = Bench(), Counted("a", TaskFailed("it is dirty", code="dirty-tree", hint="commit"))
    for on in ("h1", "h2"):
        assert looked(bench, look, on) == (Status.FAILED, "dirty-tree")
    assert look.log == ["a"]


def test_who_asks_meanwhile_waits_for_the_one_answer() -> None:
    looks, hold = LocalLooks(), threading.Event()
    look = Counted("a", hold=hold)
    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(looks.answer, replace(look)) for _ in range(4)]
        hold.set()
        assert [one.result(30) for one in answers] == ["seen a"] * 4
    assert look.log == ["a"]


def test_each_gets_an_error_of_its_own() -> None:
    looks, look = LocalLooks(), Counted("a", TaskFailed("no", code="no-such-ref"))
    errors = []
    for _ in range(2):
        with pytest.raises(TaskFailed) as caught:
            looks.answer(look)
        errors.append(caught.value)
    assert errors[0] is not errors[1]
    assert [one.code for one in errors] == ["no-such-ref"] * 2
