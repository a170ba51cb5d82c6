"""Files that a playbook names: imported, included, of variables. Where it agrees, as ansible-core 2.19."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from klops.errors import SourceErrors, TaskFailed
from klops.playbook.load.lists import load_tasks
from klops.playbook.load.varsfiles import find_vars_file, read_vars_file
from klops.playbook.localfiles import is_missing, read_local
from klops.playbook.model import Block, Play, Task, tasks_of
from klops.yamlsource import to_python
from tests.unit.playbook.support import GENERIC_ACTIONS, Lab


def write(lab: Lab, **files: str) -> None:
    """Files by name, ``sub__f`` is ``sub/f.yml``."""
    for name, text in files.items():
        file = lab.folder / f"{name.replace('__', '/')}.yml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(textwrap.dedent(text))


def play(lab: Lab, tasks: str) -> Play:
    text = textwrap.indent(textwrap.dedent(tasks), "    ")
    return lab.load(f"- hosts: all\n  tags: play\n  environment: {{A: play}}\n  tasks:\n{text}").plays[0]


def mistakes(lab: Lab, text: str) -> list[str]:
    with pytest.raises(SourceErrors) as caught:
        lab.load(text)
    folder = f"{lab.folder}/"
    return [str(mistake).replace(folder, "") for mistake in caught.value.mistakes]


# -- import_tasks --------------------------------------------------------------------------------------------


def test_imported_tasks_get_what_the_import_has(lab: Lab) -> None:
    write(
        lab,
        sub__one="""\
            - {debug: , name: a, when: own, tags: own, vars: {v: own}}
            - import_tasks: two.yml
              environment: {B: two}
            - block: [{debug: , name: c}]
            """,
        sub__two="- {debug: , name: b}\n",
    )
    found = play(
        lab,
        """\
        - ansible.builtin.import_tasks: sub/one.yml
          when: [imported]
          tags: [imported]
          vars: {v: imported, w: imported}
          become: true
        """,
    )
    a, b, c = found.all_tasks
    assert [task.name for task in found.all_tasks] == ["a", "b", "c"]
    assert (a.when, a.tags, a.vars) == (
        ("imported", "own"),
        ("play", "imported", "own"),
        {"v": "own", "w": "imported"},
    )
    assert b.environment == ({"A": "play"}, {"B": "two"})
    assert all((task.become, task.when[:1]) == (True, ("imported",)) for task in (a, b, c))
    assert (a.file, b.file) == (lab.folder / "sub/one.yml", lab.folder / "sub/two.yml")
    assert isinstance(found.tasks[2], Block)


def test_an_import_is_looked_for_beside_the_file_and_then_beside_the_playbook(lab: Lab) -> None:
    write(
        lab,
        sub__one="[{import_tasks: {file: both.yml}}, {import_tasks: only.yml}]\n",
        sub__both="[{debug: , name: beside}]\n",
        both="[{debug: , name: above}]\n",
        only="[{debug: , name: only}]\n",
    )
    assert [task.name for task in play(lab, "- import_tasks: sub/one.yml\n").all_tasks] == ["beside", "only"]


def test_imported_handlers_are_a_flat_list_and_a_notify_finds_them(lab: Lab) -> None:
    write(
        lab, handlers="[{name: h, debug: , listen: t}, {import_tasks: more.yml}]", more="[{name: i, debug: }]"
    )
    found = lab.load(
        """\
        - hosts: all
          tasks: [{debug: , notify: [t, i]}]
          handlers: [{import_tasks: handlers.yml, tags: x}]
        """
    ).plays[0]
    assert [(handler.name, handler.tags) for handler in found.handlers] == [("h", ("x",)), ("i", ("x",))]


def test_mistakes_in_imported_files_are_told_with_their_places_all_at_once(lab: Lab) -> None:
    write(
        lab,
        one="- commnad: ls\n- import_tasks: two.yml\n",
        two="a: [\n",
        three="- hosts: all\n",
        four="a: 1\n",
    )
    found = mistakes(
        lab,
        """\
        - hosts: all
          tasks:
            - import_tasks: one.yml
            - import_tasks: thre.yml
            - import_tasks: three.yml
            - import_tasks: four.yml
            - import_tasks: "{{ x }}.yml"
            - import_tasks:
            - {import_tasks: one.yml, loop: [1], register: x}
        """,
    )
    assert [line.split(" ", 1)[0] for line in found] == [
        *("four.yml:1:1:", "one.yml:1:3:", "play.yml:4:21:", "play.yml:7:21:", "play.yml:8:7:"),
        *("play.yml:9:31:", "play.yml:9:42:", "three.yml:1:3:", "two.yml:2:1:"),
    ]
    assert "four.yml is a list of tasks" in found[0]
    assert "(did you mean three.yml?)" in found[2]
    assert "include_tasks takes templates" in found[3]
    assert "needs the name of a file" in found[4]
    assert "import_playbook takes plays" in found[7]


def test_imports_in_a_circle_are_told(lab: Lab) -> None:
    write(lab, one="- import_tasks: two.yml\n", two="- import_tasks: one.yml\n")
    found = mistakes(lab, "- {hosts: all, tasks: [{import_tasks: one.yml}]}\n")
    assert len(found) == 1
    assert (
        "two.yml:1:17: files that import one another in a circle: one.yml -> two.yml -> one.yml" in found[0]
    )


# -- include_tasks -------------------------------------------------------------------------------------------


def include(lab: Lab, text: str) -> Task:
    (task,) = (task for task in play(lab, text).all_tasks if task.action.name == "include_tasks")
    return task


def test_included_tasks_get_what_is_around_the_include_and_not_its_own_when_and_tags(lab: Lab) -> None:
    write(lab, sub__f="- {debug: , when: own, vars: {v: own}}\n- block: [{debug: , tags: x}]\n")
    task = include(
        lab,
        """\
        - when: block
          tags: block
          vars: {v: block}
          no_log: true
          block:
            - include_tasks:
                file: "{{ where }}/f.yml"
                apply: {tags: apply, become: true, when: apply, environment: {B: apply}, vars: {v: apply}}
              when: include
              tags: include
              vars: {v: include}
              ignore_errors: true
        """,
    )
    assert (task.when, task.tags) == (("block", "include"), ("play", "block", "include"))
    assert task.params == {"file": "{{ where }}/f.yml"}
    first, second = tasks_of(load_tasks(Path("sub/f.yml"), GENERIC_ACTIONS, task))
    assert first.when == ("block", "apply", "own")
    assert (first.tags, second.tags) == (("play", "block", "apply"), ("play", "block", "apply", "x"))
    assert (first.become, first.no_log, first.ignore_errors) == (True, True, False)
    assert first.environment == ({"A": "play"}, {"B": "apply"})
    # variables of the include are stronger than those of apply and of the included tasks themselves
    assert (first.include_vars, second.vars) == ({"v": "include"}, {"v": "apply"})
    assert first.file == lab.folder / "sub/f.yml"


def test_variables_of_nested_includes_add_up(lab: Lab) -> None:
    write(lab, one="- {include_tasks: two.yml, vars: {v: inner, x: inner}}\n", two="- debug:\n")
    outer = include(lab, "- {include_tasks: one.yml, vars: {v: outer, w: outer}}\n")
    (inner,) = tasks_of(load_tasks(Path("one.yml"), GENERIC_ACTIONS, outer))
    (task,) = tasks_of(load_tasks(Path("two.yml"), GENERIC_ACTIONS, inner))
    assert task.include_vars == {"v": "inner", "w": "outer", "x": "inner"}


def test_files_that_include_one_another_are_read_to_an_end(lab: Lab) -> None:
    names = "abcde"
    each = "".join(f"- {{include_tasks: {name}.yml, when: n > 0}}\n" for name in names)
    write(lab, **dict.fromkeys(names, each))
    found = play(lab, each)
    assert [len(task.handed_down.loaded) for task in found.all_tasks if task.handed_down] == [1] * 5


def test_a_file_is_read_once_for_each_include(lab: Lab) -> None:
    write(lab, f="- debug:\n")
    found = play(lab, "- {include_tasks: f.yml}\n- {include_tasks: '{{ x }}', vars: {a: 1}}\n")
    first, second = found.all_tasks
    once = load_tasks(Path("f.yml"), GENERIC_ACTIONS, first)
    (lab.folder / "f.yml").write_text("- fail:\n")
    # a loop's turn is the same task with other data
    assert load_tasks(lab.folder / "f.yml", GENERIC_ACTIONS, replace(first, data={"item": 1})) is once
    (other,) = tasks_of(load_tasks(Path("f.yml"), GENERIC_ACTIONS, second))
    assert other.action.name == "fail"


def test_an_include_is_looked_for_beside_its_file_and_then_beside_the_playbook(lab: Lab) -> None:
    write(
        lab,
        sub__one="- include_tasks: '{{ x }}'\n",
        sub__both="- {debug: , name: beside}\n",
        both="- {debug: , name: above}\n",
        only="- {debug: , name: only}\n",
    )
    task = include(lab, "- import_tasks: sub/one.yml\n")
    for name, expected in (("both.yml", "beside"), ("only.yml", "only")):
        (found,) = tasks_of(load_tasks(Path(name), GENERIC_ACTIONS, task))
        assert found.name == expected
    with pytest.raises(SourceErrors, match=r"no file 'bth.yml' in .*sub or .*did you mean both.yml\?"):
        load_tasks(Path("bth.yml"), GENERIC_ACTIONS, task)


def test_files_of_literal_names_are_read_when_the_playbook_is_loaded(lab: Lab) -> None:
    write(
        lab,
        one="- debug: {mgs: a}\n- {include_tasks: two.yml, when: x}\n- {debug: , notify: non}\n",
        # one that includes itself, with a condition, is no mistake
        two="- {include_tasks: two.yml, when: n > 0}\n- fail: {mgs: b}\n- include_tasks: none.yml\n",
    )
    found = mistakes(
        lab, "- {hosts: all, tasks: [{include_tasks: one.yml}, {include_tasks: {file: one.yml}}]}\n"
    )
    assert [line.split(": ", 1)[0] for line in found] == [
        *("one.yml:1:11", "one.yml:3:21", "two.yml:2:10", "two.yml:3:3")
    ]
    assert "notifies 'non'" in found[1]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("{include_tasks: f.yml, become: true}", "apply: {become: ...} beside file"),
        ("{include_tasks: f.yml, delegate_to: a}", "apply: {delegate_to: ...} beside file"),
        ("{include_tasks: f.yml, until: a}", "it may stand on: task, handler"),
        (
            "{include_tasks: {file: f.yml, apply: {becom: 1}}}",
            "'becom' is no keyword of an apply (did you mean become?)",
        ),
        ("{include_tasks: {file: f.yml, apply: [a]}}", "apply is a mapping of keywords"),
        ("{include_tasks: file=f.yml}", "write it as include_tasks: {file: f.yml}"),
        ("{include_tasks: {fil: f.yml}}", "did you mean file?"),
    ],
)
def test_includes_that_are_refused(lab: Lab, task: str, message: str) -> None:
    # ansible-core 2.19: 'become' is not a valid attribute for a TaskInclude
    write(lab, f="- debug:\n")
    assert any(message in found for found in mistakes(lab, f"- {{hosts: all, tasks: [{task}]}}\n"))


def test_an_include_as_a_handler_gives_handlers(lab: Lab) -> None:
    write(lab, h="- {debug: , name: h, listen: t}\n")
    found = lab.load(
        """\
        - hosts: all
          tasks: [{debug: , notify: [more, topic]}]
          handlers: [{name: more, include_tasks: h.yml, listen: topic}]
        """
    ).plays[0]
    (handler,) = tasks_of(load_tasks(Path("h.yml"), GENERIC_ACTIONS, found.handlers[0]))
    assert handler.listen == ("t",)
    write(lab, h="- block: [{debug: }]\n")
    with pytest.raises(SourceErrors, match="a block can't be a handler"):
        lab.load("- {hosts: all, handlers: [{name: more, include_tasks: h.yml}]}\n")


# -- import_playbook -----------------------------------------------------------------------------------------


def test_imported_playbooks(lab: Lab) -> None:
    write(
        lab,
        sub__a="""\
            - hosts: a
              tags: own
              vars: {v: play, w: play}
              tasks: [{debug: , when: own, notify: h}]
              handlers: [{name: h, debug: }]
            - import_playbook: b.yml
              vars: {v: inner, x: inner}
              when: inner
            """,
        sub__b="- {hosts: b, pre_tasks: [{debug: }]}\n",
    )
    book = lab.load(
        """\
        - hosts: first
        - import_playbook: sub/a.yml
          when: outer
          tags: [outer]
          vars: {v: outer}
        - hosts: last
        """
    )
    assert [play.hosts for play in book.plays] == [("first",), ("a",), ("b",), ("last",)]
    a, b = book.plays[1:3]
    values = [{name: to_python(node) for name, node in play.vars.items()} for play in (a, b)]
    # variables of the import win over those of the play
    assert values == [{"v": "outer", "w": "play"}, {"v": "outer", "x": "inner"}]
    assert a.all_tasks[0].when == ("outer", "own")
    assert b.all_tasks[0].when == ("outer", "inner")
    assert a.handlers[0].when == ()
    assert set(a.all_tasks[0].tags) == {"own", "outer"}
    assert (book.path.name, a.file, b.file) == (
        "play.yml",
        lab.folder / "sub/a.yml",
        lab.folder / "sub/b.yml",
    )


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{import_playbook: non.yml}", "no playbook 'non.yml'"),
        ("{import_playbook: ~no-such-user-here/x.yml}", "no playbook '~no-such-user-here/x.yml'"),
        ("{import_playbook: othr.yml}", "did you mean other.yml?"),
        ("{import_playbook: '{{ x }}'}", "takes no templates"),
        ("{import_playbook: play.yml}", "in a circle: play.yml -> play.yml"),
        ("{import_playbook: other.yml}", "other.yml:1:21: in a circle"),
        ("{import_playbook: bad.yml}", "bad.yml:1:1: a playbook is a list of plays"),
        ("{import_playbook: bad.yml, become: true}", "become on an import_playbook is not supported"),
        ("{import_playbook: bad.yml, hosts: all}", "hosts on an import_playbook is not supported"),
    ],
)
def test_imports_of_playbooks_that_are_refused(lab: Lab, entry: str, message: str) -> None:
    write(lab, other="- {import_playbook: play.yml}\n", bad="a: 1\n")
    place, _, text = message.rpartition(": ") if message.startswith("other") else ("", "", message)
    assert any(place in found and text in found for found in mistakes(lab, f"- {entry}\n"))


# -- variables and other local files -------------------------------------------------------------------------


def test_files_of_variables(lab: Lab) -> None:
    write(lab, vars__a="{x: 1}", b="{y: 2}", empty="")
    found = lab.load(
        "- {hosts: all, vars_files: [a.yml, [none.yml, b.yml], empty.yml, '{{ x }}.yml']}\n"
    ).plays[0]
    paths = [entry.paths for entry in found.vars_files]
    assert paths == [("a.yml",), ("none.yml", "b.yml"), ("empty.yml",), ("{{ x }}.yml",)]
    files = [find_vars_file(found.file, entry) for entry in paths]
    assert files == [lab.folder / "vars/a.yml", lab.folder / "b.yml", lab.folder / "empty.yml", None]
    assert [{k: to_python(v) for k, v in read_vars_file(f).items()} for f in files if f] == [
        {"x": 1},
        {"y": 2},
        {},
    ]


def test_files_of_variables_that_are_wrong_or_missing(lab: Lab) -> None:
    write(lab, vars__a="{a-b: 1, a: '{{ x'}", b="- x\n", abc="{}")
    found = mistakes(lab, "- {hosts: all, vars_files: [a.yml, b.yml, [abd.yml, abe.yml], '{{ x']}\n")
    assert [line.split(" ", 1)[0] for line in found] == [
        *("b.yml:1:1:", "play.yml:1:43:", "play.yml:1:63:", "vars/a.yml:1:2:", "vars/a.yml:1:13:")
    ]
    # ansible-core 2.19 goes on without a file that isn't there
    assert "abe.yml" in found[1]
    assert "did you mean abc.yml?" in found[1]


def test_local_files_are_looked_for_beside_the_task_and_then_beside_the_play(lab: Lab) -> None:
    write(
        lab,
        tasks__main="""\
            - copy: {src: one, dest: /a}
            - template: {src: two, dest: /a}
            - copy: {src: three, dest: /a}
            """,
    )
    for name in ("tasks/files/one", "files/one", "templates/two", "tasks/three"):
        (lab.folder / name).parent.mkdir(exist_ok=True)
        (lab.folder / name).write_text(name)
    found = play(lab, "- import_tasks: tasks/main.yml\n")
    for task, kind, name in zip(
        found.all_tasks,
        ("files", "templates", "files"),
        ("tasks/files/one", "templates/two", "tasks/three"),
        strict=True,
    ):
        assert read_local((task.file, found.file), kind, task.params["src"]).decode() == name
    with pytest.raises(TaskFailed, match="looked for"):
        read_local((found.file,), "files", "three")
    assert is_missing((found.file,), "files", "three")
    assert not is_missing((found.all_tasks[0].file, found.file), "files", "three")
