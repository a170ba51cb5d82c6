"""What is read together, what waits, and what is said when a plan moves. On an action made for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from klops.actions.base import Action, Change, Context, Params, Plan, Probe, Seen, Step, View
from klops.playbook.model import Retry, Task
from klops.playbook.results import Status
from klops.remote.fake import Call, reply
from klops.remote.reads import ABSENT, FileRead
from tests.unit.playbook.onehost import HERE, Bench


class KeepParams(Params):
    """A file and its text."""

    path: str
    text: str = "text"


class Keep(Action[KeepParams]):
    """Give a file its text."""

    name = "keep"
    params = KeepParams

    def probe(self, params: KeepParams, view: View) -> Probe:
        """The file."""
        return Probe((FileRead("file", params.path),))

    def plan(self, params: KeepParams, view: View, seen: Seen) -> Plan:
        """Write it where it differs."""
        if seen.replies["file"].text == params.text:
            return Plan()
        return Plan((Write(params.path, params.text),))


class Write(Step):
    """Write a file."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    def change(self) -> Change:
        """``write PATH``."""
        return Change(f"write {self.path}")

    def carry_out(self, ctx: Context) -> dict[str, str]:
        """Do it."""
        ctx.remote.put(self.text.encode(), self.path)
        return {"wrote": self.path}


class Blind(Keep):
    """After a change the file is written unseen."""

    name = "blind"

    def probe(self, params: KeepParams, view: View) -> Probe:
        """The file, as long as nothing was changed."""
        return super().probe(params, view) if view.changed is None else Probe()

    def plan(self, params: KeepParams, view: View, seen: Seen) -> Plan:
        """Write it where it differs, or may."""
        if view.changed is None:
            return super().plan(params, view, seen)
        return Plan((Write(params.path, params.text),), result={"seen": dict(view.changed)})


class Files:
    """Files of a fake host."""

    def __init__(self, bench: Bench, *there: str, on: str = "h1") -> None:
        self.texts = dict.fromkeys(there, "text")
        self.spoils: dict[str, str] = {}
        remote = bench.fleet.remote(on)
        remote.on(lambda call: call.kind == "read", self._read)
        remote.on(lambda call: call.kind == "put", self._put)

    def _read(self, call: Call) -> Any:
        assert isinstance(call.read, FileRead)
        text = self.texts.get(call.read.path)
        return reply(rc=ABSENT) if text is None else text

    def _put(self, call: Call) -> str:
        self.texts[call.text] = call.stdin.decode()
        self.texts |= self.spoils
        return ""


def keep(path: str, **keywords: Any) -> Task:
    return Task("keep", Keep(), {"path": path}, HERE, **keywords)


def play(bench: Bench, *tasks: Task, on: str = "h1") -> list[Status]:
    """Run tasks in order, each with those that follow ahead."""
    return [bench.run(made, *tasks[place + 1 :], on=on).status for place, made in enumerate(tasks)]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_converged_play_costs_one_command(bench: Bench) -> None:
    Files(bench, *(f"/f{n}" for n in range(10)))
    assert play(bench, *(keep(f"/f{n}") for n in range(10))) == [Status.OK] * 10
    assert bench.fleet.remote().commands_run == 1


def test_after_a_change_the_rest_is_read_in_one_command(bench: Bench) -> None:
    Files(bench, *(f"/f{n}" for n in range(10) if n != 3))
    statuses = play(bench, *(keep(f"/f{n}") for n in range(10)))
    assert statuses == [Status.CHANGED if n == 3 else Status.OK for n in range(10)]
    assert bench.fleet.remote().commands_run == 3


def test_what_needs_no_look_after_a_change_is_read_with_the_rest_before_one(bench: Bench) -> None:
    Files(bench, "/a", "/b", on="h1")
    blind = Task("blind", Blind(), {"path": "/b"}, HERE)
    assert play(bench, keep("/a"), blind) == [Status.OK, Status.OK]
    assert bench.fleet.remote().commands_run == 1
    Files(bench, "/b", on="h2")
    assert play(bench, keep("/a"), blind, on="h2") == [Status.CHANGED, Status.CHANGED]
    assert [call.kind for call in bench.fleet.remote("h2").log] == ["read", "read", "put", "put"]
    assert bench.fleet.remote("h2").commands_run == 3
    # what the change before has told
    assert bench.run(blind, on="h2").values["seen"] == {"wrote": "/b"}


