"""What a result tells of turns and places, and a run of what it left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from klops.actions.base import Change, Context, Plan, Step
from klops.playbook.model import LoopControl
from klops.playbook.results import Status
from klops.playbook.tasks.outcome import planned
from klops.playbook.tasks.redaction import hidden
from klops.remote.fake import reply
from tests.unit.playbook.onehost import Bench, Fleet, task
from tests.unit.playbook.support import Files, Lab

FOUR = "all: {hosts: {h1: , h2: , h3: , h4: }}"


def test_a_result_has_every_turn_of_its_loop_with_its_label() -> None:
    turns = {"loop": ["a", "b", "c"], "loop_control": LoopControl(label="<{{ item }}>")}
    result = Bench().run(task("assert", {"that": ["item == 'b'"]}, **turns))
    assert result.status is Status.FAILED
    assert [(turn.label, turn.status) for turn in result.items] == [
        ("<a>", Status.FAILED),
        ("<b>", Status.OK),
        ("<c>", Status.FAILED),
    ]
    assert all((turn.error is not None) == (turn.status is Status.FAILED) for turn in result.items)
    assert hidden(result).items == ()


@dataclass(frozen=True)
class Promise(Step):
    """A step that says beforehand what it only knows afterwards."""

    def change(self) -> Change:
        return Change("it may be much")

    def carry_out(self, ctx: Context) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("added", "status", "told"),
    [
        ({"changed": True}, Status.CHANGED, ["it was little"]),
        ({"changed": False}, Status.OK, []),
        ({}, Status.CHANGED, ["it may be much"]),
    ],
)
def test_what_was_changed_is_told_where_only_that_is_known(
    added: dict[str, Any], status: Status, told: list[str]
) -> None:
    result = planned(Plan(steps=(Promise(),)), False, added=added, made=[Change("it was little")])
    assert (result.status, [change.what for change in result.changes]) == (status, told)


def test_a_result_says_where_a_delegated_task_ran() -> None:
    bench = Bench(Fleet({"h1": {}, "h2": {}}))
    for name in ("h1", "h2"):
        bench.fleet.remote(name).on("work", reply(rc=1))
    elsewhere = bench.run(task("command", {"cmd": "work"}, delegate_to="h2"))
    assert elsewhere.place == "h2"
    assert elsewhere.error is not None
    # it would name the wrong host
    assert "klops exec" not in elsewhere.error.hint
    here = bench.run(task("command", {"cmd": "work"}))
    assert here.place == ""
    assert here.error is not None
    assert here.error.hint == "to run it alone: klops exec --host h1 -- work"
    looped = bench.run(task("command", {"cmd": "work"}, delegate_to="{{ item }}", loop=["h2", "h1"]))
    assert looped.place == ""
    assert [turn.place for turn in looped.items] == ["h2", ""]


def test_a_command_of_many_lines_is_told_in_one() -> None:
    bench = Bench()
    bench.fleet.remote("h1").on("sh -c", reply(rc=1, stderr="oops"))
    result = bench.run(task("shell", {"cmd": "one\ntwo\n"}))
    assert result.error is not None
    assert result.error.message == r"one\ntwo ended with 1: oops"
    assert result.error.hint == ""


@pytest.mark.parametrize(
    ("tasks", "ran", "left"),
    [
        ("- fail: ", 1, [("p", ("h2", "h3", "h4")), ("q", ("h2", "h3", "h4"))]),
        ("- meta: end_play", 1, [("p", ("h2", "h3", "h4"))]),
        (
            "- fail: \n      when: inventory_hostname == 'h2'",
            2,
            [("p", ("h3", "h4")), ("q", ("h1", "h3", "h4"))],
        ),
        ("- debug: ", 4, []),
    ],
)
def test_a_run_says_which_hosts_it_left_out(
    lab: Lab, tasks: str, ran: int, left: list[tuple[str, tuple[str, ...]]]
) -> None:
    lab.inventory = FOUR
    done = lab.play(
        f"- name: p\n  hosts: all\n  serial: 1\n  tasks:\n    {tasks}\n- name: q\n  hosts: all\n  tasks: []\n"
    )
    assert len([play for play in done.result.plays if play.name == "p"]) == ran
    assert done.result.not_run == left


@pytest.mark.parametrize(("check", "left"), [(False, {"h1": ("restart",)}), (True, {})])
def test_a_run_says_which_handlers_are_left_for_the_next(
    lab: Lab, check: bool, left: dict[str, object]
) -> None:
    Files(lab.host())
    lab.host().on("chown").on("restart it").on("rm -f")
    play = """\
    - name: p
      hosts: all
      tasks:
        - {name: write, copy: {content: new, dest: /a}, notify: restart}
        - {name: boom, fail: , when: boom is defined}
      handlers:
        - {name: restart, command: restart it}
    """
    assert lab.play(play, check=check, extra_vars={"boom": 1}).result.handlers_left == left
    assert lab.play(play, check=check).result.handlers_left == {}
