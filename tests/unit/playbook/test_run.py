"""The engine on fake hosts: order, batches, conditions, loops, handlers, check mode, failures."""

from __future__ import annotations

import hashlib
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from klops.actions.base import Action, Change, Context, Params, Plan, Probe, Seen, Step, View, registry
from klops.errors import (
    ChangedMeanwhile,
    CommandFailed,
    ConnectionLost,
    HostUnreachable,
    LockHeld,
    SourceErrors,
    UsageError,
)
from klops.playbook.events import (
    Event,
    HostDropped,
    PlayStarted,
    RunFinished,
    RunStarted,
    TaskFinished,
    TaskProgress,
    TaskStarted,
    Warned,
)
from klops.playbook.results import Status
from klops.remote.fake import Call, reply
from klops.secret import Secret
from tests.unit.playbook.support import GENERIC_ACTIONS, Files, Lab

THREE = "all: {hosts: {h1: , h2: , h3: }}"


def ten_copies() -> str:
    return "\n".join(f"- copy: {{content: text{n}, dest: /f{n}}}" for n in range(10))


# -- batches -------------------------------------------------------------------------------------------------


def test_a_converged_play_of_ten_tasks_costs_one_read(lab: Lab) -> None:
    Files(lab.host(), **{f"/f{n}": f"text{n}" for n in range(10)})
    ran = lab.tasks(ten_copies())
    assert ran.statuses() == ["ok"] * 10
    assert ran.batches == 1
    assert ran.locks == []


def test_the_same_read_of_two_tasks_is_sent_once(lab: Lab) -> None:
    Files(lab.host(), **{"/a": "x"})
    lab.tasks("- copy: {content: x, dest: /a}\n- copy: {content: x, dest: /a}")
    scripts = [call.text for call in lab.host().log]
    assert len(scripts) == len(set(scripts)) == 3


def test_after_a_change_the_rest_is_read_again_in_one_batch(lab: Lab) -> None:
    files = Files(lab.host(), **{f"/f{n}": f"text{n}" for n in range(10)})
    files.content["/f3"] = "other"
    lab.host().on("chown 0:0 -- /f3")
    ran = lab.tasks(ten_copies())
    assert ran.statuses() == ["ok"] * 3 + ["changed"] + ["ok"] * 6
    # read, put, chown (the file had an owner), read of the rest
    assert ran.batches == 4
    assert files.content["/f3"] == "text3"


def test_a_plan_that_moved_after_a_change_says_so(lab: Lab) -> None:
    files = Files(lab.host(), **{"/a": "old", "/b": "x"})

    def spoil(call: Any) -> str:
        files.content |= {call.text: call.stdin.decode(), "/b": "spoiled"}
        return ""

    lab.host().on(lambda call: call.kind == "put" and call.text == "/a", spoil)
    lab.host().on("chown")
    ran = lab.tasks("- copy: {content: new, dest: /a}\n- copy: {content: x, dest: /b}")
    assert ran.statuses() == ["changed", "changed"]
    assert "nothing to do became write /b" in ran.task(1).warnings[0]
    assert any(isinstance(event, Warned) and event.host == "h1" for event in ran.sink.events)


def test_a_plan_that_did_not_move_says_nothing(lab: Lab) -> None:
    Files(lab.host())
    ran = lab.tasks("- copy: {content: new, dest: /a}\n- copy: {content: x, dest: /b}")
    assert ran.statuses() == ["changed", "changed"]
    assert ran.task(1).warnings == ()


def test_a_task_that_waits_for_a_result_is_read_when_it_is_reached(lab: Lab) -> None:
    Files(lab.host(), **{"/made": "x"})
    lab.host().on("echo", "/made\n")
    ran = lab.tasks(
        """\
        - command: echo /made
          register: where
        - file: {path: /made}
        - copy: {content: x, dest: "{{ target }}"}
          vars: {target: "{{ where.stdout }}"}
        """
    )
    assert ran.statuses() == ["changed", "ok", "ok"]
    assert ran.batches == 2  # the command; then one read for both, because by then both can be rendered


def test_turns_of_a_loop_are_read_together(lab: Lab) -> None:
    Files(lab.host(), **{"/a": "x", "/b": "x", "/c": "x"})
    ran = lab.tasks('- copy: {content: x, dest: "/{{ item }}"}\n  loop: [a, b, c]')
    assert ran.statuses() == ["ok"]
    assert ran.batches == 1