def test_a_plan_that_moved_says_so(bench: Bench) -> None:
    files = Files(bench, "/b")
    files.spoils = {"/b": "spoiled"}
    bench.run(keep("/a"), keep_b := keep("/b"))
    assert bench.run(keep_b).warnings == (
        "the plan moved after an earlier change: nothing to do became write /b",
    )


def test_a_plan_that_moved_says_so_in_one_line(bench: Bench) -> None:
    command = f"/b (python3 {'--flag ' * 50})"
    files = Files(bench, command)
    files.spoils = {command: "spoiled"}
    bench.run(keep("/a"), later := keep(command))
    assert bench.run(later).warnings == (
        "the plan moved after an earlier change: nothing to do became write /b ...",
    )


def test_what_waits_for_a_result_is_read_when_it_is_reached(bench: Bench) -> None:
    Files(bench, "/a", "/b", "/c")
    tasks = (
        keep("/a", register="r"),
        keep("/b"),
        keep("{{ '/c' if r is not changed else '/d' }}"),
    )
    assert play(bench, *tasks) == [Status.OK] * 3
    assert bench.fleet.remote().commands_run == 2


@pytest.mark.parametrize(
    "keywords",
    [
        {"when": ("r is not changed",)},
        {"environment": ({"A": "{{ r.changed }}"},)},
        {"become": "{{ r is changed }}"},
        {"delegate_to": "{{ 'h1' if r is not changed else 'h2' }}"},
        {"include_vars": {"x": "{{ r.changed }}"}},
    ],
)
def test_any_keyword_may_make_a_task_wait(bench: Bench, keywords: dict[str, Any]) -> None:
    Files(bench, "/a", "/b")
    bench.run(keep("/a", register="r"), keep("/b", **keywords))
    assert [call.text.count("/b") for call in bench.fleet.remote().log] == [0]


def test_turns_are_read_together(bench: Bench) -> None:
    Files(bench, "/a", "/b", "/c", "/d")
    assert play(bench, keep("/{{ item }}", loop=["a", "b", "c"]), keep("/d")) == [Status.OK] * 2
    assert bench.fleet.remote().commands_run == 1


def test_a_loop_that_changes_much_stays_linear(bench: Bench) -> None:
    Files(bench)
    loop = keep("/{{ item }}", loop=[str(n) for n in range(100)])
    assert play(bench, loop, keep("/last")) == [Status.CHANGED] * 2
    assert bench.fleet.remote().commands_run <= 2 * 101 + 10


def test_what_runs_elsewhere_is_not_read_here(bench: Bench) -> None:
    Files(bench, "/a", "/b")
    Files(bench, "/a", "/b", on="h2")
    delegated = [keep(path, delegate_to="h2") for path in ("/a", "/b")]
    assert play(bench, keep("/a"), *delegated, keep("/b")) == [Status.OK] * 4
    # one look at each of the two hosts
    assert [bench.fleet.remote(name).commands_run for name in ("h1", "h2")] == [1, 1]


def test_each_user_looks_for_itself(bench: Bench) -> None:
    Files(bench, "/a")
    assert play(bench, keep("/a"), keep("/a", become=True)) == [Status.OK] * 2
    assert bench.fleet.remote().commands_run == 2


@pytest.mark.parametrize(
    "changes",
    [lambda n: True, lambda n: n % 2 == 0, lambda n: n % 5 == 4, lambda n: n == 0],
    ids=["all", "every second", "every fifth", "the first"],
)
def test_the_cost_of_tasks_with_changes_is_linear(changes: Callable[[int], bool]) -> None:
    for count in (20, 160):
        bench = Bench()
        Files(bench, *(f"/f{n}" for n in range(count) if not changes(n)))
        statuses = play(bench, *(keep(f"/f{n}") for n in range(count)))
        assert statuses.count(Status.CHANGED) == sum(changes(n) for n in range(count))
        reads = [call for call in bench.fleet.remote().log if call.kind == "read"]
        # ahead of all changes, after the first one, in its turn, and in vain no more than twice that
        assert len(reads) <= 5 * count
        assert bench.fleet.remote().commands_run <= 2 * count + 10


def test_tries_of_many_tasks_are_read_alone(bench: Bench) -> None:
    Files(bench, *(f"/f{n}" for n in range(40)))
    tasks = [keep(f"/f{n}", register="r", retry=Retry(("r.attempts == 2",), 3, 0)) for n in range(40)]
    assert play(bench, *tasks) == [Status.OK] * 40
    reads = [call for call in bench.fleet.remote().log if call.kind == "read"]
    assert len(reads) <= 5 * 40
