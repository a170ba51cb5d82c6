"""Included tasks. What ansible-playbook 2.19 printed for the same play is noted with each test."""

from __future__ import annotations

import textwrap

import pytest

from klops.errors import SourceErrors
from tests.unit.playbook.support import Files, Lab
from tests.unit.playbook.test_strategy import recap, story


@pytest.fixture
def three(lab: Lab) -> Lab:
    lab.inventory = "all: {hosts: {h1: , h2: , h3: }}"
    return lab


def write(lab: Lab, **files: str) -> None:
    for name, text in files.items():
        (lab.folder / f"{name}.yml").write_text(textwrap.dedent(text))


def test_a_file_for_each_host(three: Lab) -> None:
    write(three, h1="- {name: in h1, debug: }\n", h2="- {name: in h2, debug: }\n- {name: more, debug: }\n")
    ran = three.tasks(
        """\
        - {name: inc, include_tasks: "{{ inventory_hostname }}.yml", when: inventory_hostname != 'h3'}
        - {name: end, debug: }
        """
    )
    assert story(ran) == ["inc h1 h2 h3:skipped", "in h1 h1", "in h2 h2", "more h2", "end h1 h2 h3"]
    # h1 : ok=3; h2 : ok=4; h3 : ok=1 skipped=1
    assert recap(ran) == {"h1": "ok=3", "h2": "ok=4", "h3": "ok=1 skipped=1"}


def test_a_loop_walks_the_file_once_for_each_item(three: Lab) -> None:
    write(
        three,
        outer="""\
            - block:
                - {name: a, debug: {msg: "{{ o }} {{ oi }} {{ deep }}"}, changed_when: o == 1, notify: H}
                - {name: b, fail: , when: o == 2 and inventory_hostname != 'h1'}
                - {name: inner, include_tasks: inner.yml, loop: [x, y], when: inventory_hostname != 'h3'}
              rescue:
                - {name: r, debug: {msg: "{{ o }}"}}
                - {name: f, fail: , when: inventory_hostname == 'h3'}
              always:
                - {name: w, debug: {msg: "{{ o }}"}}
            """,
        inner='- {name: i, debug: {msg: "{{ item }}{{ o }}{{ deep }}"}}\n',
        h="- {name: handled, debug: }\n",
    )
    ran = three.play(
        """\
        - hosts: all
          tasks:
            - name: outer
              include_tasks: outer.yml
              loop: [1, 2]
              loop_control: {loop_var: o, index_var: oi}
              vars: {deep: "d{{ o }}"}
            - {name: end, debug: }
          handlers:
            - {name: H, include_tasks: h.yml}
        """
    )
    assert story(ran) == [
        "outer h1 h2 h3",
        "a h1:changed h2:changed h3:changed",
        "b h1:skipped h2:skipped h3:skipped",
        "inner h1 h2 h3:skipped",
        "i h1 h2",
        "i h1 h2",
        "w h1 h2 h3",
        "a h1 h2 h3",
        "b h1:skipped h2:rescued h3:rescued",
        "inner h1",
        "i h1",
        "i h1",
        "r h2 h3",
        "f h2:skipped h3:failed",
        "w h1 h2 h3",
        "end h1 h2",
        "H h1 h2",
        "handled h1 h2",
    ]
    assert [ran.task(place).message for place in (1, 4, 5, 7, 14)] == [
        "1 0 d1",
        "x1d1",
        "y1d1",
        "2 1 d2",
        "2",
    ]
    # each file counts: h1 : ok=17 changed=1 skipped=2; h2 : ok=14 changed=1 skipped=2 rescued=1
    assert recap(ran)["h1"] == "ok=17 changed=1 skipped=2"
    assert recap(ran)["h2"] == "ok=14 changed=1 skipped=2 rescued=1"
    assert recap(ran)["h3"] == "ok=7 changed=1 failed=1 skipped=2 rescued=1"


def test_a_loop_may_skip_items_and_be_empty(lab: Lab) -> None:
    write(lab, sub='- {name: s, debug: {msg: "{{ item }}"}}\n')
    ran = lab.tasks(
        """\
        - {name: maybe, include_tasks: sub.yml, loop: [1, 2], when: item == 2}
        - {name: none, include_tasks: sub.yml, loop: []}
        """
    )
    assert story(ran) == ["maybe h1", "s h1", "none h1:skipped"]
    assert ran.task(1).message == "2"
    # ok=2 skipped=1
    assert recap(ran) == {"h1": "ok=2 skipped=1"}


