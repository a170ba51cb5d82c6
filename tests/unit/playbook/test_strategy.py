"""Several hosts in a play. What ansible-playbook 2.19 printed for the same play is noted with each test."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from klops.actions.base import Action, Params, Plan, Probe, Seen, View, registry
from klops.playbook.events import PlayEnded, TaskStarted, Warned
from klops.playbook.tasks import facts
from klops.playbook.tasks.host import Host
from klops.remote.base import Remote
from klops.remote.fake import FakeRemote, reply
from tests.unit.playbook.support import GENERIC_ACTIONS, FakeLock, Lab, Ran


@pytest.fixture
def three(lab: Lab) -> Lab:
    lab.inventory = "all: {hosts: {h1: , h2: , h3: }}"
    return lab


def story(ran: Ran) -> list[str]:
    """Each task with the hosts that came to it: ``a h1 h2:failed``."""
    return [
        " ".join(
            [task.name]
            + [
                host if done.status.value == "ok" else f"{host}:{done.status.value}"
                for host, done in task.hosts.items()
            ]
        )
        for play in ran.result.plays
        for task in play.tasks
    ]


def recap(ran: Ran) -> dict[str, str]:
    """By host the counts that aren't 0, as ``ok=1 failed=1``."""
    return {
        host: " ".join(f"{key}={count}" for key, count in counts.items() if count)
        for host, counts in ran.result.recap().items()
    }


NEXT = "- hosts: all\n  tasks: [{name: next, debug: }]\n"

# -- blocks --------------------------------------------------------------------------------------------------


def test_a_rescue_runs_on_the_host_that_failed_and_always_on_all(three: Lab) -> None:
    ran = three.tasks(
        """\
        - block:
            - {name: a, fail: {msg: x}, when: inventory_hostname == 'h1'}
            - {name: b, debug: }
          rescue:
            - {name: r, debug: {msg: "{{ ansible_failed_task.name }} {{ ansible_failed_result.msg }}"}}
          always:
            - {name: w, debug: }
        - {name: last, debug: }
        """
    )
    assert story(ran) == [
        "a h1:rescued h2:skipped h3:skipped",
        "b h2 h3",
        "r h1",
        "w h1 h2 h3",
        "last h1 h2 h3",
    ]
    assert ran.task(2).message == "a x"
    # h1 : ok=3 rescued=1; h2 : ok=3 skipped=1; exit status 0
    assert recap(ran) == {"h1": "ok=3 rescued=1", "h2": "ok=3 skipped=1", "h3": "ok=3 skipped=1"}
    assert ran.result.exit_status() == 0
    assert ran.result.errors == {}


def test_always_is_told_what_its_host_fails_with_and_may_put_another_error_in_its_place(three: Lab) -> None:
    ran = three.tasks(
        """\
        - block:
            - {name: f, fail: {msg: first}, when: inventory_hostname != 'h3'}
          always:
            - {name: w, debug: {msg: "{{ (klops_failed | default({'message': 'none'})).message }}"}}
            - {name: g, fail: {msg: "{{ klops_failed.code }} again"}, when: inventory_hostname == 'h2'}
        """
    )
    assert {host: ran.task(1, host).message for host in ("h1", "h2", "h3")} == {
        "h1": "first",
        "h2": "first",
        "h3": "none",
    }
    # nothing of it is rescued, and what the host fails with is what failed last
    assert recap(ran)["h1"] == "ok=1 failed=1 skipped=1"
    assert {host: error.message for host, error in ran.result.errors.items()} == {
        "h1": "first",
        "h2": "task-failed again",
    }


def test_always_is_told_which_actions_may_have_changed_something(three: Lab) -> None:
    three.host("h1").on("true", reply())
    ran = three.tasks(
        """\
        - {name: a, debug: }
        - block:
            - {name: b, command: "true", when: inventory_hostname == 'h1'}
            - {name: f, fail: }
          always:
            - {name: w, debug: {msg: "{{ klops_failed.action }} {{ klops_failed.applied | join(' ') }}"}}
        """
    )
    assert ran.task(3, "h1").message == "fail command"
    assert ran.task(3, "h2").message == "fail "


