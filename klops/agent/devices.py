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


def resolve(cards: Sequence[Mapping[str, Any]], folder: str) -> tuple[list[Node], str]:
    """The nodes of cards, in order, and "" or what is wrong with the first card that has none.

    By the node's name: in a container that klops made a card keeps the name it has on the host. Device
    numbers tell who holds a card, not which card it is: they are the driver's to choose.
    """
    present = {os.path.basename(node.path): node for node in nodes(folder)}
    found: list[Node] = []
    for card in cards:
        name = os.path.basename(str(card["node"]))
        node = present.get(name)
        if node is None:
            what = "is not a character device in" if os.path.lexists(f"{folder}/{name}") else "is not in"
            return (
                found,
                f"card {card['index']} (minor {card['minor']}, {folder}/{name}) {what} this container",
            )
        found.append(node)
    return found, ""


def used(spec: Mapping[str, Any]) -> tuple[list[Node], list[Node], str]:
    """The nodes of a unit's cards, the control node if it has cards, and what :func:`resolve` finds wrong."""
    folder = spec["device_dir"]
    chosen, missing = resolve(spec["cards"], folder)
    control = [node for node in nodes(folder) if not node.is_card] if spec["cards"] else []
    return chosen, control, missing


def ranks(chosen: Sequence[Node], folder: str) -> list[int]:
    """What runtimes here call these cards: the rank of a node among the card nodes present, by its number."""
    order = sorted(number(node) for node in nodes(folder) if node.is_card)
    return [order.index(number(node)) for node in chosen]


def number(node: Node) -> int:
    """The number in a card node's name: the card's minor."""
    return int(os.path.basename(node.path)[len("xpu") :])


def held(pid: int, watched: Sequence[Node]) -> list[str] | None:
    """Paths of the nodes that a process has open or mapped; None when it can't be read."""
    by_rdev = {node.rdev: node.path for node in watched}
    by_inode = {(node.dev, node.inode): node.path for node in watched}
    found = set()
    folder = f"/proc/{pid}/fd"
    try:
        descriptors = os.listdir(folder)
    except (FileNotFoundError, ProcessLookupError):
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