def test_what_a_loop_is_over_is_no_template(lab: Lab) -> None:
    lab.host().on("names", "{{ 6 * 7 }}")
    write(lab, sub='- {name: s, debug: {msg: "{{ item }}"}}\n')
    ran = lab.tasks(
        '- {command: names, register: n}\n- {include_tasks: sub.yml, loop: "{{ n.stdout_lines }}"}'
    )
    assert ran.task(2).message == "{{ 6 * 7 }}"


def test_tags_of_an_include_are_not_those_of_its_tasks_but_apply_gives_them(lab: Lab) -> None:
    write(lab, sub="- {name: s, debug: }\n- {name: s2, debug: , tags: ts}\n")
    text = """\
        - {name: inc, include_tasks: sub.yml, tags: ti}
        - {name: inc2, include_tasks: {file: sub.yml, apply: {tags: ti}}, tags: ti}
        """
    # ansible-playbook --tags ti: included twice, s and s2 once
    assert story(lab.tasks(text, tags=["ti"])) == ["inc h1", "inc2 h1", "s h1", "s2 h1"]
    assert story(lab.tasks(text, skip_tags=["ts"])) == ["inc h1", "s h1", "inc2 h1", "s h1"]


def test_run_once_includes_for_the_first_host(three: Lab) -> None:
    write(three, sub="- {name: s, debug: }\n")
    ran = three.tasks("- {name: inc, include_tasks: sub.yml, run_once: true}\n- {name: end, debug: }")
    # ok: [h3] of s with h3 the first host
    assert story(ran) == ["inc h1", "s h1", "end h1 h2 h3"]


def test_a_file_that_is_not_there_fails_the_host_where_it_is_needed(three: Lab) -> None:
    # ansible-playbook runs the rescue, too, but counts the include as failed and gives the rescue no
    # ansible_failed_result
    write(three, h1="- {name: in h1, debug: }\n")
    ran = three.tasks(
        """\
        - block:
            - {name: inc, include_tasks: "{{ inventory_hostname }}.yml", when: inventory_hostname != 'h3'}
          rescue:
            - {name: r, debug: {msg: "{{ ansible_failed_result.msg }}"}}
        """
    )
    assert story(ran) == ["inc h1 h2:rescued h3:skipped", "in h1 h1", "r h2"]
    assert "no file 'h2.yml'" in ran.task(2, "h2").message


def test_mistakes_in_a_file_are_told_with_their_places(lab: Lab) -> None:
    write(lab, sub="- {name: s, debgu: }\n- {name: t, debug: {mgs: 1}}\n")
    ran = lab.tasks("- {name: inc, include_tasks: '{{ which }}.yml', vars: {which: sub}}")
    error = ran.result.errors["h1"]
    assert error.code == "source"
    assert "sub.yml:1:13" in error.message
    assert "sub.yml:2:" in error.message
    assert ran.result.exit_status() == 1
    with pytest.raises(SourceErrors):
        lab.tasks("- {name: inc, include_tasks: sub.yml}")


def test_a_file_that_includes_itself_without_an_end(lab: Lab) -> None:
    write(lab, sub="- {name: again, include_tasks: sub.yml}\n")
    ran = lab.tasks("- {name: inc, include_tasks: sub.yml}")
    assert "50 deep" in ran.result.errors["h1"].message


def test_one_that_includes_itself_as_long_as_a_condition_holds(lab: Lab) -> None:
    text = '- {name: n, set_fact: {n: "{{ n + 1 }}"}}\n- {name: again, include_tasks: sub.yml, when: n < 3}\n'
    write(lab, sub=text)
    ran = lab.tasks("- set_fact: {n: 0}\n- include_tasks: sub.yml\n- {name: end, debug: {msg: '{{ n }}'}}")
    assert ran.result.plays[0].tasks[-1].hosts["h1"].message == "3"


def test_included_tasks_are_read_together(lab: Lab) -> None:
    files = {f"/f{number}": "x" for number in range(6)}
    Files(lab.host(), **files)
    write(lab, sub="\n".join(f"- copy: {{content: x, dest: /f{number}}}" for number in range(1, 5)) + "\n")
    ran = lab.tasks(
        "- copy: {content: x, dest: /f0}\n- include_tasks: sub.yml\n- copy: {content: x, dest: /f5}"
    )
    assert ran.result.ok
    # those before the include, and all from there
    assert ran.batches == 2
