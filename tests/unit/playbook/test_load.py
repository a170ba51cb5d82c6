"""Mistakes in playbooks: all at once, each with its place and what would have been right."""

from __future__ import annotations

import pytest

from klops.errors import SourceErrors
from tests.unit.playbook.support import Lab


def mistakes(lab: Lab, text: str) -> list[str]:
    with pytest.raises(SourceErrors) as caught:
        lab.load(text)
    return [
        f"{m.location.line}:{m.location.column} {m.message}" + (f" ({m.hint})" if m.hint else "")
        for m in caught.value.mistakes
    ]


def task_mistake(lab: Lab, task: str) -> str:
    found = mistakes(lab, f"- hosts: all\n  tasks:\n    - {task}\n")
    assert len(found) == 1, found
    return found[0]


def test_all_mistakes_of_a_file_come_at_once(lab: Lab) -> None:
    found = mistakes(
        lab,
        """\
        - hosts: all
          tsaks: []
          gather_facts: true
          tasks:
            - name: one
              copy: {src: a, dst: /a}
            - commnad: uptime
            - debug: {msg: "{{ a | nofilter }}"}
              when: "{{ x }}"
        """,
    )
    places = [line.split(" ", 1)[0] for line in found]
    assert places == ["2:3", "3:17", "6:19", "6:22", "7:7", "8:20", "9:13"]
    assert "did you mean tasks?" in found[0]
    assert "facts on demand come later" in found[1]
    assert "no file 'a' on this machine; looked for " in found[2]
    assert "copy has no parameter 'dst' (did you mean dest?)" in found[3]
    assert "no module 'commnad' (did you mean command?)" in found[4]
    assert "nofilter" in found[5]
    assert "leave the braces out" in found[6]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an empty playbook"),
        ("hosts: all\n", "a playbook is a list of plays"),
        ("- tasks: []\n", "a play needs hosts"),
        ("- host: all\n", "'host' is no keyword of a play (did you mean hosts?)"),
        ("- hosts: ''\n", "an empty pattern never means all"),
        ("- hosts: all\n  serial: 2\n", "serial on a play is not supported yet"),
        ("- hosts: all\n  any_errors_fatal: true\n", "any_errors_fatal on a play is not supported yet"),
        ("- hosts: all\n  roles: [a]\n", "list the tasks in the play"),
        ("- hosts: all\n  tasks: {a: 1}\n", "tasks is a list of tasks"),
        ("- hosts: all\n  vars: {a-b: 1}\n", "'a-b' is no name for a variable"),
        ("- hosts: all\n  become: maybe\n", "become is true or false"),
    ],
)
def test_plays(lab: Lab, text: str, message: str) -> None:
    assert any(message in found for found in mistakes(lab, text))


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("{name: nothing}", "3:7 a task needs a module"),
        ("{debug: , fail: }", "a second module in one task: fail after debug (make it two tasks)"),
        ("{debug: , become: true}", "become on a task is not supported yet (set become on the play)"),
        ("{debug: , with_items: [1]}", "with_items on a task is not supported yet (write it as loop)"),
        ("{debug: , changed_when: false}", "changed_when on a task is not supported yet"),
        ("{debug: , wen: true}", "'wen' is neither a keyword nor a module (did you mean when?)"),
        ("{debug: , check_mode: false}", "no task can override check mode"),
        ("{debug: , notify: restart}", "notifies 'restart', and this play has no such handler"),
        ("{debug: , loop: text}", "loop is a list, or a template that gives one"),
        ("{debug: , when: 'a b'}", "3:23 when: "),
        ("{debug: , when: ''}", "3:23 when is empty (write an expression, or leave it out)"),
        ("{debug: , when: [true, ' ']}", "3:30 when is empty"),
        ("{debug: , when: no}", "3:23 when: no is no expression (write false)"),
        ("{debug: , when: On}", "3:23 when: On is no expression (write true)"),
        ("{debug: , when: 1}", "3:23 when: 1 is int, not true or false (compare something, or write"),
        ("{debug: , when: '[]'}", "3:23 when: [] is list, not true or false"),
        ("{debug: , when: none}", "3:23 when: none is NoneType, not true or false"),
        ("{assert: {that: [\"'text'\"]}}", "that: 'text' is str, not true or false"),
        ("{assert: {that: yes}}", "that: yes is no expression (write true)"),
        ("{debug: , register: a b}", "'a b' is no name for a variable"),
        ("{copy: src=a dest=/b}", "copy takes its parameters as a mapping"),
        ("{copy: {content: a, dst: /b}}", "copy has no parameter 'dst' (did you mean dest?)"),
        ("{copy: {content: a}}", "copy needs the parameter 'dest'"),
        ("{copy: {src: nofile, dest: /b}}", "3:20 no file 'nofile' on this machine; looked for "),
        ("{template: {src: play.yaml, dest: /b}}", "(did you mean play.yml?)"),
        ("{command: [a, b]}", "takes a mapping of parameters, not a list"),
        ("{command: a, args: {chidr: /}}", "command has no parameter 'chidr' (did you mean chdir?)"),
        ("{command: a, args: {cmd: b}}", "'cmd' is given twice"),
        ("{command: {chdir: /}}", "give one of cmd and argv"),
        ("{wait_for: {port: none}}", "3:25 port: input should be a valid integer"),
        ("{wait_for: {port: 70000}}", "port: input should be less than or equal to 65535"),
        ("{file: {path: a}}", "path: 'a' is not an absolute path"),
        ("{file: {path: /a, state: dir}}", "3:32 state: input should be 'absent', 'directory'"),
        ("{file: {path: /a, state: link}}", "src and state: link go together"),
        ("{uri: {url: 'https://h/'}}", "https is not supported yet"),
        ("{uri: {url: 'http://h/', headers: {A: [1]}}}", "3:45 headers: input should be a valid string"),
        ("{assert: {that: ['a ==']}}", "that: "),
        ("{assert: {}}", "assert needs the parameter 'that'"),
        ("{set_fact: {a-b: 1}}", "'a-b' is no name for a variable"),
        ("{debug: {'{{ k }}': 1}}", "debug has no parameter"),
        ("{set_fact: {a: {'{{ k }}': 1}}}", "templates in keys are not supported"),
    ],
)
def test_tasks(lab: Lab, task: str, message: str) -> None:
    assert message in task_mistake(lab, task)