def loop_of_files(lab: Lab, count: int, changed: Callable[[int], bool]) -> tuple[int, int]:
    """Remote commands and single reads that a loop of file tasks takes; some are there as they must be."""
    made = Lab(lab.folder)
    present = {f"/f{n}": f"text{n}" for n in range(count) if not changed(n)}
    Files(made.host(), **present)
    items = [{"n": n} for n in range(count)]
    ran = made.tasks(
        f"- copy: {{content: 'text{{{{ item.n }}}}', dest: '/f{{{{ item.n }}}}'}}\n  loop: {items}\n"
        "- copy: {content: x, dest: /last}"
    )
    assert ran.statuses() == ["changed", "changed"]
    return ran.batches, sum(call.kind == "read" for call in made.host().log)


@pytest.mark.parametrize(
    "changed",
    [lambda n: True, lambda n: n % 2 == 0, lambda n: n % 5 == 4, lambda n: n == 0],
    ids=["all", "every second", "every fifth", "the first"],
)
def test_the_cost_of_a_loop_with_changes_is_linear(lab: Lab, changed: Callable[[int], bool]) -> None:
    for count in (20, 160):
        commands, reads = loop_of_files(lab, count, changed)
        # a look, the change, and a look at what came of it
        assert commands <= 3 * count + 10
        # three a file: ahead of all changes, in its turn, and in vain no more than twice that
        assert reads <= 3 * 4 * count + 10


# -- conditions and variables --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "status"),
    [
        ("true", "ok"),
        ("1 == 2", "skipped"),
        ("missing is defined", "skipped"),
        ("true and 'yes'", "failed"),
        ("1 + 0", "failed"),
        ("missing", "failed"),
    ],
)
def test_when(lab: Lab, condition: str, status: str) -> None:
    ran = lab.tasks(f"- debug: {{msg: hello}}\n  when: {condition}")
    assert ran.statuses() == [status]


def test_a_condition_that_is_not_boolean_says_where_and_what_to_do(lab: Lab) -> None:
    error = lab.tasks("- debug:\n  when: groups").result.errors["h1"]
    assert "play.yml:3:7" in str(error)
    assert "gave dict, not true or false" in str(error)
    assert "| bool" in error.hint


def test_all_conditions_of_a_list_must_hold_and_later_ones_are_not_asked(lab: Lab) -> None:
    ran = lab.tasks("- debug:\n  when: [x is defined, x.y == 1]")
    assert ran.statuses() == ["skipped"]


def test_undefined_variables_fail_and_name_the_nearest(lab: Lab) -> None:
    lab.inventory = "all: {hosts: {h1: {model_dir: /m}}}"
    error = lab.tasks('- debug: {msg: "{{ model_dri }}"}').result.errors["h1"]
    assert error.code == "undefined"
    assert error.hint == "did you mean model_dir?"


def test_register_and_set_fact_and_precedence(lab: Lab) -> None:
    lab.inventory = "all: {hosts: {h1: {a: host, b: host, c: host, d: host}}}"
    lab.host().on("echo", "said\n")
    ran = lab.play(
        """\
        - hosts: all
          vars: {b: play, c: play, d: play}
          tasks:
            - command: echo
              register: out
            - set_fact: {c: "{{ out.stdout }}", d: fact}
            - debug: {msg: "{{ a }} {{ b }} {{ c }} {{ d }} {{ out.rc }} {{ out.stdout_lines | length }}"}
        """,
        extra_vars={"d": "extra"},
    )
    assert ran.task(2).message == "host play said extra 0 1"


def test_what_a_host_says_is_never_a_template(lab: Lab) -> None:
    lab.host().on("cat", "{{ 7 * 6 }}")
    ran = lab.tasks(
        """\
        - command: cat
          register: out
        - set_fact: {copy: "{{ out.stdout }}"}
        - debug: {msg: "{{ copy }}"}
        - debug: {var: out.stdout}
        """
    )
    assert ran.task(2).message == "{{ 7 * 6 }}"
    assert ran.task(3).message == "out.stdout: {{ 7 * 6 }}"


def test_variables_last_from_play_to_play(lab: Lab) -> None:
    ran = lab.play(
        """\
        - hosts: all
          tasks: [{set_fact: {n: 5}}]
        - hosts: all
          tasks: [{debug: {msg: "{{ n + 1 }}"}}]
        """
    )
    assert ran.result.plays[1].tasks[0].hosts["h1"].values["msg"] == 6