def test_a_rescued_failure_is_not_what_a_host_fails_with(three: Lab) -> None:
    ran = three.tasks(
        """\
        - block:
            - {name: f, fail: }
          rescue:
            - {name: r, debug: }
          always:
            - {name: w, debug: {msg: "{{ klops_failed is defined }}"}}
        """
    )
    assert ran.task(2).message == "false"


def test_failures_in_rescue_and_always(three: Lab) -> None:
    ran = three.tasks(
        """\
        - block:
            - {name: f1, fail: }
          rescue:
            - {name: f2, fail: {msg: again}, when: inventory_hostname == 'h2'}
            - {name: f3, debug: }
          always:
            - {name: f4, debug: }
        - block:
            - {name: g1, debug: }
          always:
            - {name: g2, fail: {msg: g2}, when: inventory_hostname == 'h1'}
            - {name: g3, debug: }
        - {name: last, debug: }
        """
    )
    assert story(ran)[1:] == [
        "f2 h1:skipped h2:failed h3:skipped",
        "f3 h1 h3",
        "f4 h1 h2 h3",
        "g1 h1 h3",
        "g2 h1:failed h3:skipped",
        "g3 h3",
        "last h3",
    ]
    # h1 : ok=3 failed=1 skipped=1 rescued=1; h2 : ok=1 failed=1 rescued=1
    assert recap(ran)["h1"] == "ok=3 failed=1 skipped=1 rescued=1"
    assert recap(ran)["h2"] == "ok=1 failed=1 rescued=1"
    assert {host: error.message for host, error in ran.result.errors.items()} == {"h2": "again", "h1": "g2"}


def test_a_rescue_around_a_rescue_that_failed(lab: Lab) -> None:
    ran = lab.tasks(
        """\
        - block:
            - block: [{name: a1, fail: }]
              rescue: [{name: a2, fail: }]
              always: [{name: a3, debug: }]
            - {name: a4, debug: }
          rescue:
            - {name: a5, debug: {msg: "{{ ansible_failed_task.name }}"}}
        - {name: end, debug: }
        """
    )
    assert story(ran) == ["a1 h1:rescued", "a2 h1:rescued", "a3 h1", "a5 h1", "end h1"]
    assert ran.task(3).message == "a2"
    # ok=3 rescued=2
    assert recap(ran) == {"h1": "ok=3 rescued=2"}


def test_no_rescue_for_an_unreachable_host(three: Lab) -> None:
    three.host("h2").unreachable = "no route to host"
    for name in ("h1", "h3"):
        three.host(name).on("work")
    ran = three.tasks(
        """\
        - block: [{name: a, command: work}]
          rescue: [{name: r, debug: }]
          always: [{name: w, debug: }]
        """
    )
    assert story(ran) == ["a h1:changed h2:unreachable h3:changed", "w h1 h3"]
    assert ran.result.exit_status() == 4


def test_an_ignored_failure_counts_as_ok(lab: Lab) -> None:
    lab.host().on("false", reply(rc=1))
    ran = lab.tasks(
        """\
        - {name: i, fail: , ignore_errors: true}
        - {name: c, command: "false", ignore_errors: true, changed_when: true}
        - block: [{name: b, fail: , ignore_errors: true}]
          rescue: [{name: r, debug: }]
        - {name: end, debug: }
        """
    )
    assert story(ran) == ["i h1:failed", "c h1:failed", "b h1:failed", "end h1"]
    # ok=4 changed=1 ignored=3
    assert recap(ran) == {"h1": "ok=4 changed=1 ignored=3"}
    assert ran.result.exit_status() == 0


# -- how many fail -------------------------------------------------------------------------------------------


