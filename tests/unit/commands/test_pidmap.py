"""Container pids joined with those of the host."""

from __future__ import annotations

from klops.commands import pidmap


def test_a_namespace_inside_the_container_does_not_take_its_pids() -> None:
    text = (
        "/proc/3300/status:NSpid:\t3300\t1\n"
        "/proc/3374/status:NSpid:\t3374\t14\n"
        # `unshare --pid` in the container: pid 1 of its own
        "/proc/3380/status:NSpid:\t3380\t15\t1\n"
    )
    assert pidmap.parse(text) == {1: 3300, 14: 3374, 15: 3380}


def test_other_lines_are_left_out() -> None:
    text = (
        "grep: /proc/9/status: No such file or directory\n"
        "/proc/1/status:NSpid:\t1\n/proc/2/status:NSpid:\tx\t2\n\n"
        # a digit for Python, and no number
        "/proc/3/status:NSpid:\t3\t\u00b2\n"
    )
    assert pidmap.parse(text) == {}
