"""Faults of cards in collectives, for whatever forms groups on a rehearsal host.

The stand-in torch asks here what befalls a group, sitecustomize.py of ``torch_real`` does so around a real
torch, and the stand-in vllm when it loads. klops itself knows nothing of it.

Reads ``KLOPS_SIM_FAULTS`` (a faults.json of klops.sim.faults, anew at every question: it may be replaced),
``KLOPS_SIM_CARDS`` (which device number is which card: cards.json of the host, or of all hosts with colons
between them, of which a container has its own) and ``KLOPS_SIM_DEVICE_DIR`` (where nodes are, /dev). Cards
are smi indexes.

One file, Python 3.8, standard library only: it is copied into the rehearsal's folder and imported by every
rank, so it imports little.
"""
# pathlib costs a rank more than all the rest:
# ruff: noqa: PTH118, PTH123, PTH208, PTH116

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import time
from typing import Any, NoReturn

#: The first of these that is set names the visible cards, "" counts as set (P800 field notes, 3.1).
VISIBLE = ("XPULINK_VISIBLE_DEVICES", "XPU_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
#: With exactly this in CUDA_VISIBLE_DEVICES xpytorch's import hook sets CUDA_DEVICE_ORDER=OAM_ID (3.1) ...
ALL_EIGHT = "0,1,2,3,4,5,6,7"
#: ... and numbers count OAM ids. The nodes of OAM ids 0, 1, ... as one host had them (1.9: 2 -> 0, 3 -> 1).
OAM_ORDER = (2, 3, 0, 1, 4, 5, 6, 7)
#: Stages in which a card hangs.
INIT, COLLECTIVE = "init", "collective"
#: Bytes. What is smaller is sent to have the library connect, and belongs to the forming of a group.
CONNECTING = 1024
#: A slow card's delay is added where it is so many times the measured spread: less would drown in it.
CLEAR = 10
#: Durations remembered of one kind of collective, to know their spread.
_REMEMBERED = 16
#: What was read last of each file, with what tells that version of it from others.
_known: dict[str, tuple[tuple[int, int, int], dict[str, Any]]] = {}


# --- cards and nodes ----------------------------------------------------------------------------------------


def device_dir() -> str:
    """Where the card nodes are."""
    return os.environ.get("KLOPS_SIM_DEVICE_DIR", "/dev")


def nodes_there(directory: str) -> list[str]:
    """The card nodes that are there, by number."""
    try:
        found = os.listdir(directory)
    except FileNotFoundError:
        return []
    names = [name for name in found if name.startswith("xpu") and name[3:].isdigit()]
    return [os.path.join(directory, name) for name in sorted(names, key=lambda name: int(name[3:]))]


def visible_nodes() -> list[str]:
    """Nodes of the visible cards in order of device number.

    Visible numbers count the nodes that are there; as in CUDA the first that names none ends the list.
    """
    nodes = nodes_there(device_dir())
    if os.environ.get("CUDA_VISIBLE_DEVICES") == ALL_EIGHT and len(nodes) == len(OAM_ORDER):
        nodes = [nodes[place] for place in OAM_ORDER]
    wanted = next((os.environ[name] for name in VISIBLE if name in os.environ), None)
    if wanted is None:
        return nodes
    found: list[str] = []
    for word in wanted.split(","):
        if not word.strip().isdigit() or int(word) >= len(nodes):
            break
        found.append(nodes[int(word)])
    return found


def card_of(node: str) -> int | None:
    """The card behind a node, by device number; None where nothing says so."""
    try:
        number = os.stat(node).st_rdev
    except OSError:
        return None
    key = "renumbered_minor" if faults().get("renumber") else "minor"
    for path in os.environ.get("KLOPS_SIM_CARDS", "").split(":"):
        host = _read(path)
        major, first = host.get("numbers", (0, 0))
        for entry in host.get("cards", ()):
            if number == os.makedev(major, first + entry[key]):
                return int(entry["index"])
    return None


def open_card(node: str) -> None:
    """Open a card and xpuctrl as a P800's runtime does, and keep them open until the process ends.

    O_NOCTTY: a node may be a terminal's. Raises :class:`OSError`, also for a card that is dead by now though
    the node in this container still has a driver behind it.
    """
    card = card_of(node)
    if card is not None and _kind(card, "dead"):
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO), node)
    for path in (node, os.path.join(os.path.dirname(node), "xpuctrl")):  # noqa: PTH120 - no pathlib, see above
        os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)


def take(nodes: list[str], place: int) -> int | None:
    """Open the card of a device number; which card it is, where that is known. Raises :class:`OSError`."""
    if not 0 <= place < len(nodes):
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
    open_card(nodes[place])
    return card_of(nodes[place])


def no_context(exc: OSError) -> RuntimeError:
    """What a P800's runtime says of a card that can't be opened (field notes, 2.3)."""
    return RuntimeError(f"[ERROR][XPURT] Initialize default context for dev -1 fail: {exc.strerror}")


# --- which faults there are ---------------------------------------------------------------------------------


def faults() -> dict[str, Any]:
    """The faults that are set right now."""
    return _read(os.environ.get("KLOPS_SIM_FAULTS", ""))


