"""Keywords of plays, blocks and tasks, and what is handed down to tasks: as seen with ansible-core 2.19."""

from __future__ import annotations

from typing import Any

import pytest

from klops.errors import SourceErrors
from klops.playbook.handdown import HandedDown
from klops.playbook.model import Block, LoopControl, Retry, Task
from tests.unit.playbook.support import Lab


def tasks(lab: Lab, text: str) -> list[Task]:
    return lab.load(text).plays[0].all_tasks


def test_keywords_of_plays(lab: Lab) -> None:
    play = lab.load(
        """\
        - hosts: all
          gather_facts: true
          serial: [1, "30%"]
          max_fail_percentage: 30%
          any_errors_fatal: true
          strategy: ansible.builtin.free
          order: reverse_sorted
          force_handlers: yes
          become: "{{ root }}"
          become_user: app
          become_method: sudo
          pre_tasks: [{debug: , name: pre}]
          tasks: [{debug: , name: task}]
          post_tasks: [{debug: , name: post}]
        """
    ).plays[0]
    assert (play.serial, play.max_fail_percentage) == ((1, "30%"), 30)
    assert (play.any_errors_fatal, play.strategy, play.order) == (True, "free", "reverse_sorted")
    assert (play.force_handlers, play.become, play.become_user) == (True, "{{ root }}", "app")
    assert [task.name for task in play.all_tasks] == ["pre", "task", "post"]
    assert play.file == play.all_tasks[0].file == lab.folder / "play.yml"


def test_a_number_of_hosts_in_octal_is_refused(lab: Lab) -> None:
    with pytest.raises(SourceErrors, match="serial is a number of hosts"):
        lab.load("- hosts: all\n  serial: 012\n")


def test_keywords_of_tasks(lab: Lab) -> None:
    (task,) = tasks(
        lab,
        """\
        - hosts: all
          tasks:
            - command: ls
              loop: "{{ names }}"
              loop_control: {loop_var: name, index_var: i, label: "{{ name }}", pause: 0.5, extended: yes,
                             break_when: x}
              until: [a, b]
              retries: "{{ n }}"
              delay: 0.1
              failed_when: a
              changed_when: false
              ignore_errors: "{{ x }}"
              ignore_unreachable: true
              delegate_to: "{{ groups.all[0] }}"
              delegate_facts: true
              run_once: true
              throttle: 2
              any_errors_fatal: true
              check_mode: true
              diff: false
              no_log: true
              register: out
              environment: "{{ env }}"
        """,
    )
    assert task.loop_control == LoopControl("name", "i", "{{ name }}", 0.5, True, ("x",))
    assert task.retry == Retry(("a", "b"), "{{ n }}", 0.1)
    assert (task.failed_when, task.changed_when) == (("a",), ("false",))
    assert (task.ignore_errors, task.ignore_unreachable) == ("{{ x }}", True)
    assert (task.delegate_to, task.delegate_facts) == ("{{ groups.all[0] }}", True)
    assert (task.run_once, task.throttle, task.any_errors_fatal) == (True, 2, True)
    assert (task.check_mode, task.diff, task.no_log) == (True, False, True)
    assert (task.register, task.environment) == ("out", ("{{ env }}",))


def test_a_task_without_keywords_has_ansibles_defaults(lab: Lab) -> None:
    (task,) = tasks(lab, "- hosts: all\n  tasks: [{debug: }]\n")
    assert task == Task("debug", task.action, {}, task.location, lab.folder / "play.yml")
    (repeated,) = tasks(lab, "- hosts: all\n  tasks: [{debug: , retries: 2}]\n")
    # without until it is repeated while it fails
    assert repeated.retry == Retry((), 2, 5)


def test_what_blocks_and_plays_hand_down(lab: Lab) -> None:
    inner, bare = tasks(
        lab,
        """\
        - hosts: all
          tags: play
          become: true
          environment: {A: play, B: play}
          ignore_errors: true
          vars: {v: play}
          tasks:
            - block:
                - block:
                    - debug:
                      when: task
                      tags: [task, outer]
                      vars: {v: task}
                      environment: {A: task}
                      become: false
                      notify: own
                  when: [inner]
                  vars: {v: inner, w: inner}
              when: outer
              tags: [outer]
              vars: {x: outer, w: outer}
              environment: {C: outer}
              become_user: app
              notify: outer
              delegate_to: other
            - debug:
          handlers: [{name: own, debug: }, {name: outer, debug: }]
        """,
    )
    assert inner.when == ("outer", "inner", "task")
    assert inner.vars == {"x": "outer", "w": "inner", "v": "task"}
    assert inner.tags == ("play", "outer", "task")
    assert inner.environment == ({"A": "play", "B": "play"}, {"C": "outer"}, {"A": "task"})
    # what doesn't add up is replaced by the nearer
    assert (inner.become, inner.become_user, inner.notify) == (False, "app", ("own",))
    assert (inner.delegate_to, inner.ignore_errors) == ("other", True)
    assert (bare.when, bare.vars, bare.tags) == ((), {}, ("play",))
    assert (bare.become, bare.become_user, bare.delegate_to) == (True, None, None)