def test_any_errors_fatal_ends_the_play_and_the_playbook(three: Lab) -> None:
    ran = three.play(
        """\
        - hosts: all
          any_errors_fatal: true
          tasks:
            - {name: boom, fail: {msg: boom}, when: inventory_hostname == 'h2'}
            - {name: after, debug: }
          handlers: [{name: H, debug: }]
        """
        + NEXT.replace("\n", "\n        ").rstrip(" ")
    )
    assert story(ran) == ["boom h1:skipped h2:failed h3:skipped"]
    assert list(ran.result.errors) == ["h2"]
    assert [event.reason for event in ran.sink.events if isinstance(event, PlayEnded)] == [
        "'boom' failed, and it has any_errors_fatal"
    ]


def test_a_rescue_recovers_all_hosts_from_a_fatal_failure(three: Lab) -> None:
    # ansible-playbook runs r, w and after on all three, too; it then leaves h1 and h3 out of the next play,
    # in which the host that did fail takes part, and exits with 2
    ran = three.play(
        """\
        - hosts: all
          tasks:
            - block:
                - {name: boom, fail: , when: inventory_hostname == 'h2', any_errors_fatal: true}
                - {name: not, debug: }
              rescue: [{name: r, debug: }]
              always: [{name: w, debug: }]
            - {name: after, debug: }
        - hosts: all
          tasks: [{name: next, debug: }]
        """
    )
    assert story(ran)[1:] == ["r h1 h2 h3", "w h1 h2 h3", "after h1 h2 h3", "next h1 h2 h3"]
    assert ran.result.exit_status() == 0


@pytest.mark.parametrize(
    ("serial", "most", "expected"),
    [
        (3, 33.3, ["boom h1:skipped h2:failed h3:skipped"]),
        (3, 34, ["boom h1:skipped h2:failed h3:skipped", "after h1 h3", "next h1 h3"]),
        (2, 49, ["boom h1:skipped h2:failed"]),
        (2, 50, ["boom h1:skipped h2:failed", "after h1", "boom h3:skipped", "after h3", "next h1 h3"]),
    ],
)
def test_max_fail_percentage(three: Lab, serial: int, most: float, expected: list[str]) -> None:
    # as ansible-playbook: above the percentage of the batch, not at it; no later batch, no later play
    ran = three.play(
        f"""\
        - hosts: all
          serial: {serial}
          max_fail_percentage: {most}
          tasks:
            - {{name: boom, fail: , when: inventory_hostname == 'h2'}}
            - {{name: after, debug: }}
        - hosts: all
          tasks: [{{name: next, debug: }}]
        """
    )
    assert story(ran) == expected
    assert list(ran.result.errors) == ["h2"]


def test_a_batch_that_failed_as_a_whole_ends_the_playbook(three: Lab) -> None:
    text = """\
        - hosts: all
          serial: [1, "50%"]
          tasks:
            - {name: one, debug: }
            - {name: boom, fail: , when: inventory_hostname == bad}
        - hosts: all
          tasks: [{name: next, debug: }]
        """
    # 50% of three hosts is one
    assert story(three.play(text, extra_vars={"bad": "none"})) == [
        "one h1", "boom h1:skipped", "one h2", "boom h2:skipped", "one h3", "boom h3:skipped",
        "next h1 h2 h3",
    ]  # fmt: skip
    ran = three.play(text, extra_vars={"bad": "h2"})
    assert story(ran) == ["one h1", "boom h1:skipped", "one h2", "boom h2:failed"]
    assert [(play.batch, play.batches) for play in ran.result.plays] == [(1, 3), (2, 3)]


# -- once for all --------------------------------------------------------------------------------------------