def _read(path: str) -> dict[str, Any]:
    """A JSON file as it is now; {} when it isn't there or is being replaced."""
    with contextlib.suppress(OSError, ValueError):
        status = os.stat(path)
        version = (status.st_mtime_ns, status.st_ino, status.st_size)
        known = _known.get(path)
        if known is None or known[0] != version:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
            known = _known[path] = (version, found if isinstance(found, dict) else {})
        return known[1]
    return {}


def _kind(card: int | None, kind: str) -> dict[str, Any] | None:
    """The fault of this kind that a card has."""
    entries = faults().get("cards", ())
    return next((one for one in entries if one["card"] == card and one["kind"] == kind), None)


def _pairs(cards: list[int | None], kind: str) -> list[dict[str, Any]]:
    """Faults of this kind of pairs that are both among ``cards``."""
    found = [one for one in faults().get("pairs", ()) if one["kind"] == kind]
    return [one for one in found if one["a"] in cards and one["b"] in cards]


def factor(cards: list[int | None], mine: int | None) -> float:
    """At which factor of its speed the card ``mine`` takes part in a group; 1.0 for a healthy one."""
    slow = [one for one in _pairs(cards, "slow") if mine in (one["a"], one["b"])]
    own = _kind(mine, "slow")
    return float(min((one["factor"] for one in [*slow, *([own] if own else [])]), default=1.0))


def hangs(cards: list[int | None], mine: int | None, stage: str) -> bool:
    """Whether the card ``mine`` of a group never comes out of this stage."""
    if stage == COLLECTIVE and any(mine in (one["a"], one["b"]) for one in _pairs(cards, "hang")):
        return True
    return _kind(mine, f"hang-{stage}") is not None


def refusal(cards: list[int | None]) -> tuple[list[str], Exception] | None:
    """Why a group of these cards can't be formed: lines of the library's log, and the error; None if it can.

    The lines and the ValueError of addr_window are quoted from the field notes on P800, 3.4, the words of the
    others are put together from there.
    """
    content = faults()
    if content.get("all_pairs") == "addr_window" and len(cards) > 1:
        lines = ["[XCCL][util.cpp:346] dev 0 addr_window not properly set"]
        lines.append("[XCCL][init.cpp:1227] host 127.0.0.1 addr_window check failed")
        return lines, ValueError("[INVALID PARAMETER]: error code= 1(at /xccl/XCCLUtils.hpp:53)")
    broken = _pairs(cards, "error")
    if broken:
        lines = [f"dev {cards.index(one['a'])} port 3 xpulink not active" for one in broken]
        return lines, RuntimeError("XCCL: ncclCommInitRank unhandled error: xpulink not active")
    if any(one["size"] == len(cards) for one in content.get("groups", ())):
        lines = ["[WARN][BKCL] init_bkcl_context failed"]
        return lines, RuntimeError(f"XCCL: ncclCommInitRank unhandled error: {len(cards)} ranks")
    return None


def hang() -> NoReturn:
    """Never come back, as from a driver: nothing but KILL ends it."""
    with contextlib.suppress(ValueError):  # not the main thread, which alone may set handlers
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(3600)


# --- one group ----------------------------------------------------------------------------------------------


class Group:
    """The cards of one group by rank, as the rank of ``mine`` meets them. Made anew with each group."""

    def __init__(self, cards: list[int | None], mine: int | None) -> None:
        self.cards = cards
        self.mine = mine
        self._rounds: dict[int, int] = {}

    def form(self) -> None:
        """What befalls the forming of the group: nothing, an error, or no return."""
        if hangs(self.cards, self.mine, INIT):
            hang()
        refused = refusal(self.cards)
        if refused:
            os.write(2, "".join(f"{line}\n" for line in refused[0]).encode())
            raise refused[1]

    def enter(self, size: int) -> None:
        """What befalls the start of an all-reduce of ``size`` bytes: nothing, or no return."""
        if size >= CONNECTING and hangs(self.cards, self.mine, COLLECTIVE):
            hang()

    def spoils(self, size: int) -> bool:
        """Whether the sum of this all-reduce of ``size`` bytes comes out wrong; to be asked once for each."""
        round_ = self._rounds[size] = self._rounds.get(size, 0) + 1
        fault = _kind(self.mine, "wrong")
        return bool(
            fault and size >= fault["min_bytes"] and (round_ - 1) % fault["of"][1] + 1 in fault["rounds"]
        )

    def factor(self) -> float:
        """At which factor of its speed the own card takes part."""
        return factor(self.cards, self.mine)


class Pace:
    """How long collectives of one kind take in this process, and the delay of a slow card that would show."""

    def __init__(self) -> None:
        self._seen: dict[Any, list[float]] = {}

    def delay(self, kind: object, seconds: float, factor: float) -> float:
        """What to add so that ``seconds`` become ``seconds / factor``; 0 where it would drown in the spread.

        The first two of a kind, which klops takes for warming up, are never delayed: they are measured.
        """
        wanted, seen = seconds / factor - seconds, self._seen.get(kind, [])
        return wanted if len(seen) > 1 and wanted >= CLEAR * spread(seen) else 0.0

    def note(self, kind: object, seconds: float) -> None:
        """One took so long, delay taken off."""
        self._seen[kind] = [*self._seen.get(kind, [])[1 - _REMEMBERED :], seconds]


def spread(values: list[float]) -> float:
    """Median absolute deviation."""
    middle = _median(values)
    return _median([abs(value - middle) for value in values])


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
