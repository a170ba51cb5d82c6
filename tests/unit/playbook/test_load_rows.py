"""Rows of the field reports: what YAML 1.1 makes of values (H47), and keys that are given twice (H49)."""

from __future__ import annotations

import pytest

from klops.errors import SourceErrors
from klops.playbook.load.plays import load_playbook
from klops.playbook.model import Play
from tests.unit.playbook.support import GENERIC_ACTIONS, Lab


def mistakes(lab: Lab, text: str) -> list[str]:
    with pytest.raises(SourceErrors) as caught:
        lab.load(text)
    return [str(mistake).rpartition("/")[2] for mistake in caught.value.mistakes]


def one(lab: Lab, text: str) -> Play:
    (play,) = lab.load(text).plays
    return play


# -- H49 -----------------------------------------------------------------------------------------------------


def test_row_H49_a_second_play_without_its_dash(lab: Lab) -> None:
    found = mistakes(
        lab,
        """\
        - hosts: web
          tasks: [{debug: }]

          hosts: db
          tasks: [{fail: }]
        """,
    )
    assert found == [
        "play.yml:4:3: the key 'hosts' is given twice: line 1 and line 4 (keep one of them)",
        "play.yml:5:3: the key 'tasks' is given twice: line 2 and line 5 (keep one of them)",
    ]


def test_row_H49_a_task_with_two_conditions(lab: Lab) -> None:
    text = "- hosts: all\n  tasks:\n    - debug:\n      when: a\n      when: b\n"
    assert mistakes(lab, text) == [
        "play.yml:5:7: the key 'when' is given twice: line 4 and line 5 (keep one of them)"
    ]


def test_row_H49_also_in_files_that_are_imported(lab: Lab) -> None:
    (lab.folder / "tasks.yml").write_text("- debug:\n  when: a\n  when: b\n")
    assert mistakes(lab, "- {hosts: all, tasks: [{import_tasks: tasks.yml}]}\n") == [
        "tasks.yml:3:3: the key 'when' is given twice: line 2 and line 3 (keep one of them)"
    ]


def test_row_H49_a_key_that_overrides_a_merged_one_is_meant(lab: Lab) -> None:
    play = one(
        lab,
        """\
        - hosts: all
          tasks:
            - &base
              file: &file {path: /a, state: directory, mode: "0755"}
              become: true
              tags: x
            - <<: *base
              file: {<<: *file, path: /b}
              become: false
        """,
    )
    first, second = play.all_tasks
    assert (second.params["path"], second.params["state"], second.become) == ("/b", "directory", False)
    assert (first.params["path"], first.become, second.tags) == ("/a", True, ("x",))


def test_row_H49_a_byte_order_mark_at_the_start_only(lab: Lab) -> None:
    file = lab.folder / "bom.yml"
    file.write_bytes("\ufeff- hosts: all\n  tasks: []\n".encode())
    assert load_playbook(file, GENERIC_ACTIONS).plays[0].hosts == ("all",)
    assert mistakes(lab, "---\n\ufeff- hosts: all\n") == [
        "play.yml:2:1: a byte order mark in mid-file (delete it)"
    ]


def test_row_H49_a_tab_is_told_with_its_line(lab: Lab) -> None:
    assert mistakes(lab, "- hosts: all\n  tasks:\n\t- debug:\n") == [
        "play.yml:3:1: tab at line 3 (indent with spaces)"
    ]


# -- H47 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["0644", "644", '"0644"', "'644'", "0o644", '"0o644"'])
def test_row_H47_every_way_of_writing_644_is_0644(lab: Lab, mode: str) -> None:
    (task,) = one(lab, f"- hosts: all\n  tasks: [{{file: {{path: /a, mode: {mode}}}}}]\n").all_tasks
    # what YAML makes of it would be 420 for 0644, and 0o1204 for 644
    assert task.action.params.model_validate(task.params).mode == 0o644


@pytest.mark.parametrize("before", [0o000, 0o644, 0o777])
def test_row_H47_symbols_give_0644_whatever_was_there(lab: Lab, before: int) -> None:
    (task,) = one(lab, "- hosts: all\n  tasks: [{file: {path: /a, mode: 'u=rw,go=r'}}]\n").all_tasks
    mode = task.action.params.model_validate(task.params).mode
    assert mode.applied(before, is_dir=False) == 0o644


def test_row_H47_tags_and_names_keep_what_was_typed(lab: Lab) -> None:
    play = one(
        lab,
        """\
        - name: 1.10
          hosts: [no, 012, 2024-01-01]
          tags: [1e3, no, 012]
          tasks: [{debug: , name: 1.10, tags: 2024-01-01}]
        """,
    )
    (task,) = play.all_tasks
    assert (play.name, task.name) == ("1.10", "1.10")
    assert play.hosts == ("no", "012", "2024-01-01")
    assert task.tags == ("1e3", "no", "012", "2024-01-01")


def test_row_H47_environment_keeps_what_was_typed(lab: Lab) -> None:
    (task,) = one(
        lab,
        """\
        - hosts: all
          tasks:
            - command: env
              environment: {FLAG: no, Y: on, V: 1.10, ZIP: 012, PORT: 22:22, MODE: 0644,
                            D: 2024-01-01, E: , N: ~}
        """,
    ).all_tasks
    assert task.environment == (
        {
            "FLAG": "no",
            "Y": "on",
            "V": "1.10",
            "ZIP": "012",
            "PORT": "22:22",
            "MODE": "0644",
            "D": "2024-01-01",
            "E": "",
            "N": "~",
        },
    )


def test_row_H47_text_parameters_keep_what_was_typed(lab: Lab) -> None:
    text = """\
    - hosts: all
      tasks:
        - command: {argv: [serve, 1.10, 22:22, 9022:22, 8000:8000, no, on, 012, 08], chdir: 2024-01-01}
    """
    (task,) = one(lab, text).all_tasks
    assert task.params["argv"] == ["serve", "1.10", "22:22", "9022:22", "8000:8000", "no", "on", "012", "08"]
    assert task.params["chdir"] == "2024-01-01"


@pytest.mark.parametrize("keyword", ["retries: 010", "throttle: 0x10", "retries: 1_0", "throttle: 1:30"])
def test_row_H47_numbers_that_yaml_reads_in_another_way_are_refused(lab: Lab, keyword: str) -> None:
    (found,) = mistakes(lab, f"- hosts: all\n  tasks: [{{debug: , {keyword}}}]\n")
    assert found.startswith("play.yml:2:")
    assert "is a whole number, 0 or more" in found
