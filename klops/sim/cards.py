"""Cards of a rehearsal host: device nodes that can be opened and told apart, and identities that stay.

The nodes are character devices with the numbers of virtual consoles (tty, and vcs when those run out): there
on any Linux, free for anyone to open, also in a container, and one number a card, so that a holder is matched
by device number as on a real host. Nothing is ever written to them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from klops.errors import UsageError
from klops.sim import xpu_smi

CARDS = 8
#: smi index -> minor: unequal as on real hosts, where 1 -> 2, 4 -> 4 and 6 -> 5 was seen; within each four
MINORS = (3, 2, 1, 0, 4, 7, 5, 6)
#: the same after the fault "renumber", as a BIOS update or a new kernel does it
RENUMBERED = (1, 0, 3, 2, 5, 4, 7, 6)
#: PCI buses as on published hosts, in the tool's upper case
BUSES = ("52", "55", "63", "66", "9A", "9B", "AA", "AB")
_TTY, _VCS = 4, 7
#: First minor of nine: eight cards and xpuctrl. The consoles 1 to 9 are left to people, 64 and up are serial.
_FIRSTS = (20, 29, 38, 47, 10)
#: Who uses which numbers on this machine: one file a block, its content the rehearsal's folder.
CLAIMS = Path("/run/klops-sim")


@dataclass(frozen=True)
class Numbers:
    """Device numbers of one host: card n has minor ``first + n``, xpuctrl ``first + 8``.

    ``slot`` counts the hosts of this machine, over all rehearsals, from 0.
    """

    major: int
    first: int
    slot: int = 0


_PAIRS = (
    *((_TTY, first) for first in _FIRSTS),
    *((_VCS, offset + first) for offset in (0, 64, 128) for first in _FIRSTS),
)
#: Blocks of numbers, and so hosts of all rehearsals of this machine together.
MOST = len(_PAIRS)


def free() -> int:
    """How many hosts more there are numbers for just now."""
    held = held_numbers()
    return sum(not _taken(*pair) and not _in_use(*pair, held) for pair in _PAIRS)


def claim(directory: Path) -> Numbers:
    """A block of numbers that no other rehearsal on this machine uses, and no process has open: it would be
    taken for a holder of the cards. :class:`UsageError` when there is none."""
    with _alone():
        held = held_numbers()
        for slot, (major, first) in enumerate(_PAIRS):
            if not _taken(major, first) and not _in_use(major, first, held):
                # one that is there is left by a rehearsal that is gone
                _claim_of(major, first).write_text(str(directory), encoding="utf-8")
                return Numbers(major, first, slot)
    raise no_room(0)


def no_room(left: int) -> UsageError:
    """The error for more hosts than there are numbers left for."""
    taken = f"all {MOST}" if not left else f"all but {left} of {MOST}"
    return UsageError(
        f"{taken} rehearsal hosts that fit on one machine are in use",
        hint=f"{CLAIMS} names their folders: end those no longer needed with `klops demo --stop DIR`; "
        "a console that a process has open (fuser /dev/tty*) is left to it",
    )


def _claim_of(major: int, first: int) -> Path:
    return CLAIMS / f"{major}-{first}"


def _taken(major: int, first: int) -> bool:
    """Whether a block is claimed by a rehearsal which still is there."""
    try:
        claim = _claim_of(major, first).read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return (Path(claim) / "rehearsal.json").exists()


def held_numbers() -> Collection[tuple[int, int]]:
    """Device numbers that some process of this machine has open."""
    return xpu_smi.holders().keys()


def _in_use(major: int, first: int, held: Collection[tuple[int, int]]) -> bool:
    return any((major, minor) in held for minor in range(first, first + CARDS + 1))


def release(directory: Path) -> None:
    """Give all numbers of this rehearsal back."""
    with _alone():
        for path in CLAIMS.glob("*-*"):
            if path.read_text(encoding="utf-8") == str(directory):
                path.unlink()


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Nobody else claims or releases numbers meanwhile: to see that a block is free and to take it are two
    things, and in between another would take it as well."""
    CLAIMS.mkdir(exist_ok=True)
    with (CLAIMS / "lock").open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def describe(host: str, salt: str, numbers: Numbers, faults: Path) -> dict[str, Any]:
    """What cards.json of a host says: made up from ``host`` and ``salt``, the same at every call."""
    cards = []
    for index, (minor, renumbered, bus) in enumerate(zip(MINORS, RENUMBERED, BUSES, strict=True)):
        mark = hashlib.sha256(f"{salt} {host} {index}".encode()).hexdigest()
        cards.append(
            {
                "index": index,
                "minor": minor,
                "renumbered_minor": renumbered,
                "bdf": f"00000000:{bus}:00.0",
                "uuid": f"GPU-{mark[:8]}-{mark[8:12]}-{mark[12:16]}-{mark[16:20]}-{mark[20:32]}",
                "serial": f"SIM{mark[32:44].upper()}",
            }
        )
    return {"schema": 1, "numbers": [numbers.major, numbers.first], "faults": str(faults), "cards": cards}