def test_run_once_runs_on_the_first_host_and_registers_for_all(three: Lab) -> None:
    three.host("h1").on("echo", "hi")
    ran = three.tasks(
        """\
        - {name: once, command: echo, run_once: true, register: r}
        - {name: show, debug: {msg: "{{ r.stdout }}"}}
        - {name: fails, fail: , run_once: true}
        - {name: after, debug: }
        """
    )
    assert story(ran) == ["once h1:changed", "show h1 h2 h3", "fails h1:failed"]
    assert {ran.task(1, host).message for host in ("h1", "h2", "h3")} == {"hi"}
    # h1 : ok=2 changed=1 failed=1; h2 : ok=1
    assert recap(ran) == {"h1": "ok=2 changed=1 failed=1", "h2": "ok=1", "h3": "ok=1"}


def test_a_pause_is_of_the_first_living_host_alone(three: Lab) -> None:
    ran = three.tasks(
        """\
        - {name: a, fail: , when: inventory_hostname == 'h1'}
        - {name: not here, pause: {seconds: 0}, when: inventory_hostname == 'h3'}
        - {name: wait, pause: {seconds: 0}, register: waited}
        - {name: who, debug: {msg: "{{ waited is defined }}"}}
        - {name: bad, pause: {seconds: "{{ 'x' }}"}}
        - {name: after, debug: }
        """
    )
    # nobody else waits or gets the result, and a failure ends the play for all
    assert story(ran)[1:] == ["not here h2:skipped", "wait h2", "who h2 h3", "bad h2:failed"]
    assert [ran.task(3, host).message for host in ("h2", "h3")] == ["true", "false"]
    assert recap(ran) == {"h1": "failed=1", "h2": "ok=2 failed=1 skipped=2", "h3": "ok=1 skipped=1"}


def test_a_pause_where_no_host_waits_for_another(three: Lab) -> None:
    # ansible refuses it with the free strategy
    ran = three.play(
        """\
        - hosts: all
          strategy: free
          tasks:
            - {name: wait, pause: {seconds: 0}}
            - {name: again, pause: {seconds: 0}}
            - {name: z, debug: }
        """
    )
    assert [len(line.split()) - 1 for line in story(ran)] == [1, 1, 3]
    assert ran.result.ok


def test_the_first_living_host_runs_what_runs_once(three: Lab) -> None:
    ran = three.tasks(
        "- {name: a, fail: , when: inventory_hostname == 'h1'}\n- {name: once, debug: , run_once: true}\n"
        "- {name: b, debug: }"
    )
    assert story(ran)[1:] == ["once h2", "b h2 h3"]


# -- orders to the engine ------------------------------------------------------------------------------------


def test_end_host_and_end_play(three: Lab) -> None:
    ran = three.play(
        """\
        - hosts: all
          tasks:
            - {name: one, debug: }
            - {meta: end_host, when: inventory_hostname == 'h2'}
            - {name: two, debug: , changed_when: true, notify: H}
            - meta: flush_handlers
            - {name: three, debug: , changed_when: true, notify: H}
            - meta: noop
            - {meta: end_play, when: inventory_hostname == 'h1'}
            - {name: four, debug: }
          handlers: [{name: H, debug: }]
        - hosts: all
          tasks: [{name: next, debug: }]
        """
    )
    assert story(ran) == [
        "one h1 h2 h3",
        "two h1:changed h3:changed",
        "H h1 h3",
        "three h1:changed h3:changed",
        "next h1 h2 h3",
    ]
    # h1 : ok=5 changed=2; h2 : ok=2 - a meta task, done or skipped, is not counted
    assert recap(ran) == {"h1": "ok=5 changed=2", "h2": "ok=2", "h3": "ok=5 changed=2"}


def test_the_condition_of_an_order_to_all_is_asked_of_the_first_host(three: Lab) -> None:
    # ansible-playbook: with h2 in the condition the play goes on
    text = "- {meta: end_play, when: inventory_hostname == '%s'}\n- {name: a, debug: }"
    assert story(three.tasks(text % "h2")) == ["a h1 h2 h3"]
    assert story(three.tasks(text % "h1")) == []


