"""The way of a host through a play, and what is looked at ahead of it. Nothing runs here."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from klops.playbook.load.plays import load_playbook
from klops.playbook.model import Play, Task
from klops.playbook.plays.handlers import Agenda, Due, meant
from klops.playbook.plays.walk import Done, Flushed, Step, Tree, Walker
from tests.unit.playbook.support import GENERIC_ACTIONS


@pytest.fixture
def play(tmp_path: Path) -> Callable[[str], Play]:
    def loaded(text: str) -> Play:
        path = tmp_path / "play.yml"
        path.write_text("- hosts: all\n" + textwrap.indent(textwrap.dedent(text), "  "))
        return load_playbook(path, GENERIC_ACTIONS).plays[0]

    return loaded


def walked(
    play: Play, failing: str = "", notifying: Mapping[str, str] | None = None
) -> tuple[list[Step], bool | None]:
    """The steps of a host on which tasks of these names fail; ``notifying``: task -> whom it notifies."""
    waiting: dict[str, Due] = {}

    def heard() -> dict[str, Due]:
        found = dict(waiting)
        waiting.clear()
        return found

    tree = Tree.of(play, (play.pre_tasks, play.tasks, play.post_tasks))
    walk = Walker(tree, Agenda(play.handlers, lambda task: task.name), heard).walk()
    steps: list[Step] = []
    try:
        step = next(walk)
        while True:
            if isinstance(step, Flushed):
                step = walk.send(Done())
                continue
            steps.append(step)
            name = step.task.name
            if name in (notifying or {}):
                waiting[(notifying or {})[name]] = Due()
            order = str(step.task.params.get("free_form", ""))
            step = walk.send(Done(failed=name in failing.split(), order=order))
    except StopIteration as end:
        return steps, end.value


def names(tasks: object) -> str:
    return " ".join(task.name for task in tasks)  # type: ignore[attr-defined]


BLOCKS = """\
    pre_tasks: [{name: p, debug: }]
    tasks:
      - {name: a, debug: }
      - block:
          - {name: b, debug: }
          - block: [{name: c, debug: }]
            always: [{name: d, debug: }]
          - {name: e, debug: }
        rescue: [{name: f, debug: }, {name: g, debug: }]
        always: [{name: h, debug: }]
      - {name: i, debug: }
    post_tasks: [{name: q, debug: }]
    """


@pytest.mark.parametrize(
    ("failing", "expected", "ok"),
    [
        ("", "p a b c d e h i q", True),
        ("a", "p a", False),
        ("b", "p a b f g h i q", True),
        ("c", "p a b c d f g h i q", True),
        ("c d", "p a b c d f g h i q", True),
        ("e f", "p a b c d e f h", False),
        ("h", "p a b c d e h", False),
        ("e g h", "p a b c d e f g h", False),
        ("i", "p a b c d e h i", False),
    ],
)
def test_blocks(play: Callable[[str], Play], failing: str, expected: str, ok: bool) -> None:
    steps, ended_well = walked(play(BLOCKS), failing)
    assert names(step.task for step in steps) == expected
    assert ended_well is ok
    positions = [step.position for step in steps]
    assert positions == sorted(positions)


def test_what_is_caught(play: Callable[[str], Play]) -> None:
    steps, _ = walked(play(BLOCKS), "e")
    assert names(step.task for step in steps if step.caught) == "b c d e"


def test_looking_ahead_goes_through_blocks_and_always_but_no_rescue(play: Callable[[str], Play]) -> None:
    steps, _ = walked(play(BLOCKS), "e")
    ahead = {step.task.name: names(step.ahead) for step in steps}
    assert ahead["p"] == "a b c d e h i q"
    assert ahead["c"] == "d e h i q"
    assert ahead["e"] == "h i q"
    assert ahead["f"] == "g h i q"
    assert ahead["h"] == "i q"
    assert ahead["q"] == ""


def test_looking_ahead_ends_at_an_include_and_passes_over_orders(play: Callable[[str], Play]) -> None:
    text = """\
        tasks:
          - {name: a, debug: }
          - meta: noop
          - {name: b, debug: }
          - {name: c, include_tasks: "{{ x }}.yml"}
          - {name: d, debug: }
        """
    steps, _ = walked(play(text))
    ahead = {step.task.name: names(step.ahead) for step in steps}
    assert (ahead["a"], ahead["b"], ahead["c"]) == ("b", "", "d")


def test_hosts_share_what_is_ahead_of_them(play: Callable[[str], Play]) -> None:
    tree_play = play(BLOCKS)
    tree = Tree.of(tree_play, (tree_play.pre_tasks, tree_play.tasks, tree_play.post_tasks))
    walks = [Walker(tree, Agenda((), lambda task: task.name), dict).walk() for _ in range(2)]
    first, second = (next(walk) for walk in walks)
    assert isinstance(first, Step)
    assert isinstance(second, Step)
    assert first.ahead is second.ahead


HANDLERS = """\
    tasks:
      - {name: a, debug: }
      - meta: flush_handlers
      - {name: b, debug: }
    post_tasks: [{name: c, debug: }]
    handlers:
      - {name: one, debug: , listen: topic}
      - {name: two, debug: }
      - {name: three, debug: , listen: [topic, other]}
    """


@pytest.mark.parametrize(
    ("notifying", "expected"),
    [
        ({}, "a b c"),
        ({"a": "two", "b": "two"}, "a two b two c"),
        ({"a": "topic"}, "a one three b c"),
        ({"b": "two", "two": "other"}, "a b two three c"),
        ({"c": "two", "two": "topic"}, "a b c two three"),
    ],
)
def test_handlers(play: Callable[[str], Play], notifying: dict[str, str], expected: str) -> None:
    steps, _ = walked(play(HANDLERS), notifying=notifying)
    assert names(step.task for step in steps if "free_form" not in step.task.params) == expected


def test_a_handler_notified_by_a_later_one_waits_for_the_next_time(play: Callable[[str], Play]) -> None:
    # ansible-playbook: D, notified by C behind it, runs after post_tasks
    steps, _ = walked(play(HANDLERS), notifying={"b": "two", "two": "one"})
    assert names(step.task for step in steps if step.due or step.task.name == "c") == "two c one"


def test_handlers_of_a_failed_host_run_only_when_they_are_forced(play: Callable[[str], Play]) -> None:
    steps, ok = walked(play(HANDLERS), "b", {"b": "two"})
    assert "two" not in names(step.task for step in steps)
    steps, ok = walked(play("force_handlers: true\n" + textwrap.dedent(HANDLERS)), "b", {"b": "two"})
    # and then the host is out, as in Ansible
    assert names(step.task for step in steps)[-5:] == "b two"
    assert not ok


def test_end_host_leaves_out_the_rest_and_the_handlers(play: Callable[[str], Play]) -> None:
    text = """\
        tasks:
          - {name: a, debug: }
          - block: [{name: b, meta: end_host}]
            always: [{name: c, debug: }]
        handlers: [{name: two, debug: }]
        """
    steps, ok = walked(play(text), notifying={"a": "two"})
    assert (names(step.task for step in steps), ok) == ("a b", True)


def test_whom_a_notification_means(play: Callable[[str], Play]) -> None:
    handlers = play(
        """\
        tasks: [{debug: }]
        handlers:
          - {name: "restart {{ what }}", debug: , listen: all}
          - {name: "restart b", debug: , listen: all}
        """
    ).handlers

    def title(task: Task) -> str:
        return task.name.replace("{{ what }}", "a")

    assert meant(handlers, "restart a", title) == [0]
    assert meant(handlers, "restart {{ what }}", title) == [0]
    assert meant(handlers, "restart b", title) == [1]
    assert meant(handlers, "all", title) == [0, 1]
    assert meant(handlers, "none", title) == []


def test_a_certain_notification_is_stronger_than_an_uncertain_one(play: Callable[[str], Play]) -> None:
    agenda = Agenda(play(HANDLERS).handlers, lambda task: task.name)
    agenda.notify("two", Due("perhaps"))
    agenda.notify("two", Due())
    agenda.notify("two", Due("perhaps"))
    assert agenda.due == {1: Due()}