# -- loops ---------------------------------------------------------------------------------------------------


def test_a_loop_registers_results_and_goes_on_after_a_failed_turn(lab: Lab) -> None:
    lab.host().on("run", "").on("run b", reply(rc=3, stderr="no b"))
    ran = lab.tasks("- command: run {{ item }}\n  loop: [a, b, c]")
    assert [call.text for call in lab.host().log] == ["run a", "run b", "run c"]
    result = ran.task(0)
    assert result.status is Status.FAILED
    # as in Ansible a command that failed has changed something
    assert [turn["failed"] for turn in result.values["results"]] == [False, True, False]
    assert [turn["changed"] for turn in result.values["results"]] == [True, True, True]
    assert result.message == "b: run b ended with 3: no b"


def test_loop_with_a_condition_on_the_item(lab: Lab) -> None:
    ran = lab.tasks("- debug: {msg: 'got {{ item }}'}\n  loop: '{{ range(4) }}'\n  when: item is odd")
    assert ran.task(0).message == "1: got 1\n3: got 3"
    assert ["skipped" in turn for turn in ran.task(0).values["results"]] == [True, False, True, False]


@pytest.mark.parametrize(
    ("loop", "status"), [("[]", "skipped"), ("'{{ 5 }}'", "failed"), ("'{{ x }}'", "failed")]
)
def test_loop_over_nothing_and_over_no_list(lab: Lab, loop: str, status: str) -> None:
    assert lab.tasks(f"- debug:\n  loop: {loop}").statuses() == [status]


def test_a_condition_that_does_not_hold_spares_the_loop(lab: Lab) -> None:
    ran = lab.tasks("- debug:\n  loop: '{{ things }}'\n  when: things is defined")
    assert ran.statuses() == ["skipped"]


# -- handlers ------------------------------------------------------------------------------------------------

HANDLERS = """\
- hosts: all
  tasks:
    - copy: {content: new, dest: /a}
      notify: [second, first]
    - copy: {content: new, dest: /b}
      notify: second
    - copy: {content: new, dest: /c}
      notify: third
  handlers:
    - {name: first, command: first}
    - {name: second, command: second}
    - {name: third, command: third}
"""


def test_handlers_run_once_at_the_end_in_the_order_of_definition(lab: Lab) -> None:
    Files(lab.host(), **{"/c": "new"})
    lab.host().on(lambda call: call.kind == "run", "")
    ran = lab.play(HANDLERS)
    ran_there = [call.text for call in lab.host().log if call.kind == "run"]
    assert ran_there == ["first", "second", "rm -f -- /var/lib/klops/notified.json"]
    assert [task.name for task in ran.result.plays[0].tasks[3:]] == ["first", "second"]


def test_a_handlers_own_tags_select_nothing_as_in_ansible(lab: Lab) -> None:
    text = """\
        - hosts: all
          tasks:
            - {copy: {content: x, dest: /f}, tags: [a], notify: say}
          handlers:
            - {name: say, debug: , tags: [b]}
        """
    for number, options in enumerate(({"tags": ["a"]}, {"skip_tags": ["b"]})):
        Files(lab.host())
        lab.host().on("rm -f")
        ran = lab.play(text.replace("/f", f"/f{number}"), **options)
        assert ran.statuses() == ["changed", "ok"]


def test_handlers_in_check_mode_tell_what_they_would_do(lab: Lab) -> None:
    Files(lab.host(), **{"/b": "new", "/c": "new"})
    ran = lab.play(HANDLERS, check=True)
    assert ran.statuses() == ["changed", "ok", "ok", "unknown", "unknown"]


# -- check mode ----------------------------------------------------------------------------------------------


def test_check_mode_writes_nothing_and_takes_no_lock(lab: Lab) -> None:
    Files(lab.host(), **{"/a": "old\n"})
    ran = lab.tasks('- copy: {content: "new\\n", dest: /a}', check=True)
    change = ran.task(0).changes[0]
    assert (change.what, change.before, change.after) == ("write /a (0644, 4 bytes)", "old\n", "new\n")
    assert ran.result.pending
    assert ran.result.exit_status(detailed=True) == 3
    assert lab.host().commands == []
    assert ran.locks == []


class Careless(Action[Params]):
    """An action that writes where it should only look."""

    name = "careless"
    params = Params

    def probe(self, params: Params, view: View) -> Probe:
        """Nothing."""
        return Probe()

    def plan(self, params: Params, view: View, seen: Seen) -> Plan:
        """One step."""
        return Plan((_Careless(),))