def test_end_batch_and_end_play_in_batches(three: Lab) -> None:
    text = """\
        - hosts: all
          serial: 2
          tasks:
            - {name: one, debug: }
            - {meta: ORDER, when: inventory_hostname == 'h1'}
            - {name: two, debug: }
        - hosts: all
          tasks: [{name: next, debug: }]
        """
    assert story(three.play(text.replace("ORDER", "end_batch"))) == [
        "one h1 h2", "one h3", "two h3", "next h1 h2 h3",
    ]  # fmt: skip
    assert story(three.play(text.replace("ORDER", "end_play"))) == ["one h1 h2", "next h1 h2 h3"]


def test_clear_host_errors(three: Lab) -> None:
    # ansible-playbook: h2 failed and is back in the next play; h3, which was unreachable, does the tasks that
    # it missed; exit status 0
    h3 = three.host("h3")
    h3.unreachable = "no route to host"
    for name in ("h1", "h2", "h3"):
        three.host(name).on("work")

    def comes_back(_: Any) -> str:
        h3.unreachable = ""
        return ""

    three.host("h1").on("work 2", comes_back)
    ran = three.play(
        """\
        - hosts: all
          tasks:
            - {name: a, command: work}
            - {name: boom, fail: , when: inventory_hostname == 'h2'}
            - {name: b, command: work 2}
            - meta: clear_host_errors
            - {name: c, debug: {msg: "{{ ansible_play_hosts | join(' ') }}"}}
        - hosts: all
          tasks: [{name: next, debug: }]
        """
    )
    assert story(ran) == [
        "a h1:changed h2:changed h3:unreachable",
        "boom h1:skipped h2:failed h3:skipped",
        "b h1:changed h3:changed",
        "c h1 h3",
        "next h1 h2 h3",
    ]
    # who left is among ansible_play_hosts in the next play only
    assert ran.task(3).message == "h1"
    assert ran.result.exit_status() == 0


def test_reset_connection_opens_a_new_one_and_keeps_that_of_the_lock(lab: Lab) -> None:
    lab.host().on("work")
    opened: list[Any] = []
    lab.wrap = lambda remote: opened.append(remote) or remote  # type: ignore[func-returns-value]
    ran = lab.tasks("- command: work\n- meta: reset_connection\n- command: work")
    assert ran.statuses() == ["changed", "changed"]
    assert len(opened) == 2
    assert ran.locks == ["acquire", "release"]


class Answer(Action[Params]):
    """An action that registers what a server may answer."""

    name = "answer"
    params = Params

    def probe(self, params: Params, view: View) -> Probe:
        """Nothing."""
        return Probe()

    def plan(self, params: Params, view: View, seen: Seen) -> Plan:
        """Nothing to do."""
        return Plan(result={"meta": "end_play"})


@pytest.mark.parametrize("strategy", ["linear", "free"])
def test_no_result_orders_anything_whatever_it_holds(three: Lab, strategy: str) -> None:
    three.actions = {**GENERIC_ACTIONS, **registry([Answer()])}
    ran = three.play(
        f"- hosts: all\n  strategy: {strategy}\n  tasks: [{{name: a, answer: }}, {{name: b, debug: }}]\n"
    )
    assert story(ran) == ["a h1 h2 h3", "b h1 h2 h3"]


def test_an_order_that_one_host_gives_is_for_that_host(three: Lab) -> None:
    for name in ("h1", "h2", "h3"):
        three.host(name).on("work")
    opened: list[str] = []
    three.wrap = lambda remote: opened.append(remote.name) or remote  # type: ignore[func-returns-value]
    ran = three.tasks(
        "- command: work\n- meta: reset_connection\n  when: inventory_hostname == 'h2'\n- command: work"
    )
    assert ran.result.ok
    assert sorted(opened) == ["h1", "h2", "h2", "h3"]


