"""Loops and ``loop_control``. Each was compared with what ansible-core 2.19 does."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from klops.playbook.model import LoopControl, Task
from klops.playbook.results import Status
from tests.unit.playbook.onehost import Bench, task


def debug(msg: Any, **keywords: Any) -> Task:
    return task("debug", {"msg": msg}, register="r", **keywords)


def test_results_are_those_of_ansible() -> None:
    result = Bench().run(debug("{{ item }}", loop=["a", "b"], when=("item == 'a'",)))
    assert result.values["msg"] == "All items completed"
    assert result.values["changed"] is False
    assert "skipped" not in result.values
    first, second = result.values["results"]
    assert (first["item"], first["ansible_loop_var"], first["msg"]) == ("a", "item", "a")
    assert (second["skip_reason"], second["false_condition"]) == (
        "Conditional result was False",
        "item == 'a'",
    )


def test_a_loop_of_which_all_is_skipped_and_one_over_nothing() -> None:
    bench = Bench()
    result = bench.run(debug("x", loop=[1, 2], when=("item == 5",)))
    assert (result.status, result.values["msg"]) == (Status.SKIPPED, "All items skipped")
    result = bench.run(debug("x", loop=[]))
    assert (result.status, result.values["results"]) == (Status.SKIPPED, [])
    assert result.values["skipped_reason"] == "No items in the list"
    assert bench.shows("r is skipped and r is not changed") is True


def test_names_index_label_and_an_early_end() -> None:
    control = LoopControl("x", "i", "<{{ x }}>", break_when=("x == 'b'",))
    result = Bench().run(
        debug(
            "{{ x }} {{ i }} {{ ansible_loop_var }} {{ ansible_index_var }}",
            loop=list("abc"),
            loop_control=control,
        )
    )
    assert result.message == "<a>: a 0 x i\n<b>: b 1 x i"
    assert [(turn["x"], turn["i"]) for turn in result.values["results"]] == [("a", 0), ("b", 1)]


def test_an_early_end_may_tell_of_the_result() -> None:
    control = LoopControl(break_when=("r.msg == 'b'",))
    result = Bench().run(debug("{{ item }}", loop=list("abc"), loop_control=control))
    assert len(result.values["results"]) == 2


def test_extended_loop_variables() -> None:
    result = Bench().run(
        debug("{{ ansible_loop }}", loop=list("abc"), loop_control=LoopControl(extended=True))
    )
    first, second, third = (turn["msg"] for turn in result.values["results"])
    assert second == {
        "allitems": ["a", "b", "c"],
        "first": False,
        "index": 2,
        "index0": 1,
        "last": False,
        "length": 3,
        "nextitem": "c",
        "previtem": "a",
        "revindex": 2,
        "revindex0": 1,
    }
    assert "previtem" not in first
    assert "nextitem" not in third


def test_facts_of_a_turn_are_there_for_the_next() -> None:
    bench = Bench()
    add = task("set_fact", {"found": "{{ found | default([]) + [item] }}"}, loop=[1, 2, 3], register="r")
    bench.run(add)
    assert bench.shows("found") == [1, 2, 3]
    assert bench.shows("r.results[1].ansible_facts.found") == [1, 2]


@pytest.mark.parametrize(("loop", "hint"), [({"a": 1}, "dict2items"), ("{{ 'abc' }}", "")])
def test_only_lists_are_looped_over(loop: Any, hint: str) -> None:
    result = Bench().run(debug("x", loop=loop))
    assert result.status is Status.FAILED
    assert result.error is not None
    assert hint in result.error.hint
    assert "not a list" in result.message


def test_a_label_that_cannot_be_rendered_fails_the_task() -> None:
    result = Bench().run(debug("x", loop=[1], loop_control=LoopControl(label="{{ nope }}")))
    assert result.status is Status.FAILED


def test_the_loop_is_stronger_than_extra_variables() -> None:
    bench = Bench(extra={"item": "extra"})
    assert bench.run(debug("{{ item }}", loop=["loop"])).values["results"][0]["msg"] == "loop"


def test_pauses_lie_between_turns_and_not_in_check_mode() -> None:
    paused = debug("x", loop=[1, 2], loop_control=LoopControl(pause="{{ 0.2 }}"))
    began = time.monotonic()
    Bench().run(paused)
    assert time.monotonic() - began >= 0.2
    long = debug("x", loop=[1, 2], loop_control=LoopControl(pause=600))
    assert Bench(check=True).run(long).status is Status.OK
    one = debug("x", loop=[1], loop_control=LoopControl(pause=600))
    assert Bench().run(one).status is Status.OK


def test_an_unreachable_host_ends_the_loop_and_a_delegated_one_only_its_turn() -> None:
    bench = Bench()
    for name in ("h1", "h2"):
        bench.fleet.remote(name).on("work", "")
    bench.fleet.remote("h1").unreachable = "no route"
    command = task("command", {"cmd": "work"}, register="r", loop=["h1", "h2"], ignore_unreachable=True)
    assert len(bench.run(command).values["results"]) == 1
    result = bench.run(replace(command, delegate_to="{{ item }}"), on="h2")
    assert (result.status, result.ignored) == (Status.UNREACHABLE, True)
    assert bench.shows("r.results | map(attribute='unreachable', default=false) | list", on="h2") == [
        True,
        False,
    ]


def test_a_condition_that_does_not_hold_spares_the_loop() -> None:
    result = Bench().run(debug("x", loop="{{ nope }}", when=("nope is defined",)))
    assert result.status is Status.SKIPPED
    assert result.values["false_condition"] == "nope is defined"
    assert "results" not in result.values


def test_after_a_pause_the_host_is_asked_again() -> None:
    bench = Bench()
    bench.fleet.remote().on(lambda call: call.kind == "read", "/a\0text")
    read = task("slurp", {"src": "/a"}, loop=[1, 2, 3])
    bench.run(read)
    assert bench.fleet.remote().commands_run == 1
    bench.run(replace(read, loop_control=LoopControl(pause=0.01)))
    assert bench.fleet.remote().commands_run == 3