class _Careless(Step):
    def change(self) -> Change:
        return Change("write")

    def carry_out(self, ctx: Context) -> None:
        ctx.remote.put(b"", "/x")


@pytest.mark.parametrize("keyword", ["", "  check_mode: true\n"])
def test_no_task_writes_in_check_mode(lab: Lab, keyword: str) -> None:
    lab.actions = registry([Careless()])
    ran = lab.tasks(f"- careless:\n{keyword}", check=not keyword)
    assert ran.statuses() == ["changed"]
    assert lab.host().log == []


def test_a_command_in_check_mode_is_unknown_and_so_is_what_needs_it(lab: Lab) -> None:
    ran = lab.tasks(
        """\
        - command: cat /etc/version
          register: version
        - debug: {msg: "{{ version.stdout }}"}
        - debug:
          when: version.rc == 0
        - set_fact: {fact: "{{ version.stdout }}"}
        - debug: {msg: "{{ fact }}"}
        - debug: {msg: "{{ version.cmd }}"}
        """,
        check=True,
    )
    assert ran.statuses() == ["unknown"] * 5 + ["ok"]
    assert "only shows when it is applied" in ran.task(1).message
    assert ran.result.ok


def test_that_a_task_would_change_something_is_known_in_check_mode(lab: Lab) -> None:
    Files(lab.host())
    ran = lab.tasks(
        """\
        - copy: {content: x, dest: /a}
          register: made
        - debug: {msg: changed}
          when: made is changed
        - debug: {msg: "{{ made.backup_file }}"}
        """,
        check=True,
    )
    assert ran.statuses() == ["changed", "ok", "unknown"]


def test_creates_decides_a_command_in_check_mode(lab: Lab) -> None:
    Files(lab.host(), **{"/there": ""})
    ran = lab.tasks("- command: {cmd: a, creates: /there}\n- command: {cmd: a, creates: /not}", check=True)
    assert ran.statuses() == ["ok", "changed"]


# -- failures ------------------------------------------------------------------------------------------------


def test_a_failed_host_drops_out_and_the_others_go_on(lab: Lab) -> None:
    lab.inventory = THREE
    lab.host("h1").on("work", "")
    lab.host("h2").on("work", reply(rc=1, stderr="broken"))
    lab.host("h3").unreachable = "no route to host"
    ran = lab.tasks("- command: work\n- debug: {msg: on}")
    assert ran.statuses("h1") == ["changed", "ok"]
    assert ran.statuses("h2") == ["failed"]
    assert ran.statuses("h3") == ["unreachable"]
    assert isinstance(ran.result.errors["h2"], CommandFailed)
    assert isinstance(ran.result.errors["h3"], HostUnreachable)
    assert ran.result.exit_status() == 4
    assert {event.host for event in ran.sink.events if isinstance(event, HostDropped)} == {"h2", "h3"}
    recap = ran.result.recap()
    assert recap["h1"]["changed"] == 1
    assert recap["h3"]["unreachable"] == 1


class TwoStepsParams(Params):
    """``of``: what the steps are about."""

    of: str


class TwoSteps(Action[TwoStepsParams]):
    """An action of two commands."""

    name = "two_steps"
    params = TwoStepsParams

    def probe(self, params: TwoStepsParams, view: View) -> Probe:
        """Nothing."""
        return Probe()

    def plan(self, params: TwoStepsParams, view: View, seen: Seen) -> Plan:
        """Begin and end."""
        return Plan((_Command(f"begin {params.of}"), _Command(f"end {params.of}")))


@dataclass(frozen=True)
class _Command(Step):
    text: str

    def change(self) -> Change:
        return Change(self.text)

    def carry_out(self, ctx: Context) -> None:
        ctx.remote.run(self.text.split())


def test_a_failed_task_lists_what_it_had_changed_before(lab: Lab) -> None:
    lab.actions = registry([TwoSteps()])
    lab.host().on("begin").on("end", reply(rc=1, stderr="not permitted"))
    ran = lab.tasks("- two_steps: {of: a}")
    assert ran.statuses() == ["failed"]
    assert [change.what for change in ran.task(0).changes] == ["begin a"]


def test_a_failed_turn_lists_its_own_changes_only(lab: Lab) -> None:
    lab.actions = registry([TwoSteps()])
    lab.host().on("begin").on("end").on("end b", reply(rc=1, stderr="not permitted"))
    ran = lab.tasks("- two_steps: {of: '{{ item }}'}\n  loop: [a, b, c]")
    changes = [change.what for change in ran.task(0).changes]
    assert changes == ["begin a", "end a", "begin b", "begin c", "end c"]