@pytest.mark.parametrize("mode", ["0644", "644", '"0644"', '"644"', "0o644"])
def test_every_way_of_writing_a_mode_is_that_mode(lab: Lab, mode: str) -> None:
    task = lab.load(f"- hosts: all\n  tasks: [{{file: {{path: /a, mode: {mode}}}}}]\n").plays[0].tasks[0]
    assert task.action.params.model_validate(task.params).mode == 0o644


@pytest.mark.parametrize("mode", ["u=rw,go=r", "1e3", "0888", "64"])
def test_a_mode_that_could_mean_two_things_is_refused(lab: Lab, mode: str) -> None:
    assert "is not a file mode" in task_mistake(lab, f"{{file: {{path: /a, mode: '{mode}'}}}}")


def test_text_parameters_are_taken_as_written(lab: Lab) -> None:
    task = (
        lab.load("- hosts: all\n  tasks: [{command: {argv: [sleep, 1.10, no, 0644], stdin: 22:22}}]\n")
        .plays[0]
        .tasks[0]
    )
    assert task.params == {"argv": ["sleep", "1.10", "no", "0644"], "stdin": "22:22"}


def test_names_of_ansible_builtin_and_free_form(lab: Lab) -> None:
    play = lab.load(
        """\
        - hosts: [a, b]
          tags: x
          tasks:
            - ansible.builtin.command: uptime
              args: {chdir: /tmp}
              tags: [y, z]
        """
    ).plays[0]
    task = play.tasks[0]
    assert (task.name, task.action.name) == ("command uptime chdir=/tmp", "command")
    assert task.params == {"cmd": "uptime", "chdir": "/tmp"}
    assert task.tags == ("x", "y", "z")
    assert (play.name, play.hosts) == ("a, b", ("a", "b"))


def test_a_file_that_an_earlier_task_may_make_is_looked_for_when_its_task_runs(lab: Lab) -> None:
    tasks = "[{copy: {src: /made/later, dest: /a}}, {copy: {src: '{{ x }}', dest: /a}}]"
    assert len(lab.load(f"- hosts: all\n  tasks: {tasks}\n").plays[0].tasks) == 2


def test_names_of_tasks_without_one_are_short_and_hide_what_is_hidden(lab: Lab) -> None:
    long = "x" * 100
    play = lab.load(
        f"""\
        - hosts: all
          tasks:
            - debug:
            - debug: {{msg: "{{{{ a }}}}\\n b"}}
            - command: /bin/echo {long}
            - {{command: echo made-up-key, no_log: true}}
        """
    ).plays[0]
    names = [task.name for task in play.tasks]
    assert names[:2] == ["debug", "debug msg={{ a }} b"]
    assert names[2:] == [f"command /bin/echo {'x' * 49}…", "command"]


def test_a_handler_that_notifies_an_earlier_one_is_refused(lab: Lab) -> None:
    text = """\
    - hosts: all
      handlers:
        - {name: a, debug: }
        - {name: b, debug: , notify: a}
        - {name: a, debug: }
    """
    found = mistakes(lab, text)
    assert "the handler 'b' notifies 'a', which runs before it" in found[0]
    assert "a second handler is called 'a'" in found[1]
