"""Host patterns: Ansible's, and klops' addition."""

from __future__ import annotations

import pytest

from klops.errors import UsageError
from klops.inventory import Inventory
from tests.unit.inventory.conftest import Write

FLEET = """
p800: {hosts: {"host[01:04]": }, children: {left: {hosts: {host01: , host03: }}}}
spare: {hosts: {s1: , host04: }}
all: {hosts: {"no": , "2001:db8::1": }}
"""


@pytest.fixture
def inventory(write: Write) -> Inventory:
    return write(FLEET)


@pytest.mark.parametrize(
    ("pattern", "hosts"),
    [
        ("all", "no 2001:db8::1 host01 host02 host03 host04 s1"),
        ("*", "no 2001:db8::1 host01 host02 host03 host04 s1"),
        ("p800", "host01 host02 host03 host04"),
        ("host02", "host02"),
        ("no", "no"),
        ("2001:db8::1", "2001:db8::1"),
        ("left,s1", "host01 host03 s1"),
        ("left:s1:left", "host01 host03 s1"),
        ("p800:&spare", "host04"),
        ("p800:!left", "host02 host04"),
        ("!left:p800", "host02 host04"),
        ("all:!p800:!s1", "no 2001:db8::1"),
        ("!p800:!no", "2001:db8::1 s1"),
        ("host0*", "host01 host02 host03 host04"),
        ("host0?:!host04", "host01 host02 host03"),
        ("~host0[13]", "host01 host03"),
        ("~(left|spare)", "host01 host03 s1 host04"),
        ("p800[0]", "host01"),
        ("p800[-1]", "host04"),
        ("p800[-4]", "host01"),
        ("p800[0:1]", "host01 host02"),
        ("p800[1:]", "host02 host03 host04"),
        ("p800[0:7]", "host01 host02 host03 host04"),
        ("host*[1:2]", "host02 host03"),
        ("host[01:03]", "host01 host02 host03"),
        ("host[02:04:2],s1", "host02 host04 s1"),
        ("p800:!host[01:02]", "host03 host04"),
    ],
)
def test_select(inventory: Inventory, pattern: str, hosts: str) -> None:
    assert inventory.select([pattern]) == hosts.split()


def test_a_range_counts_within_a_group_of_that_name(write: Write) -> None:
    inventory = write("host: {hosts: {b: , a: , host01: }}\nx: {hosts: {host02: }}")
    assert inventory.select(["host[0:1]"]) == ["b", "a"]


def test_several_patterns_are_one_union_within_the_limit(inventory: Inventory) -> None:
    assert inventory.select(["left", "s1"]) == ["host01", "host03", "s1"]
    assert inventory.select(["p800"], limit="spare:host01") == ["host01", "host04"]
    assert inventory.select(["p800", "!host01"]) == ["host02", "host03", "host04"]


@pytest.mark.parametrize(
    ("pattern", "message", "hint"),
    [
        ("hsot01", "no host or group is called hsot01", "did you mean host01?"),
        ("p800:!hosst03", "no host or group is called hosst03", "did you mean host03?"),
        ("host[01:05]", "no host or group is called host05", "did you mean host0"),
        ("node[01:05]", "no host or group is called node01", "klops inventory graph"),
        ("host[5:1]", "host[5:1]: the range 5:1 runs backwards", ""),
        ("x*", "x* matches no host or group", ""),
        ("~x", "~x matches no host or group", ""),
        ("~(", "~( is no regular expression", ""),
        ("p800[7]", "p800[7]: p800 has 4 hosts", ""),
        ("p800[-5]", "p800[-5]: p800 has 4 hosts", ""),
        ("p800:!all", "no host is left of p800:!all", ""),
        ("ungrouped:&p800", "no host is left", ""),
        ("", "an empty host pattern stands for nothing", "say all"),
        (" ", "an empty host pattern stands for nothing", ""),
        ("p800,", "an empty host pattern stands for nothing", ""),
        ("p800:!", "an empty host pattern stands for nothing", ""),
    ],
)
def test_refused(inventory: Inventory, pattern: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        inventory.select([pattern])
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_no_pattern_and_an_empty_limit_never_mean_all(inventory: Inventory) -> None:
    for call in ([], [""]):
        with pytest.raises(UsageError, match="empty host pattern"):
            inventory.select(call)
    with pytest.raises(UsageError, match="empty host pattern"):
        inventory.select(["all"], limit="")
    with pytest.raises(UsageError, match="limited to s1"):
        inventory.select(["left"], limit="s1")


def test_all_names_that_nobody_has_are_told(inventory: Inventory) -> None:
    with pytest.raises(UsageError) as caught:
        inventory.select(["hst01,nobody:!spar", "host01"])
    told = caught.value.message
    assert [name in told for name in ("called hst01", "called nobody", "called spar", "called host01")] == [
        True,
        True,
        True,
        False,
    ]
    assert "did you mean spare?" in caught.value.hint
