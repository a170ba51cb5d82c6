"""Card nodes by device number, and who holds them."""

from __future__ import annotations

import itertools
import os
import re
import stat
import time
from typing import Any, Collection, Iterable, Mapping, NamedTuple, Sequence

from klops.agent.processes import cores, openfiles, procs

_CARD = re.compile(r"xpu\d+\Z")
#: A line of maps that names something below a /dev, or a node elsewhere; a removed node as removed.
_DEVICE_LINE = re.compile(rb"^[^\n]* (?:/dev/|/[^\n]*xpu)[^\n]*$", re.MULTILINE)
_CARD_PATH = re.compile(rb"/xpu\d+(?: \(deleted\))?\Z")
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


class Held(NamedTuple):
    """What a process has open or mapped."""

    #: device numbers of watched nodes
    nodes: set[int]
    #: whether one of the watched files
    files: bool


def holds(
    pid: int, rdevs: Collection[int], files: Collection[tuple[int, int]] = (), *, mapped: bool = True
) -> Held | None:
    """Which of these nodes, and whether one of these files, a process has open or mapped.

    None when that can't be read.

    ``files`` are (device, inode). Whatever a node is called where the process lives: its number counts.
    Not ``mapped``: only what it has open, for who is stuck may have whoever reads its mappings get stuck too.
    """
    found: set[int] = set()
    any_file = False
    try:
        descriptors = openfiles.opened(pid)
        folder, lines = _mapped(pid) if mapped else ("", [])
    except OSError:
        return None
    for status in descriptors:
        if status.st_rdev in rdevs and stat.S_ISCHR(status.st_mode):
            found.add(status.st_rdev)
        elif files and (status.st_dev, status.st_ino) in files:
            any_file = True
    for line in lines:
        fields = line.split(None, 5)
        major, minor = fields[3].split(b":")
        key = (os.makedev(int(major, 16), int(minor, 16)), int(fields[4]))
        if key in files:
            any_file = True
        elif not fields[5].startswith(b"/dev/shm/"):
            number = _mapped_device(folder, fields[0], fields[5], key)
            if number is None:
                return None
            if number in rdevs:
                found.add(number)
    return Held(found, any_file)


#: What most have.
NOTHING = Held(set(), False)


def holdings(
    pids: Sequence[int], rdevs: Collection[int], files: Collection[tuple[int, int]] = ()
) -> dict[int, Held | None]:
    """The same of many; those that have nothing are left out."""

    def look(part: Sequence[int]) -> list[Any]:
        found = ((pid, holds(pid, rdevs, files)) for pid in part)
        return [[pid, one and [sorted(one.nodes), one.files]] for pid, one in found if one != NOTHING]

    told = itertools.chain.from_iterable(cores.shared(look, pids))
    return {pid: None if one is None else Held(set(one[0]), one[1]) for pid, one in told}


def _mapped(pid: int) -> tuple[str, list[bytes]]:
    """Lines of maps that may be of a device or of shared memory, and the folder that they are in."""
    folder, data = openfiles.maps(pid)
    # searched as a whole: few processes have any such line
    return folder, _DEVICE_LINE.findall(data) if b"/dev/" in data or b"xpu" in data else []


def _mapped_device(folder: str, where: bytes, path: bytes, key: tuple[int, int]) -> int | None:
    """Device number of what a line of maps names, 0 when it is no device; None when that can't be told.

    The line has device and inode of the node itself, so it is looked up where the process sees it.
    """
    try:
        status = os.stat(f"{folder}/root".encode("ascii") + path)
        if (status.st_dev, status.st_ino) == key:
            return status.st_rdev if stat.S_ISCHR(status.st_mode) else 0
    except FileNotFoundError:
        pass  # removed or renamed since
    except OSError:
        return None
    try:
        status = os.stat(f"{folder}/map_files/".encode("ascii") + _padless(where))
    except OSError:
        # only the host's root may look there, and it is there for a first thread that lives; what is no card
        # has another name
        return None if _CARD_PATH.search(path) else 0
    return status.st_rdev if stat.S_ISCHR(status.st_mode) else 0


def _padless(where: bytes) -> bytes:
    """A range of maps as map_files names it: without leading zeros."""
    return b"-".join(part.lstrip(b"0") or b"0" for part in where.split(b"-"))


def opened(pid: int) -> set[int] | None:
    """Numbers of the character devices that a process has open; None when it can't be read.

    One on its way out that has given back all it had open may wait in a driver that takes it back: of such a
    one it can't be told.
    """
    try:
        found = openfiles.opened(pid)
    except OSError:
        return None
    process = procs.read(pid) if not found else None
    if process is not None and process.exiting and process.alive:
        return None
    return {status.st_rdev for status in found if stat.S_ISCHR(status.st_mode)}


def held(process: procs.Process, watched: Sequence[Node], until: float = 0.0) -> list[str] | None:
    """Paths of the nodes that a process has open or mapped; None when it can't be read.

    Of one that stays in uninterruptible sleep until then (monotonic seconds) only what it has open counts:
    whoever reads the map of one that sits in the driver may sit there too. It has its cards open, as their
    libraries keep what they map from.
    """
    by_rdev = {node.rdev: node.path for node in watched}
    found = holds(process.pid, by_rdev, mapped=openfiles.settled(process, until))
    return None if found is None else sorted(by_rdev[number] for number in found.nodes)


def holders(
    processes: Iterable[procs.Process], watched: Sequence[Node]
) -> tuple[dict[int, list[str]], list[procs.Process]]:
    """Nodes by pid of their holders, and the processes that could not be read."""
    found: dict[int, list[str]] = {}
    unknown = []
    until = time.monotonic() + openfiles.PATIENCE
    # those that have to be waited for come last
    for process in sorted(processes, key=lambda one: one.state == procs.WAITING):
        if not process.alive:
            continue
        paths = held(process, watched, until)
        if paths is None:
            unknown.append(process)
        elif paths:
            found[process.pid] = paths
    return found, unknown
