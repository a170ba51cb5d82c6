"""In which order, and how many at a time, the hosts of a play are worked on. Pure but for the dice."""

from __future__ import annotations

import random
from collections.abc import Sequence

#: values of ``order``
ORDERS = ("inventory", "reverse_inventory", "sorted", "reverse_sorted", "shuffle")


def ordered(hosts: Sequence[str], order: str) -> list[str]:
    """Hosts, given in the order of the inventory, as ``order`` says."""
    found = list(hosts)
    if order == "shuffle":
        random.shuffle(found)
    elif order in ("sorted", "reverse_sorted"):
        found.sort(reverse=order == "reverse_sorted")
    elif order == "reverse_inventory":
        found.reverse()
    return found


def size(serial: int | str, hosts: int) -> int:
    """The number of hosts that one value of ``serial`` stands for; 0: all.

    Of a percentage what is left below one is cut off, but it is never less than one host, as in Ansible.

    >>> size("30%", 10), size("1%", 10), size(0, 10)
    (3, 1, 0)
    """
    text = str(serial).strip()
    if not text.endswith("%"):
        return max(int(text), 0)
    return max(int(float(text[:-1]) / 100.0 * hosts), 1)


def batches(hosts: Sequence[str], serial: Sequence[int | str]) -> list[list[str]]:
    """The hosts in the batches that ``serial`` makes of them; its last value is repeated.

    >>> batches(["a", "b", "c", "d", "e"], [1, "40%"])
    [['a'], ['b', 'c'], ['d', 'e']]
    """
    found: list[list[str]] = []
    left = list(hosts)
    sizes = [size(value, len(hosts)) for value in serial] or [0]
    while left:
        count = sizes[min(len(found), len(sizes) - 1)] or len(left)
        found.append(left[:count])
        left = left[count:]
    return found


def too_many(failed: int, size: int, most: float | None) -> bool:
    """Whether of a batch of ``size`` hosts more have failed than ``most`` percent."""
    return most is not None and failed / size > most / 100.0