def test_a_lost_connection_is_followed_by_a_look_and_a_new_plan(lab: Lab) -> None:
    files = Files(lab.host())

    def done_but_lost(call: Any) -> BaseException:
        files.content[call.text] = call.stdin.decode()
        return ConnectionLost("h1: gone")

    lab.host().on(lambda call: call.kind == "put", done_but_lost)
    ran = lab.tasks("- copy: {content: x, dest: /a}")
    assert ran.statuses() == ["changed"]
    assert "nothing was left to do" in ran.task(0).message
    assert [call.kind for call in lab.host().log].count("put") == 1


def test_a_line_that_somebody_adds_between_plan_and_change_stays(lab: Lab) -> None:
    files = Files(lab.host(), **{"/a": "one\n"})

    def put(call: Any) -> Any:
        if files.content["/a"] == "one\n":
            files.content["/a"] += "theirs\n"
            assert call.unless_changed == hashlib.sha256(b"one\n").hexdigest()
            return ChangedMeanwhile("h1: /a was changed")
        assert call.unless_changed == hashlib.sha256(b"one\ntheirs\n").hexdigest()
        files.content[call.text] = call.stdin.decode()
        return ""

    lab.host().on(lambda call: call.kind == "put", put)
    ran = lab.tasks("- lineinfile: {path: /a, line: ours}")
    assert ran.statuses() == ["changed"]
    assert "somebody else made a change meanwhile" in ran.task(0).message
    assert files.content["/a"] == "one\ntheirs\nours\n"


def test_who_writes_all_the_time_fails_the_task(lab: Lab) -> None:
    Files(lab.host(), **{"/a": "one\n"})
    lab.host().on(lambda call: call.kind == "put", ChangedMeanwhile("h1: /a was changed"))
    ran = lab.tasks("- lineinfile: {path: /a, line: ours}\n  ignore_errors: true")
    assert ran.statuses() == ["failed"]
    assert ran.result.exit_status() == 0
    assert [call.kind for call in lab.host().log].count("put") == 2


def test_a_command_is_not_repeated_after_a_lost_connection(lab: Lab) -> None:
    lab.host().on("reboot", ConnectionLost("h1: gone"))
    ran = lab.tasks("- command: reboot")
    assert ran.statuses() == ["unreachable"]
    assert "had its effect is not known" in ran.task(0).message
    assert len(lab.host().log) == 1


class Broken(Careless):
    """An action with a fault."""

    name = "broken"

    def plan(self, params: Params, view: View, seen: Seen) -> Plan:
        """Raises."""
        raise RuntimeError("sesame-0815 in a traceback")


