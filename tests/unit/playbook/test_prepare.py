"""What a run knows of its hosts before anything runs, and hosts that are only delegated to."""

from __future__ import annotations

import pytest

from klops.errors import SourceErrors, UsageError
from tests.unit.playbook.support import Lab
from tests.unit.playbook.test_strategy import story


def test_variables_beside_the_playbook_and_files_of_variables(lab: Lab) -> None:
    lab.inventory = "all: {vars: {a: inventory, b: inventory, os: linux}, hosts: {h1: , h2: {os: bsd}}}"
    for path, text in {
        "group_vars/all.yml": "b: beside\nc: beside\n",
        "vars/linux.yml": "c: linux\nd: '{{ c }}!'\n",
        "common.yml": "c: common\n",
    }.items():
        (lab.folder / path).parent.mkdir(exist_ok=True)
        (lab.folder / path).write_text(text)
    ran = lab.play(
        """\
        - hosts: all
          vars: {c: play, d: play}
          vars_files:
            - [ "{{ os }}.yml", common.yml ]
          tasks: [{debug: {msg: "{{ a }} {{ b }} {{ c }} {{ d }}"}}]
        """
    )
    # ansible-playbook: the same, files of variables win over vars
    assert ran.task(0, "h1").message == "inventory beside linux linux!"
    assert ran.task(0, "h2").message == "inventory beside common play"


def test_mistakes_in_files_of_variables_are_all_told_before_anything_runs(lab: Lab) -> None:
    (lab.folder / "v.yml").write_text("klops: {rot: /x}\n")
    with pytest.raises(SourceErrors) as raised:
        lab.play(
            "- hosts: all\n  vars_files: [v.yml, '{{ inventory_hostname }}.yml', '{{ nothing }}.yml']\n"
            "  tasks: [{debug: }]\n"
        )
    text = str(raised.value)
    assert "v.yml:1:9" in text
    assert "no file 'h1.yml'" in text
    assert "vars_files: " in text
    assert "nothing" in text
    assert lab.sink.events == []


def test_templates_in_connection_variables_are_rendered(lab: Lab) -> None:
    lab.inventory = (
        "all: {vars: {ansible_port: '{{ base + 1 }}', base: 2200}, hosts: {h1: , h2: {base: 99999}}}"
    )
    with pytest.raises(SourceErrors) as raised:
        lab.tasks("- debug:")
    assert len(raised.value.mistakes) == 1
    assert "100000" in str(raised.value)


def test_a_host_that_is_only_delegated_to(lab: Lab) -> None:
    lab.inventory = "all: {hosts: {h1: , other: }}"
    lab.host("other").on("work", "done")
    ran = lab.play(
        """\
        - hosts: h1
          tasks:
            - {command: work, delegate_to: other, register: w}
            - {debug: {msg: "{{ w.stdout }}"}}
        """
    )
    assert ran.task(1).message == "done"
    assert ran.result.hosts == ("h1",)
    assert ran.result.remote_commands == {"h1": 0, "other": 1}
    assert lab.host("other").closed


def test_starting_at_a_task_within_a_block(lab: Lab) -> None:
    text = """\
        - hosts: all
          pre_tasks: [{name: p, debug: }]
          tasks:
            - block:
                - {name: a, debug: }
                - {name: b, fail: }
              rescue: [{name: r, debug: }]
              always: [{name: w, debug: }, {name: x, debug: }]
            - {name: last, debug: }
        """
    assert story(lab.play(text, start_at_task="b")) == ["b h1:rescued", "r h1", "w h1", "x h1", "last h1"]
    assert story(lab.play(text, start_at_task="x")) == ["x h1", "last h1"]
    assert story(lab.play(text, start_at_task="l*t")) == ["last h1"]
    # ansible-playbook: No matching task "r" found
    with pytest.raises(UsageError) as raised:
        lab.play(text, start_at_task="r")
    assert "rescue" in raised.value.hint


def test_tags_on_blocks(lab: Lab) -> None:
    text = """\
        - block:
            - {name: a, debug: , tags: ta}
            - {name: b, debug: }
          always:
            - {name: c, debug: , tags: tc}
          tags: tb
        - {name: d, debug: }
        """
    assert story(lab.tasks(text, tags=["tc"])) == ["c h1"]
    assert story(lab.tasks(text, tags=["tb"])) == ["a h1", "b h1", "c h1"]
    assert story(lab.tasks(text, skip_tags=["ta"])) == ["b h1", "c h1", "d h1"]
    assert story(lab.tasks(text, skip_tags=["tb"])) == ["d h1"]


def test_a_tag_of_an_included_file_is_known(lab: Lab) -> None:
    (lab.folder / "sub.yml").write_text("- {name: s, debug: , tags: ts}\n")
    assert lab.tasks("- {include_tasks: sub.yml, tags: ts}", tags=["ts"]).result.ok
    with pytest.raises(UsageError, match="has the tag 'tx'"):
        lab.tasks("- {include_tasks: sub.yml}", tags=["tx"])
    # a file that isn't known yet may have any tag
    assert lab.tasks("- {include_tasks: '{{ x }}.yml', tags: a}", tags=["tx"]).result.ok
