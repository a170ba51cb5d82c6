"""Pids of a container's processes as the container and as the host count them. No I/O."""

from __future__ import annotations


def parse(text: str) -> dict[int, int]:
    """Container pid -> host pid, from ``/proc/HOST/status:NSpid: HOST INSIDE ...`` lines.

    The second column counts in the container. A process in a pid namespace made inside it has more columns;
    the last of them counts there and says nothing about the container. Lines of other shapes are left out.

    >>> parse("/proc/3374/status:NSpid:\\t3374\\t14\\n/proc/3380/status:NSpid:\\t3380\\t15\\t1\\n")
    {14: 3374, 15: 3380}
    """
    found: dict[int, int] = {}
    for line in text.splitlines():
        _, mark, numbers = line.partition("NSpid:")
        pids = numbers.split()
        if mark and len(pids) > 1 and all(pid.isdecimal() for pid in pids):
            found[int(pids[1])] = int(pids[0])
    return found
