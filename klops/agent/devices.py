"""Card nodes by device number, and who holds them."""

from __future__ import annotations

import os
import re
import stat
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from klops.agent import procs

_CARD = re.compile(r"xpu\d+\Z")
#: Opened by every user of any card, so holding it says nothing about a card.
CONTROL = "xpuctrl"
#: More cards than a host has: device numbers from here on don't count cards from 0.
_MOST_CARDS = 16


class Node(NamedTuple):
    """A device node as this container has it."""

    path: str
    rdev: int
    #: of the node itself: what /proc/PID/maps shows for a mapping of it
    dev: int
    inode: int

    @property
    def is_card(self) -> bool:
        """Whether it is a card, not the control node."""
        return not self.path.endswith(CONTROL)


def nodes(folder: str) -> list[Node]:
    """All card nodes and the control node in a folder that are character devices."""
    found = []
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    for name in sorted(names):
        if _CARD.match(name) or name == CONTROL:
            path = f"{folder}/{name}"
            try:
                status = os.stat(path)
            except OSError:
                continue
            if stat.S_ISCHR(status.st_mode):
                found.append(Node(path, status.st_rdev, status.st_dev, status.st_ino))
    return found


def _missing(card: Mapping[str, Any], folder: str) -> str:
    path = f"{folder}/{os.path.basename(str(card['node']))}"
    label = f"card {card['index']} (minor {card['minor']}, {path})"
    if not os.path.lexists(path):
        return f"{label} is not in this container"
    if not os.path.exists(path) or not stat.S_ISCHR(os.stat(path).st_mode):
        return f"{label} is not a character device in this container"
    return f"{label} is not in this container: the node of that name is another device"


def resolve(cards: Sequence[Mapping[str, Any]], folder: str) -> tuple[list[Node], str]:
    """The nodes of cards, in order, and "" or what is wrong with the first card that has none.

    A card is matched by the minor number of its node, whatever the node is called in this container. Only
    where the numbers of all nodes are beyond what a host can have (a driver, or a rehearsal, that doesn't
    count from 0) the node's name is what is left to go by.
    """
    present = [node for node in nodes(folder) if node.is_card]
    by_minor = {os.minor(node.rdev): node for node in present}
    by_name = {os.path.basename(node.path): node for node in present}
    offset = all(minor >= _MOST_CARDS for minor in by_minor)
    found: list[Node] = []
    for card in cards:
        node = (
            by_name.get(os.path.basename(str(card["node"]))) if offset else by_minor.get(int(card["minor"]))
        )
        if node is None:
            return found, _missing(card, folder)
        found.append(node)
    return found, ""


def ranks(chosen: Sequence[Node], folder: str) -> list[int]:
    """What runtimes here call these cards: the rank of a node's minor among the card nodes present."""
    order = sorted({os.minor(node.rdev) for node in nodes(folder) if node.is_card})
    return [order.index(os.minor(node.rdev)) for node in chosen]


def held(pid: int, watched: Sequence[Node]) -> list[str] | None:
    """Paths of the nodes that a process has open or mapped; None when it can't be read."""
    by_rdev = {node.rdev: node.path for node in watched}
    by_inode = {(node.dev, node.inode): node.path for node in watched}
    found = set()
    folder = f"/proc/{pid}/fd"
    try:
        descriptors = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError:
        return None
    for fd in descriptors:
        try:
            status = os.stat(f"{folder}/{fd}")
        except PermissionError:
            return None
        except OSError:
            continue
        if stat.S_ISCHR(status.st_mode) and status.st_rdev in by_rdev:
            found.add(by_rdev[status.st_rdev])
    for line in procs.slurp(f"/proc/{pid}/maps").splitlines():
        if b"xpu" not in line:
            continue
        fields = line.split(None, 5)
        major, minor = fields[3].split(b":")
        key = (os.makedev(int(major, 16), int(minor, 16)), int(fields[4]))
        if key in by_inode:
            found.add(by_inode[key])
    return sorted(found)


def holders(
    processes: Iterable[procs.Process], watched: Sequence[Node]
) -> tuple[dict[int, list[str]], list[procs.Process]]:
    """Nodes by pid of their holders, and the processes that could not be read."""
    found, unknown = {}, []
    for process in processes:
        if not process.alive:
            continue
        paths = held(process.pid, watched)
        if paths is None:
            unknown.append(process)
        elif paths:
            found[process.pid] = paths
    return found, unknown