def test_blocks_keep_their_sections_and_places(lab: Lab) -> None:
    (block,) = (
        lab.load(
            """\
            - hosts: all
              tasks:
                - name: all of it
                  always: [{debug: , name: c}]
                  rescue: [{debug: , name: b}, {block: [{debug: , name: b2}]}]
                  block: [{debug: , name: a}]
                  when: x
            """
        )
        .plays[0]
        .tasks
    )
    assert isinstance(block, Block)
    assert (block.name, block.location.line) == ("all of it", 3)
    sections = [[item.name for item in part] for part in (block.block, block.rescue, block.always)]
    assert sections == [["a"], ["b", ""], ["c"]]
    # a block's condition holds for its rescue and always sections, too
    rescue = block.rescue[0]
    assert isinstance(rescue, Task)
    assert rescue.when == ("x",)


def test_handlers_listen_and_are_notified_by_topic(lab: Lab) -> None:
    play = lab.load(
        """\
        - hosts: all
          tags: p
          tasks:
            - {debug: , notify: [topic, "{{ which }}"]}
          handlers:
            - {name: a, debug: , listen: [topic, other], tags: x}
            - {name: "{{ b }}", debug: , listen: topic}
        """
    ).plays[0]
    assert [handler.listen for handler in play.handlers] == [("topic", "other"), ("topic",)]
    assert play.handlers[0].tags == ("p", "x")


@pytest.mark.parametrize(
    ("handlers", "message"),
    [
        ("[{name: h, debug: , listen: '{{ t }}'}]", "listen takes no templates"),
        ("[{block: [{debug: }]}]", "a block can't be a handler"),
        ("[{name: h, debug: , notify: i}]", "notifies 'i', and this play has no such handler"),
    ],
)
def test_handlers_that_are_refused(lab: Lab, handlers: str, message: str) -> None:
    with pytest.raises(SourceErrors) as caught:
        lab.load(f"- hosts: all\n  handlers: {handlers}\n")
    (mistake,) = caught.value.mistakes
    assert message in mistake.message


def test_a_topic_that_nobody_listens_to_is_refused_with_the_nearest(lab: Lab) -> None:
    with pytest.raises(SourceErrors, match=r"notifies 'topc', .*did you mean 'topic'\?"):
        lab.load(
            "- {hosts: all, tasks: [{debug: , notify: topc}], handlers: [{name: h, debug: , listen: topic}]}"
        )


@pytest.mark.parametrize("value", ["false", "no", "'off'"])
def test_no_task_overrides_check_mode(lab: Lab, value: str) -> None:
    with pytest.raises(SourceErrors, match="no task can override check mode"):
        lab.load(f"- hosts: all\n  tasks: [{{debug: , check_mode: {value}}}]\n")


def test_what_is_handed_down_never_changes_what_it_came_from() -> None:
    outer = HandedDown(tags=("a",), vars={"v": 1}, become=True)
    own: dict[str, Any] = {"tags": ("a", "b"), "vars": {"v": 2}, "become": None}
    inner = outer.inside(own)
    assert (inner.tags, inner.vars, inner.become) == (("a", "b"), {"v": 2}, None)
    assert (outer.tags, outer.vars, outer.become) == (("a",), {"v": 1}, True)
    assert inner.loaded is not outer.loaded


@pytest.mark.parametrize(
    ("task", "hint"),
    [
        ("{debug: , vars: {ansible_port: 1}}", "put it into the inventory, the vars of the play, or -e"),
        ("{debug: , vars: {ansible_host: x}}", "delegate_to"),
        ("{debug: , vars: {ansible_become_user: x}}", "use the keyword become_user"),
        ("{block: [{debug: }], vars: {ansible_user: x}}", "inventory"),
        ("{set_fact: {ansible_user: x}}", "inventory"),
    ],
)
def test_connection_variables_are_not_for_tasks(lab: Lab, task: str, hint: str) -> None:
    # Ansible connects anew for such a task
    with pytest.raises(SourceErrors) as caught:
        lab.load(f"- {{hosts: all, vars: {{ansible_port: 22}}, tasks: [{task}]}}\n")
    (mistake,) = caught.value.mistakes
    assert "says how a host is reached" in mistake.message
    assert hint in mistake.hint


def test_a_script_that_is_not_there(lab: Lab) -> None:
    with pytest.raises(SourceErrors, match=r"nope\.sh"):
        lab.load("- {hosts: all, tasks: [{script: nope.sh --flag 'two words'}]}\n")
    (lab.folder / "there.sh").write_text("true")
    for script in ("there.sh --flag", "'{{ x }} --flag'", "/abs.sh x"):
        lab.load(f"- {{hosts: all, tasks: [{{script: {script}}}]}}\n")


def test_a_handler_may_notify_an_earlier_one(lab: Lab) -> None:
    lab.load(
        "- {hosts: all, handlers: [{name: h, debug: , notify: h}, {name: i, debug: , notify: [h, i]}]}\n"
    )