def test_a_fault_of_klops_fails_one_host_with_its_code(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.actions = registry([Broken()])
    lab.redactor.add(Secret("sesame-0815"))
    ran = lab.tasks("- broken:")
    error = ran.result.errors["h1"]
    assert error.code == "internal"
    assert "sesame" not in str(error)
    assert "sesame" not in capsys.readouterr().out
    assert ran.result.exit_status() == 1


def test_lock_is_taken_before_the_first_change_and_given_back(lab: Lab) -> None:
    Files(lab.host(), **{"/a": "x"})
    ran = lab.tasks(
        "- copy: {content: x, dest: /a}\n- copy: {content: x, dest: /b}\n- copy: {content: x, dest: /c}"
    )
    assert ran.locks == ["acquire", "release"]
    assert lab.host().closed


def test_lock_is_given_back_after_a_failure(lab: Lab) -> None:
    lab.host().on("work", reply(rc=1))
    assert lab.tasks("- command: work").locks == ["acquire", "release"]


def test_a_lock_that_was_lost_stops_further_changes(lab: Lab) -> None:
    def lose(_: Any) -> str:
        lab.lock.lost = LockHeld("somebody else took the lock over")
        return ""

    lab.host().on("one", lose).on("two")
    ran = lab.tasks("- command: one\n- command: two")
    assert ran.statuses() == ["changed", "failed"]
    assert ran.result.errors["h1"].code == "lock-held"
    assert lab.host().commands == ["one"]


def test_a_lock_that_cannot_be_given_back_is_worth_a_warning(lab: Lab) -> None:
    lab.host().on("one")
    lab.lock.stuck = HostUnreachable("gone")
    ran = lab.tasks("- command: one")
    assert ran.result.ok
    assert [event.message for event in ran.sink.events if isinstance(event, Warned)] == [
        "the lock could not be given back: gone; it expires by itself"
    ]


def test_mistakes_in_settings_stop_everything_before_it_begins(lab: Lab) -> None:
    lab.inventory = """\
        all:
          hosts:
            h1: {klops: {rot: /x}}
            h2: {ansible_port: 99999}
        """
    with pytest.raises(SourceErrors) as caught:
        lab.tasks("- command: work")
    assert len(caught.value.mistakes) == 2
    assert lab.sink.events == []


# -- secrets -------------------------------------------------------------------------------------------------


def test_the_settings_of_a_host_are_whole_and_their_secrets_masked(lab: Lab) -> None:
    lab.inventory = """\
        all:
          vars: {klops: {container: {name: other}, services: {a: {model: /m, api_key: sesame-0815}}}}
          hosts: {h1: , h2: {klops: {root: /data//klops/}}}
        """
    ran = lab.tasks(
        """\
        - debug:
            msg: "{{ klops_settings.root }} {{ own.name }} {{ own.python }}"
          vars: {own: "{{ klops_settings.container }}"}
        - debug: {msg: "{{ klops_settings.services.a.port }} {{ klops_settings.services.a.api_key }}"}
        """
    )
    assert ran.task(0).message == "/var/lib/klops other python3"
    assert ran.task(0, "h2").message == "/data/klops other python3"
    assert ran.task(1).message == "8000 ********"


def test_known_secrets_are_masked_in_all_that_leaves_the_engine(lab: Lab) -> None:
    secret = "s3 'x' $y"
    lab.redactor.add(Secret(secret))
    Files(lab.host())
    lab.host().on("show", f"key={secret}").on("err", reply(rc=1, stderr=secret))
    lab.inventory = f'all: {{hosts: {{h1: {{key: "{secret}"}}}}}}'
    ran = lab.tasks(
        """\
        - copy: {content: "{{ key }}", dest: /key}
        - command: show
          register: out
        - debug: {var: out}
        - command: err
        """
    )
    assert lab.host().files["/key"][0] == secret.encode()
    assert secret not in repr(ran.sink.events)
    assert secret not in repr(ran.result)
    assert "********" in ran.task(2).message


def test_no_log_hides_details_and_registers_all_the_same(lab: Lab) -> None:
    lab.host().on("show", "inner")
    ran = lab.tasks("- command: show\n  register: out\n  no_log: true\n- debug: {msg: '{{ out.stdout }}'}")
    assert ran.task(0).values == {}
    assert ran.task(0).changes == (Change("details are hidden (no_log)"),)
    assert ran.task(1).message == "inner"


def test_what_a_hidden_and_ignored_failure_changed_is_counted(lab: Lab) -> None:
    lab.host().on("show", reply(rc=3))
    ran = lab.tasks("- {command: show, no_log: true, ignore_errors: true}")
    # h1 : ok=1 changed=1 ignored=1
    assert {key: count for key, count in ran.result.recap()["h1"].items() if count} == {
        "ok": 1,
        "changed": 1,
        "ignored": 1,
    }


def test_no_log_hides_a_failure_but_not_why_a_host_is_unreachable(lab: Lab) -> None:
    lab.host().on("show", reply(rc=3, stderr="inner"))
    error = lab.tasks("- command: show inner\n  no_log: true").result.errors["h1"]
    assert isinstance(error, CommandFailed)
    assert "inner" not in f"{error} {error.message} {error.stderr}"
    assert error.rc == 3
    lab.host().unreachable = "no route to host"
    assert "no route" in str(lab.tasks("- command: show\n  no_log: true").result.errors["h1"])


# -- what is run ---------------------------------------------------------------------------------------------


def test_tags_start_and_limit(lab: Lab) -> None:
    lab.inventory = THREE
    text = "- {name: a, debug: , tags: x}\n- {name: b, debug: , tags: [y, x]}\n- {name: c, debug: }"
    assert [t.name for t in lab.tasks(text, tags=["x"]).result.plays[0].tasks] == ["a", "b"]
    assert [t.name for t in lab.tasks(text, skip_tags=["y"]).result.plays[0].tasks] == ["a", "c"]
    assert [t.name for t in lab.tasks(text, start_at_task="b").result.plays[0].tasks] == ["b", "c"]
    assert lab.tasks(text, limit=["h2"]).result.hosts == ("h2",)
    with pytest.raises(UsageError, match="no task is called 'bb'"):
        lab.tasks(text, start_at_task="bb")
    with pytest.raises(UsageError):
        lab.tasks(text, limit=["h4"])


@pytest.mark.parametrize("option", ["tags", "skip_tags"])
def test_a_tag_that_no_task_has_is_refused(lab: Lab, option: str) -> None:
    text = "- {name: a, debug: , tags: config}\n- {name: b, debug: }"
    with pytest.raises(UsageError, match="has the tag 'confg'") as raised:
        lab.tasks(text, **{option: ["confg"]})
    assert raised.value.hint == "did you mean config?"
    with pytest.raises(UsageError) as raised:
        lab.tasks("- debug:", **{option: ["x"]})
    assert raised.value.hint.endswith("has no tags")
    assert lab.tasks(text, **{option: ["untagged"]}).result.ok


def test_hosts_of_a_play_may_come_from_extra_variables(lab: Lab) -> None:
    lab.inventory = THREE
    text = "- hosts: '{{ target }}'\n  tasks: [{debug: }]\n"
    assert lab.play(text, extra_vars={"target": "h3"}).result.hosts == ("h3",)


def test_hosts_work_side_by_side(lab: Lab) -> None:
    lab.inventory = THREE
    together = threading.Barrier(3, timeout=20)

    def meet(_: Any) -> str:
        together.wait()
        return ""

    for name in ("h1", "h2", "h3"):
        lab.host(name).on("meet", meet)
    ran = lab.tasks("- command: meet")
    assert ran.result.ok


def test_results_by_action_and_commands_by_host(lab: Lab) -> None:
    lab.host().on("one", "1").on("two", "2")
    ran = lab.tasks("- command: one\n- command: two\n- debug: {msg: m}")
    assert ran.result.values["h1"]["command"]["stdout"] == "2"
    assert ran.result.values["h1"]["debug"]["msg"] == "m"
    assert ran.result.remote_commands == {"h1": 2}
    assert isinstance(ran.sink.events[-1], RunFinished)


# -- interrupts ----------------------------------------------------------------------------------------------


class Waiting(Careless):
    """An action whose step waits until it is interrupted."""

    name = "waiting"

    def plan(self, params: Params, view: View, seen: Seen) -> Plan:
        """One step."""
        return Plan((_Waiting(),))


class _Waiting(Step):
    def change(self) -> Change:
        return Change("wait")

    def carry_out(self, ctx: Context) -> None:
        from klops.actions.base import Progress

        pause = threading.Event()
        while True:
            ctx.progress(Progress("still here", 50.0))
            pause.wait(0.02)


@pytest.mark.parametrize("strategy", ["linear", "free"])
def test_an_interrupt_ends_tasks_gives_locks_back_and_is_no_failure(lab: Lab, strategy: str) -> None:
    class Interrupting:
        """A sink that presses Ctrl-C as soon as the task says that it is busy."""

        def handle(self, event: Event) -> None:
            if isinstance(event, TaskProgress) and not pressed:
                pressed.append(event)
                signal.raise_signal(signal.SIGINT)

    pressed: list[TaskProgress] = []
    lab.actions = {**GENERIC_ACTIONS, **registry([Waiting()])}
    lab.more_sinks.append(Interrupting())
    ran = lab.play(
        f"""\
        - hosts: all
          strategy: {strategy}
          tasks:
            - block: [{{waiting: }}, {{debug: }}]
              rescue: [{{debug: }}]
              always: [{{debug: }}]
        """
    )
    assert ran.result.interrupted
    assert ran.result.exit_status() == 130
    assert ran.locks == ["acquire", "release"]
    assert ran.result.errors == {}
    assert ran.statuses() == ["failed"]
    assert (pressed[0].message, pressed[0].percent) == ("still here", 50.0)
    assert isinstance(ran.sink.events[-1], RunFinished)


@pytest.mark.parametrize("strategy", ["linear", "free"])
def test_a_fault_leaves_hosts_that_wait_alone_and_gives_locks_back(lab: Lab, strategy: str) -> None:
    class Broken:
        """A sink whose disk is full once a task is done."""

        def handle(self, event: Event) -> None:
            if isinstance(event, TaskFinished):
                raise OSError("no space left")

    lab.inventory = THREE
    for name in ("h1", "h2", "h3"):
        lab.host(name).on("work")
    lab.more_sinks.append(Broken())
    text = f"- hosts: all\n  strategy: {strategy}\n  tasks: [{{command: work}}, {{command: work}}]\n"
    with pytest.raises(OSError, match="no space left"):
        lab.play(text, forks=1)
    assert [lab.host(name).commands for name in ("h1", "h2", "h3")] == [["work"], [], []]
    assert lab.lock.log == ["acquire", "release"]


@pytest.mark.parametrize("strategy", ["linear", "free"])
@pytest.mark.parametrize("error", [OSError("no terminal"), KeyboardInterrupt()], ids=["fault", "interrupt"])
def test_nothing_is_changed_before_the_run_could_be_told_of(
    lab: Lab, strategy: str, error: BaseException
) -> None:
    class Slow:
        """A sink that takes long to begin, and then can't."""

        def handle(self, event: Event) -> None:
            if isinstance(event, RunStarted):
                assert asked.wait(30), "the host is asked meanwhile"
                raise error

    def notice(_: Call) -> bool:
        asked.set()
        return False

    asked = threading.Event()
    Files(lab.host(), **{"/f": "old"})
    lab.host().on(notice)
    lab.more_sinks.append(Slow())
    text = f"- hosts: all\n  strategy: {strategy}\n  tasks: [{{copy: {{content: new, dest: /f}}}}]\n"
    if isinstance(error, OSError):
        with pytest.raises(OSError, match="no terminal"):
            lab.play(text)
    else:
        assert lab.play(text).result.interrupted
    assert lab.lock.log == []


def test_who_is_impatient_leaves_nothing_behind(lab: Lab) -> None:
    class Interrupting:
        """A sink that presses Ctrl-C again and again."""

        def handle(self, event: Event) -> None:
            if isinstance(event, TaskProgress) and len(pressed) < 3:
                pressed.append(event)
                signal.raise_signal(signal.SIGINT)

    class Stuck(Waiting):
        """Does not hear at once that it is to end."""

        def plan(self, params: Params, view: View, seen: Seen) -> Plan:
            """One step."""
            return Plan((_Stuck(),))

    class _Stuck(_Waiting):
        def carry_out(self, ctx: Context) -> None:
            try:
                super().carry_out(ctx)
            finally:
                again()

    def again() -> None:
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
            threading.Event().wait(0.05)

    pressed: list[TaskProgress] = []
    lab.actions = {**GENERIC_ACTIONS, **registry([Stuck()])}
    lab.more_sinks.append(Interrupting())
    ran = lab.tasks("- waiting:")
    assert ran.result.interrupted
    assert ran.locks == ["acquire", "release"]
    assert isinstance(ran.sink.events[-1], RunFinished)


@pytest.mark.parametrize("strategy", ["linear", "free"])
def test_events_come_in_their_order_though_hosts_are_asked_before_the_first(lab: Lab, strategy: str) -> None:
    ran = lab.play(f"- hosts: all\n  strategy: {strategy}\n  tasks: [{{debug: {{msg: a}}}}]\n")
    order = [RunStarted, PlayStarted, TaskStarted, TaskFinished, RunFinished]
    assert [type(event) for event in ran.sink.events] == order


def test_a_run_without_a_task_is_told_of_too(lab: Lab) -> None:
    ran = lab.play("- hosts: all\n")
    assert [type(event) for event in ran.sink.events] == [RunStarted, PlayStarted, RunFinished]


def test_whatever_goes_wrong_in_the_end_is_a_warning(lab: Lab) -> None:
    lab.host().on("one")
    lab.lock.stuck = ValueError("odd")  # type: ignore[assignment]  # a fault, which no annotation allows
    ran = lab.tasks("- command: one")
    assert ran.result.ok
    assert [event.message for event in ran.sink.events if isinstance(event, Warned)] == [
        "the lock could not be given back: ValueError: odd; it expires by itself"
    ]


def test_titles_show_templates_rather_than_what_python_makes_of_them(lab: Lab) -> None:
    ran = lab.tasks(
        "- debug: {msg: '{{ range(0, 3) }}'}\n"
        "- debug: {msg: '{{ [1] | map(\"int\") }}'}\n"
        "- name: 'a {{ 1 + 1 }}'\n  debug:"
    )
    first, second, third = (task.name for task in ran.result.plays[0].tasks)
    assert "{{ range(0, 3) }}" in first
    assert "{{ [1] | map" in second
    assert third == "a 2"