def test_a_reset_leaves_what_other_hosts_do_there_alone() -> None:
    class Closing(FakeRemote):
        """Knows that it was closed."""

        times = 0

        def clone(self, **_: Any) -> Remote:
            made = Closing()
            clones.append(made)
            return made

        def close(self) -> None:
            self.times += 1

    clones: list[Closing] = []
    host = Host("h1", lambda become: Closing(), lambda remote, root: FakeLock())
    host.remote(None)
    theirs = host.remote(None, by="h2")
    host.reset()
    assert [remote.times for remote in clones] == [1, 0]
    assert host.remote(None, by="h2") is not theirs
    # an interrupt reaches it all the same
    host.end_commands()
    assert clones[1].times == 1


def test_facts_that_modules_gave_are_forgotten_too(lab: Lab) -> None:
    host = Host("h1", lambda become: FakeRemote(), lambda remote, root: FakeLock(), facts={"a": 1})
    facts.merge(host, {"ansible_b": 2})
    host.forget_facts()
    assert (host.facts, host.given_facts) == (None, {})


@pytest.mark.parametrize("keyword", ["any_errors_fatal", "run_once"])
def test_rescues_of_the_other_hosts_are_told_what_failed(three: Lab, keyword: str) -> None:
    # ansible-playbook 2.19 leaves them undefined on h2 and h3, where run_once has no rescue run at all
    ran = three.tasks(
        f"""\
        - block:
            - {{name: boom, fail: {{msg: x}}, when: inventory_hostname == 'h1', {keyword}: true}}
          rescue:
            - {{name: r, debug: {{msg: "{{{{ ansible_failed_task.name ~ ansible_failed_result.msg }}}}"}}}}
        """
    )
    assert [ran.task(1, host).message for host in ("h1", "h2", "h3")] == ["boomx"] * 3


# -- side by side --------------------------------------------------------------------------------------------


def test_order_of_hosts_and_names_with_templates(three: Lab) -> None:
    ran = three.play(
        """\
        - hosts: all
          order: reverse_sorted
          tasks: [{name: "on {{ inventory_hostname }}", debug: }]
        """
    )
    # TASK [on h3]
    assert story(ran) == ["on h3 h3 h2 h1"]


def test_throttle(three: Lab) -> None:
    at_work: list[int] = []
    most: list[int] = []
    guard = threading.Lock()

    def work(_: Any) -> str:
        with guard:
            at_work.append(1)
            most.append(len(at_work))
        threading.Event().wait(0.02)
        with guard:
            at_work.pop()
        return ""

    for strategy in ("linear", "free"):
        most.clear()
        for name in ("h1", "h2", "h3"):
            three.host(name).on("work", work)
        task = "{command: work, throttle: 1}"
        ran = three.play(f"- hosts: all\n  strategy: {strategy}\n  tasks: [{task}]\n")
        assert ran.result.ok
        assert most == [1, 1, 1]


def test_with_the_free_strategy_no_host_waits_for_another(three: Lab) -> None:
    others_done = threading.Barrier(3, timeout=20)

    def wait(_: Any) -> str:
        others_done.wait()
        return ""

    # h1 is through its first task only when the others have begun their last one
    three.host("h1").on("first", wait).on("last")
    for name in ("h2", "h3"):
        three.host(name).on("first").on("last", wait)
    ran = three.play(
        """\
        - hosts: all
          strategy: free
          tasks:
            - {name: a, command: first}
            - {name: once, debug: , run_once: true}
            - name: fails
              fail:
              when: inventory_hostname == 'h3'
              any_errors_fatal: true
              ignore_errors: true
            - {name: z, command: last}
        """
    )
    # in the order of the playbook and of the hosts, whoever was first; run_once counts for nothing, as in
    # Ansible, which warns of it
    assert story(ran) == [
        "a h1:changed h2:changed h3:changed",
        "once h1 h2 h3",
        "fails h1:skipped h2:skipped h3:failed",
        "z h1:changed h2:changed h3:changed",
    ]
    said = [event.message.split()[0] for event in ran.sink.events if isinstance(event, Warned)]
    assert said == ["run_once", "any_errors_fatal"]
    started = [event.number for event in ran.sink.events if isinstance(event, TaskStarted)]
    assert len(set(started)) == 4