def make_nodes(device_dir: Path, numbers: Numbers, faults: Mapping[str, Any]) -> None:
    """Make xpu0 ... xpu7 and xpuctrl anew, as the faults of cards have it.

    ``node-missing``: no node. ``dead``: a node without a driver behind it (ENXIO). ``open-eperm``: a node
    that opens on the host and not in a container (EPERM). A running container keeps the nodes it has.
    """
    device_dir.mkdir(parents=True, exist_ok=True)
    minor_of = RENUMBERED if faults.get("renumber") else MINORS
    kinds = {minor_of[entry["card"]]: entry["kind"] for entry in faults.get("cards", [])}
    for minor in range(CARDS):
        number = os.makedev(numbers.major, numbers.first + minor)
        kind = kinds.get(minor)
        if kind == "dead":
            number = os.makedev(_unclaimed_major(), minor)
        elif kind == "open-eperm":
            number = _privileged()
        _node(device_dir / f"xpu{minor}", None if kind == "node-missing" else number)
    _node(device_dir / "xpuctrl", os.makedev(numbers.major, numbers.first + CARDS))
    if numbers.major == _VCS:  # these open only once their console exists
        for minor in range(numbers.first, numbers.first + CARDS + 1):
            _have_console(device_dir, minor % 64)


def write_description(path: Path, description: Mapping[str, Any]) -> None:
    """Write cards.json."""
    path.write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")


def _node(path: Path, number: int | None) -> None:
    """Make ``path`` a character device of this number, or nothing; one that fits is left alone."""
    with contextlib.suppress(FileNotFoundError):
        if path.lstat().st_rdev == number:
            return
        path.unlink()
    if number is not None:
        os.mknod(path, 0o020666, number)
        path.chmod(0o666)  # whatever the umask


def _have_console(device_dir: Path, minor: int) -> None:
    """Opening a console makes it, for as long as the machine runs.

    Not again: another host may have its number for a card, and would see it held at that moment.
    """
    if Path(f"/sys/class/vc/vcs{minor}").exists():
        return
    path = device_dir / f".console{minor}"
    _node(path, os.makedev(_TTY, minor))
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NOCTTY))
    finally:
        path.unlink()


def _unclaimed_major() -> int:
    """A major number for local use (Linux: 60-63, 120-127) that no driver has taken."""
    listed, _, _ = Path("/proc/devices").read_text(encoding="ascii").partition("Block devices")
    taken = {int(line.split()[0]) for line in listed.splitlines() if line[:3].strip().isdigit()}
    free: list[int] = [major for major in (60, 61, 62, 63, *range(120, 128)) if major not in taken]
    return free[0]


def _privileged() -> int:
    """A device that only root of the host may open, not of a container: the kernel log, or the I/O ports."""
    restricted = Path("/proc/sys/kernel/dmesg_restrict").read_text(encoding="ascii").strip() == "1"
    return os.makedev(1, 11) if restricted else os.makedev(1, 4)
