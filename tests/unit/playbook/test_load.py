"""Mistakes in playbooks: all at once, each with its place and what would have been right."""

from __future__ import annotations

import pytest

from klops.errors import SourceErrors, UsageError
from klops.playbook.load.foreign import INSTEAD
from tests.unit.playbook.support import GENERIC_ACTIONS, Files, Lab


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
          serial: none
          tasks:
            - name: one
              copy: {src: a, dst: /a}
            - commnad: uptime
            - debug: {msg: "{{ a | nofilter }}"}
              when: "{{ x }}"
        """,
    )
    places = [line.split(" ", 1)[0] for line in found]
    assert places == ["2:3", "4:11", "7:19", "7:22", "8:7", "9:20", "10:13"]
    assert "did you mean tasks?" in found[0]
    assert "serial is a number of hosts" in found[1]
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
        ("- hosts: all\n  roles: [a]\n", "roles/NAME/handlers/main.yml in handlers"),
        (
            "- hosts: all\n  when: x\n",
            "when on a play is not supported (write it on a block around the tasks)",
        ),
        ("- hosts: all\n  loop: []\n", "loop on a play is not supported (it may stand on: task, handler"),
        ("- hosts: all\n  vars_prompt: []\n", "give the value with -e NAME=VALUE"),
        ("- hosts: all\n  connection: local\n", "ansible_connection"),
        ("- hosts: '{{ x'\n", "1:10 Jinja2"),
        ("- hosts: all\n  serial: half\n", "0 is all at once"),
        ("- hosts: all\n  serial: [1, '{{ n']\n", "2:15 Jinja2"),
        ("- hosts: all\n  max_fail_percentage: 101\n", "a number from 0 to 100"),
        ("- hosts: all\n  strategy: host_pinned\n", "instead: free, with throttle or --forks"),
        ("- hosts: all\n  strategy: fre\n", "did you mean free?"),
        ("- hosts: all\n  order: random\n", "one of: inventory, reverse_inventory"),
        ("- hosts: all\n  become_method: su\n", "become_method is sudo"),
        ("- hosts: all\n  no_log: '{{ x }}'\n", "a template is not supported here"),
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
        ("{debug: , become: maybe}", "become is true or false"),
        (
            "{debug: , connection: local}",
            "connection on a task is not supported (a connection is described in",
        ),
        ("{debug: , changed_when: '{{ x }}'}", "changed_when takes no {{ }}"),
        ("{debug: , until: [a, 1]}", "3:28 until: 1 is int, not true or false"),
        ("{debug: , failed_when: 'a b'}", "failed_when: "),
        ("{debug: , retries: -1}", "retries is a whole number, 0 or more"),
        ("{debug: , until: a, delay: soon}", "delay is a number, 0 or more"),
        ("{debug: , delay: 1}", "delay without until or retries"),
        ("{debug: , throttle: '{{ n }}'}", "throttle is a whole number"),
        (
            "{debug: , loop: [1], loop_control: {lable: a}}",
            "loop_control has no 'lable' (did you mean label?)",
        ),
        (
            "{debug: , loop: [1], loop_control: {extended_allitems: no}}",
            "extended gives ansible_loop.allitems",
        ),
        ("{debug: , loop: [1], loop_control: {loop_var: a-b}}", "'a-b' is no name for a variable"),
        ("{debug: , loop_control: {label: a}}", "loop_control without a loop"),
        ("{debug: , environment: [A=b]}", "environment is a mapping of names to texts"),
        ("{debug: , environment: {A: [1]}}", "environment: A is a text"),
        ("{debug: , environment: {A=b: c}}", "'A=b' is no name for a variable of the environment"),
        ("{debug: , listen: a}", "listen on a task is not supported (only handlers listen)"),
        ("{debug: , tags: '{{ t }}'}", "tags take no templates"),
        ("{debug: , name: '{{ t'}", "Jinja2: "),
        ("{debug: , delegate_to: '{{ t'}", "Jinja2: "),
        ("{rescue: [{debug: }]}", "a block needs tasks"),
        ("{block: [{debug: }], loop: [1]}", "loop on a block is not supported (put the tasks into a file"),
        ("{block: [{debug: }], debug: }", "debug beside a block (make it a task of the block)"),
        ("{block: {debug: }}", "block is a list of tasks"),
        ("{debug: , wen: true}", "'wen' is neither a keyword nor a module (did you mean when?)"),
        ("{debug: , check_mode: false}", "no task can override check mode"),
        ("{debug: , notify: restart}", "notifies 'restart', and this play has no such handler"),
        ("{debug: , loop: text}", "loop is a list, or a template that gives one"),
        ("{debug: , when: 'a b'}", "3:23 when: "),
        ("{debug: , when: ''}", "3:23 when is empty (write an expression, or leave it out)"),
        ("{debug: , when: }", "3:17 when is empty (give it a value, or leave it out)"),
        ("{debug: , become: }", "become is empty (give it a value, or leave it out)"),
        ("{debug: , notify: }", "notify is empty (give it a value, or leave it out)"),
        ("{debug: , when: [true, ' ']}", "3:30 when is empty"),
        ("{debug: , when: 1}", "3:23 when: 1 is int, not true or false (compare something, or write"),
        ("{debug: , when: '[]'}", "3:23 when: [] is list, not true or false"),
        ("{debug: , when: none}", "3:23 when: none is NoneType, not true or false"),
        ("{assert: {that: [\"'text'\"]}}", "that: 'text' is str, not true or false"),
        ("{debug: , register: a b}", "'a b' is no name for a variable"),
        (
            "{copy: src=a dest='/b c'}",
            "takes its parameters as a mapping (write it as copy: {src: a, dest: /b c})",
        ),
        ("{copy: a}", "copy takes its parameters as a mapping (one line each, such as 'dest: /etc/motd')"),
        ("{ansible.builtin.fail: 'msg={{ x }}'}", 'write it as ansible.builtin.fail: {msg: "{{ x }}"}'),
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


@pytest.mark.parametrize("mode", ["1e3", "0888", "0o8"])
def test_a_mode_that_could_mean_two_things_is_refused(lab: Lab, mode: str) -> None:
    assert "is not a file mode" in task_mistake(lab, f"{{file: {{path: /a, mode: '{mode}'}}}}")


def test_text_parameters_are_taken_as_written(lab: Lab) -> None:
    text = "- hosts: all\n  tasks: [{command: {argv: [sleep, 1.10, no, 0644], stdin: 22:22}}]\n"
    (task,) = lab.load(text).plays[0].all_tasks
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
    (task,) = play.all_tasks
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


def test_two_handlers_of_one_name_are_refused(lab: Lab) -> None:
    text = """\
    - hosts: all
      handlers:
        - {name: a, debug: }
        - {name: a, debug: }
    """
    (found,) = mistakes(lab, text)
    assert "a second handler is called 'a'" in found


@pytest.mark.parametrize(
    ("module", "instead"),
    [
        ("service", "systemd: {name: NAME, state: started}"),
        ("ansible.builtin.git", "a command with git"),
        ("community.docker.docker_container", "klops.container"),
        ("ping", "command: true"),
        ("replace", "lineinfile, blockinfile"),
        ("apt", "apt-get install -y NAME"),
        ("dnf", "dnf install -y NAME"),
        ("yum", "yum install -y NAME"),
        ("include_vars", "vars_files on the play"),
        ("ansible.posix.synchronize", "rsync"),
    ],
)
def test_modules_that_only_ansible_has_come_with_an_alternative(lab: Lab, module: str, instead: str) -> None:
    found = task_mistake(lab, f"{{{module}: {{name: x}}}}")
    assert found.startswith(f"3:8 there is no module {module!r} in klops (instead: ")
    assert instead in found


def test_no_module_is_both_there_and_named_as_lacking() -> None:
    assert not set(INSTEAD) & set(GENERIC_ACTIONS)


@pytest.mark.parametrize(
    ("keyword", "instead"),
    [
        ("with_items: [1]", "flatten(1)"),
        ("with_dict: {}", "dict2items"),
        ("with_fileglob: a", "query('fileglob'"),
        ("with_sequence: a", "range("),
        ("with_together: []", "zip("),
        ("with_nested: []", "product("),
        ("with_subelements: []", "subelements("),
        ("with_first_found: []", "query('first_found'"),
        ("with_something: []", "a list, or a template that gives one"),
        ("async: 1", "leave it out"),
        ("poll: 1", "leave it out"),
        ("action: x", "the module's name as the key"),
        ("local_action: x", "delegate_to: localhost"),
        ("remote_user: x", "ansible_user"),
        ("port: 1", "ansible_port"),
        ("module_defaults: {}", "YAML anchor"),
        ("collections: []", "are the same"),
        ("debugger: never", "-v"),
        ("timeout: 1", "timeout(1)"),
        ("become_flags: x", "become_user"),
        ("become_exe: x", "become_user"),
        ("include: x", "include_tasks"),
        ("include_role: {}", "import_tasks"),
        ("import_role: {}", "import_tasks"),
    ],
)
def test_keywords_that_only_ansible_has_come_with_an_alternative(
    lab: Lab, keyword: str, instead: str
) -> None:
    word = keyword.partition(":")[0]
    found = task_mistake(lab, f"{{debug: , {keyword}}}")
    assert f"{word} on a task is not supported" in found
    assert instead in found


@pytest.mark.parametrize(
    "word", ["creates=/x", "removes=/x", "chdir=/srv", 'stdin="a b"', "executable=/bin/bash"]
)
def test_options_within_the_text_of_a_command_are_refused(lab: Lab, word: str) -> None:
    # ansible-core 2.19 takes such a word out of the command and makes it an option
    key, _, value = word.partition("=")
    found = task_mistake(lab, f"{{command: 'make {word} install'}}")
    assert f"write it under args: {{{key}: {value.strip(chr(34))}}}" in found


def test_other_words_with_an_equals_sign_belong_to_the_command(lab: Lab) -> None:
    text = """FOO=bar dd if=/a "chdir=/x" '{{ "creates=" }}'"""
    (task,) = lab.load(f"- hosts: all\n  tasks:\n    - command: |-\n        {text}\n").plays[0].all_tasks
    assert task.params == {"cmd": text}


@pytest.mark.parametrize("word", ["yes", "Yes", "on", "true", "True"])
def test_a_plain_boolean_is_that_boolean_in_a_condition(lab: Lab, word: str) -> None:
    text = f"{{assert: {{that: [{word}]}}, when: {word}, changed_when: [{word}], failed_when: {word}}}"
    (task,) = lab.load(f"- hosts: all\n  tasks: [{text}]\n").plays[0].all_tasks
    assert (task.when, task.changed_when, task.failed_when) == (("true",), ("true",), ("true",))
    assert task.params == {"that": ["true"]}


def test_no_conditions_are_no_condition(lab: Lab) -> None:
    # ansible-core 2.19 runs a task with `when: []`, and the module says whether it failed
    text = "- hosts: all\n  tasks: [{debug: , when: [], failed_when: [], until: []}]\n"
    (task,) = lab.load(text).plays[0].all_tasks
    assert (task.when, task.failed_when, task.retry) == ((), None, None)


@pytest.mark.parametrize(
    ("text", "value"), [("yes", True), ("'no'", False), ('"True"', True), ("off", False)]
)
def test_booleans_may_be_written_as_ansible_takes_them(lab: Lab, text: str, value: bool) -> None:
    play = lab.load(f"- hosts: all\n  become: {text}\n  gather_facts: {text}\n").plays[0]
    assert play.become is value


@pytest.mark.parametrize(
    ("task", "fix"),
    [
        ("{debug: , when: a = b}", "when: unexpected '=' (two values are compared by ==)"),
        ("{debug: , when: a && b}", "(write and)"),
        ("{file: {path: /a, state: directry}}", "(did you mean directory?)"),
        ("{debug: , become: maybe}", "(write true or false)"),
        ("{debug: , loop: 3}", '(write [A, B], or "{{ range(3) | list }}" for so many times)'),
        (
            '{debug: {msg: "{{ x | to_jsn }}"}}',
            "Jinja2: no filter is called 'to_jsn' (did you mean to_json?)",
        ),
        ("{debug: , notify: [nobody]}", "3:26 notifies 'nobody', and this play has no such handler"),
        ("{debug: {msg: {{ a }}}}", '(quote it: "{{ a }}")'),
    ],
)
def test_a_mistake_comes_with_what_would_be_right(lab: Lab, task: str, fix: str) -> None:
    assert fix in task_mistake(lab, task)


def test_a_key_that_is_given_twice_hides_no_other_mistake(lab: Lab) -> None:
    found = mistakes(lab, "- hosts: all\n  hosts: b\n  tasks:\n    - {debug: {mgs: !vault a}, notify: x}\n")
    assert [line.partition(" ")[0] for line in found] == ["2:3", "4:16", "4:21", "4:40"]


def test_a_lookup_that_is_refused_is_not_repeated_in_what_to_write(lab: Lab) -> None:
    found = mistakes(lab, "- hosts: all\n  tasks:\n    - file: path={{ lookup('pipe', 'x') }} state=absent\n")
    assert "the lookup pipe isn't there" in found[1] + found[0]
    assert not any("write it as" in line for line in found)


def test_template_files_are_looked_into_when_the_playbook_is_loaded(lab: Lab) -> None:
    (lab.folder / "templates").mkdir()
    for name, text in {
        "open.j2": "a\n{% if x %}\nb\n",
        "filter.j2": "#jinja2: trim_blocks: False\na\n{{ x | to_jsn }}\n",
        "dialect.j2": "<% if x %>{% if<% endif %>\n",
        "right.j2": "{{ nobody.knows }}\n",
    }.items():
        (lab.folder / "templates" / name).write_text(text)
    tasks = "".join(f"    - template: {{src: {n}.j2, dest: /a}}\n" for n in ("open", "filter", "right"))
    dialect = "    - template: {src: dialect.j2, dest: /a, block_start_string: <%, block_end_string: '%>'}\n"
    with pytest.raises(SourceErrors) as caught:
        lab.load(f"- hosts: all\n  tasks:\n{tasks}{dialect}")
    wrong, unclosed = caught.value.mistakes
    assert (wrong.location.file, wrong.location.line) == (str(lab.folder / "templates" / "filter.j2"), 3)
    assert wrong.hint == "did you mean to_json?"
    assert unclosed.location.file.endswith("open.j2")
    assert "endif" in unclosed.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\n\n{{ nope }}\n", "'nope' is undefined, in {}:3"),
        (
            "#jinja2: trim_blocks: False\n{% if 1 %}\n{{ 1 / 0 }}{% endif %}\n",
            "template {}:3: ZeroDivisionError",
        ),
    ],
)
def test_an_error_in_a_template_file_names_the_file_and_its_line(lab: Lab, text: str, said: str) -> None:
    (lab.folder / "templates").mkdir()
    file = lab.folder / "templates" / "t.j2"
    file.write_text(text)
    Files(lab.host())
    ran = lab.play("- hosts: all\n  tasks:\n    - template: {src: t.j2, dest: /a}\n")
    (error,) = ran.result.errors.values()
    assert said.format(file) in str(error)


def test_a_pattern_that_names_nobody_is_told_with_its_play(lab: Lab) -> None:
    with pytest.raises(UsageError, match=r"play\.yml:2:3: no host or group is called a1; .*called b1"):
        lab.play("- {hosts: all, tasks: []}\n- hosts: a1,b1\n  tasks: []\n")


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ("{meta: nonsense}", "3:14 meta: 'nonsense' is no order"),
        ("{unarchive: {src: 'http://x/y.tgz', dest: /d}}", "3:8 unarchive: klops downloads nothing here"),
        ("debug:\n      notify:\n      tags: x", "4:7 notify is empty"),
    ],
)
def test_a_mistake_says_what_was_written_where_and_once(lab: Lab, task: str, told: str) -> None:
    assert task_mistake(lab, task).startswith(told)
