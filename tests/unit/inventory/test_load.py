"""From files to hosts and groups: what is accepted, and every mistake with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from klops.errors import SourceErrors, UsageError
from klops.inventory import load
from tests.unit.inventory.conftest import Write


def mistakes(write: Write, text: str, **files: str) -> list[str]:
    with pytest.raises(SourceErrors) as caught:
        write(text, **files)
    return [str(mistake) for mistake in caught.value.mistakes]


def test_names_of_hosts_and_groups_stay_as_written(write: Write) -> None:
    inventory = write("no: {hosts: {no: , 1.10: , 0644: , 22:22: }}")
    assert list(inventory.hosts) == ["no", "1.10", "0644", "22"]
    assert "no" in inventory.groups
    assert inventory.connection("22").port == 22


def test_magic_variables(write: Write) -> None:
    inventory = write("a: {children: {b: {hosts: {h.example.org: {x: 1}}}}}\nc: {hosts: {i: }}")
    assert inventory.variables("h.example.org") == {
        "x": 1,
        "inventory_hostname": "h.example.org",
        "inventory_hostname_short": "h",
        "inventory_file": str(Path("hosts.yml").absolute()),
        "inventory_dir": str(Path.cwd()),
        "groups": {
            "all": ["i", "h.example.org"],
            "ungrouped": [],
            "a": ["h.example.org"],
            "b": ["h.example.org"],
            "c": ["i"],
        },
        "group_names": ["a", "b"],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("g: {host: {a: }}", "hosts.yml:1:5: unknown key host in the group g (did you mean hosts?)"),
        (
            "g: {h1: , h2: }",
            "hosts.yml:1:5: unknown key h1 in the group g (expected hosts, vars or children)",
        ),
        (
            "g: {hosts: [a, b]}",
            "hosts.yml:1:12: expected a mapping for hosts (write each name as a key: NAME:)",
        ),
        ("g: {children: [a]}", "hosts.yml:1:15: expected a mapping for children (write each name as a key"),
        ("g: {vars: [a]}", "hosts.yml:1:11: expected a mapping for vars"),
        ("g: [a]", "hosts.yml:1:4: expected a mapping for the group g"),
        ("g: text", "hosts.yml:1:4: expected a mapping for the group g"),
        ("- a", "hosts.yml:1:1: an inventory is a mapping of groups (begin with all:, then hosts:)"),
        ("text", "hosts.yml:1:1: an inventory is a mapping of groups"),
        ("g: {hosts: {a: text}}", "hosts.yml:1:16: expected a mapping for the host a"),
        ("g: {hosts: {'h[3:1]': }}", "hosts.yml:1:13: the range 3:1 runs backwards"),
        ("g: {hosts: {'a b': }}", "hosts.yml:1:13: 'a b' is no host's name"),
        ("g: {hosts: {'': }}", "hosts.yml:1:13: '' is no host's name"),
        (
            "g: {hosts: {a: {x-y: 1}}}",
            "hosts.yml:1:17: 'x-y' is no variable's name (use letters, digits and _)",
        ),
        ("g: {children: {g: }}", "hosts.yml:1:16: the group g cannot stand under itself"),
        (
            "a: {children: {b: {children: {a: }}}}",
            "hosts.yml:1:31: the group a cannot stand under itself",
        ),
        ("g: {children: {all: }}", "hosts.yml:1:16: the group all stands above all others"),
        (
            "g: {vars: {ansible_group_priority: high}}",
            "hosts.yml:1:36: ansible_group_priority is a whole number",
        ),
        ("plugin: aws_ec2", "hosts.yml:1:1: inventory plugins are not supported (list the hosts"),
        ("g:\n\thosts:", "hosts.yml:2:1: tab at line 2"),
    ],
)
def test_a_mistake_names_its_place(write: Write, text: str, message: str) -> None:
    assert mistakes(write, text)[0].startswith(message)


def test_a_host_listed_twice_in_one_group_is_refused(write: Write) -> None:
    found = mistakes(write, "g:\n  hosts:\n    a: {x: 1}\n    b:\n    a: {x: 2}\n")
    assert found == ["hosts.yml:5:5: the key 'a' is given twice: line 3 and line 5 (keep one of them)"]


def test_mistakes_of_all_files_are_told_at_once(write: Write) -> None:
    found = mistakes(
        write,
        "g: {hosts: {a: , b: }, hots: }\nall: {vars: [1]}",
        group_vars__g="a: 1\na: 2\n",
        group_vars__all="- 1",
        host_vars__b="x: !vault y",
        host_vars__stranger="never: [read",
    )
    assert [line.partition(": ")[0] for line in found] == [
        "group_vars/all.yml:1:1",
        "group_vars/g.yml:2:1",
        "host_vars/b.yml:1:4",
        "hosts.yml:1:24",
        "hosts.yml:2:13",
    ]


def test_an_empty_file_is_an_empty_inventory(write: Write) -> None:
    inventory = write("# nothing yet\n")
    assert not inventory.hosts
    with pytest.raises(UsageError, match="no host is left of all"):
        inventory.select(["all"])


def test_the_example_fleet_is_right() -> None:
    inventory = load([str(Path(__file__).parents[3] / "inventory")])
    inventory.check()
    service = inventory.settings("p800-01").services["qwen"]
    assert (service.tp, service.args["gpu-memory-utilization"], service.args["max-model-len"]) == (
        8,
        "0.75",
        "262144",
    )
    narrow = inventory.settings("p800-05").services["qwen"]
    assert (narrow.tp, narrow.cards, narrow.model) == (4, [4, 5, 6, 7], service.model)
    assert narrow.env == {**service.env, "VLLM_HOST_IP": "192.0.2.15"}


def test_a_host_with_variables_is_not_called_as_a_group(write: Write) -> None:
    """Ansible gives such variables to the group, without a word."""
    (found,) = mistakes(write, "web: {hosts: {web: {x: 1}, other: }}")
    assert found.startswith("hosts.yml:1:15: a host and a group are called web")
    assert write("web: {hosts: {web: , other: }}", host_vars__web="x: 1").plain_variables("web") == {"x": 1}


def test_circles_of_several_files(write: Write, tmp_path: Path) -> None:
    (tmp_path / "more.ini").write_text("[c:children]\na\n[c]\n", encoding="utf-8")
    write("a: {children: {b: {children: {c: }}}}")
    with pytest.raises(
        SourceErrors, match=r"more\.ini:2:1: the group a cannot stand under itself \(delete it here"
    ):
        load(["hosts.yml", "more.ini"])


def test_a_key_that_is_given_twice_hides_no_other_mistake(write: Write) -> None:
    with pytest.raises(SourceErrors) as caught:
        write("g:\n  hots: {}\n  vars: {a: 1, a: 2, b: !vault x}\n  vars: {a: 3}\n  hosts: {h: }\n")
    assert [(m.location.line, m.location.column) for m in caught.value.mistakes] == [
        *((2, 3), (3, 16), (3, 25), (4, 3))
    ]
