#!/usr/bin/env python3
"""A stand-in for ``xpu-smi``: the cards of a rehearsal host in the tool's own words.

``-m``, ``-q``, ``-i N -q`` (N an index or a PCI address), ``-L``, ``topo -m`` and the table. Which cards
there are it reads from ``cards.json`` in the folder above its own. The memory column follows the processes
that hold a card's node open, matched by device number; a file ``memory.json`` beside this one, index to MiB,
says what a driver keeps in use though nobody holds the card. It opens no node itself.

One file, Python 3.8, standard library only, as it is copied into the rehearsal host's folder. It is run
often: so it imports little, neither argparse nor pathlib.
"""
# pathlib costs more than all the rest, see above:
# ruff: noqa: PTH100, PTH116, PTH118, PTH120, PTH123, PTH208

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from typing import Any

TOTAL_MIB, HELD_MIB = 98304, 90000
DRIVER, RUNTIME, FIRMWARE = "5.0.21.47", "5.0.21", "1.0:2.6:1.39.1.7"
#: the same firmware as -q names its parts
FIRMWARE_PARTS = (("PBL", "1.0"), ("PCIE", "2.6"), ("SBL", "1.39"), ("ALL", "1.0.2.6.1.39"), ("CPLD", "1.7"))
#: XPULink neighbours outside a card's own four, as far as topo shows them (klops field notes, topo -m)
CROSS = {(0, 4), (1, 5), (2, 6), (3, 7)}


class Card:
    """One card of cards.json with what holds it now."""

    def __init__(self, entry: dict[str, Any], minor: int, pids: list[int], kept: int) -> None:
        self.index: int = entry["index"]
        self.bdf: str = entry["bdf"]
        self.uuid: str = entry["uuid"]
        self.serial: str = entry["serial"]
        self.minor = minor
        self.pids = pids
        self.used = max(HELD_MIB if pids else 0, kept)
        self.power = 92 if pids else 86


def read_json(path: str) -> dict[str, Any]:
    """A JSON file; {} when it isn't there or is being replaced."""
    with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
        found = json.load(file)
        if isinstance(found, dict):
            return found
    return {}


def holders() -> dict[tuple[int, int], list[int]]:
    """Pids by the (major, minor) of the character devices they have open, of all processes in sight."""
    found: dict[tuple[int, int], list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # it ended meanwhile, or isn't ours to look into
            for fd in os.listdir(f"/proc/{name}/fd"):
                number = device_number(f"/proc/{name}/fd/{fd}")
                if number and int(name) not in found.setdefault(number, []):
                    found[number].append(int(name))
    return found


def device_number(path: str) -> tuple[int, int] | None:
    """(major, minor) of a character device behind ``path``; None for anything else or gone."""
    with contextlib.suppress(OSError):
        entry = os.stat(path)
        if entry.st_rdev and entry.st_mode & 0o170000 == 0o020000:
            return os.major(entry.st_rdev), os.minor(entry.st_rdev)
    return None


def cards() -> list[Card]:
    """The cards the driver still sees, by index: the "dead" are missing, "renumber" moves minors."""
    beside = os.path.dirname(os.path.abspath(__file__))
    host = read_json(os.path.join(os.path.dirname(beside), "cards.json"))
    kept = read_json(os.path.join(beside, "memory.json"))
    faults = read_json(host.get("faults", ""))
    dead = {entry["card"] for entry in faults.get("cards", []) if entry["kind"] == "dead"}
    key = "renumbered_minor" if faults.get("renumber") else "minor"
    major, first = host["numbers"]
    held = holders()
    return [
        Card(
            entry,
            entry[key],
            sorted(held.get((major, first + entry[key]), [])),
            int(kept.get(str(entry["index"]), 0)),
        )
        for entry in host["cards"]
        if entry["index"] not in dead
    ]


def machine_readable(found: list[Card]) -> str:
    """``-m``: 32 columns a card."""
    return "".join(
        f"{c.bdf} {c.index} {c.index} {c.serial} 36 0 38 0 {c.power} 1450 1450 1450 1450 1450 1450 0 96 "
        f'{c.used} {TOTAL_MIB} 0 {FIRMWARE} "P800 OAM" 0 0 0 0 0 0 0 0 0 0\n'
        for c in found
    )


def pair(level: int, name: str, value: object = "") -> str:
    """One line of ``-q``: indented by level, the colon in column 43."""
    text = "    " * level + name
    return f"{text:<42}: {value}\n" if value != "" else f"{text}\n"


def query(found: list[Card], attached: int) -> str:
    """``-q``: the long form."""
    now = time.strftime("%a %b %e %H:%M:%S %Y")
    out = "\n==============XPUSMI LOG==============\n\n"
    out += pair(0, "Timestamp", now) + pair(0, "Driver Version", DRIVER) + pair(0, "XPU-RT Version", RUNTIME)
    out += "\n" + pair(0, "Attached XPUs", attached)
    return out + "".join(card_report(card) for card in found)


def card_report(c: Card) -> str:
    """One card's block of ``-q``."""
    domain, bus, rest = c.bdf.split(":")
    out = f"XPU {c.bdf}\n"
    for name, value in (
        ("Product Name", "P800 OAM"),
        ("Product Brand", "KUNLUNXIN"),
        ("Product Architecture", "KL3"),
        ("Serial Number", c.serial),
        ("XPU UUID", c.uuid),
        ("Minor Number", c.minor),
        ("XPU Part Number", "B00100300110211"),
    ):
        out += pair(1, name, value)
    out += pair(1, "Firmware Version")
    out += "".join(pair(2, f"{part} Version", version) for part, version in FIRMWARE_PARTS)
    out += pair(1, "PCI") + pair(2, "Bus", f"0x{bus}") + pair(2, "Device", f"0x{rest[:2]}")
    out += pair(2, "Function", f"0x{rest[3:]}") + pair(2, "Domain", f"0x{domain[-4:]}")
    out += pair(2, "Device Id", "0x36852057") + pair(2, "Bus Id", c.bdf)
    out += pair(2, "XPU Link Info")
    for name, best in (("PCIe Generation", "4"), ("Link Width", "16x")):
        out += pair(3, name) + pair(4, "Max", best) + pair(4, "Current", best)
    for name, total, used in (("Memory Usage", TOTAL_MIB, c.used), ("L3 Usage", 96, 0)):
        out += pair(1, name) + pair(2, "Total", f"{total} MiB") + pair(2, "Reserved", "0 MiB")
        out += pair(2, "Used", f"{used} MiB") + pair(2, "Free", f"{total - used} MiB")
    out += pair(1, "Utilization") + pair(2, "Xpu", "0 %")
    out += pair(1, "Ecc Mode") + pair(2, "Current", "Enabled") + pair(2, "Pending", "Enabled")
    out += pair(1, "ECC Errors")
    for name in ("Volatile", "Aggregate"):
        out += pair(2, name) + pair(3, "DRAM Correctable", 0) + pair(3, "DRAM Uncorrectable", 0)
    out += pair(1, "Temperature") + pair(2, "XPU Current Temp", "36 C")
    out += pair(1, "Power Readings") + pair(2, "Enforced Power Limit", "400.00 W")
    out += pair(2, "Power Draw", f"{c.power}.00 W")
    if not c.pids:
        return out + pair(1, "Processes", "None")
    return out + pair(1, "Processes") + "".join(pair(2, "Process ID", pid) for pid in c.pids)


def topology(found: list[Card]) -> str:
    """``topo -m``: XPULink within each four, and across to the opposite card."""
    out = "     " + "".join(f"{'XPU' + str(c.index):<5}" for c in found) + "CPU Affinity NUMA Affinity\n"
    for a in found:
        row = f"XPU{a.index} "
        for b in found:
            near = a.index // 4 == b.index // 4 or (min(a.index, b.index), max(a.index, b.index)) in CROSS
            row += f"{'X' if a is b else 'XL' if near else 'SYS':<5}"
        node = a.index // 4
        out += f"{row}{('0-51,104-155', '52-103,156-207')[node]} {node}\n"
    return out + "\nLegend:\n  X = Self\n"


def table(found: list[Card]) -> str:
    """The table that the tool prints when nothing is asked for."""
    line = "+" + "-" * 77 + "+\n"
    rule = "+" + "-" * 31 + "+" + "-" * 22 + "+" + "-" * 22 + "+\n"
    out = time.strftime("%a %b %e %H:%M:%S %Y") + "\n" + line
    out += f"| {f'XPU-SMI               Driver Version: {DRIVER}    XPU-RT Version: {RUNTIME}':<76}|\n" + rule
    for c in found:
        out += f"| {c.index:>3}  {'P800 OAM':<18}{'N/A':<7}|{c.bdf + ' N/A':>21} |{0:>21} |\n"
        memory = f"{c.used}MiB / {TOTAL_MIB}MiB"
        out += (
            f"| N/A   36C  N/A  {f'{c.power}W / 400W':>12}  |{memory:>21} |{'0%      Default':>21} |\n" + rule
        )
    out += "\n" + line + f"| {'Processes:':<76}|\n"
    rows = [
        f"|{c.index:>5}   N/A  N/A {pid:>10}      C   {'-':<30}{c.used}MiB |\n"
        for c in found
        for pid in c.pids
    ]
    return out + ("".join(rows) or f"|  {'No running processes found':<75}|\n") + line


def main(argv: list[str]) -> int:
    """Answer one question; 0, or 1 with the reason on standard error."""
    found = cards()
    chosen, rest = found, list(argv)
    for i, word in enumerate(argv):
        wanted = ""
        if word in ("-i", "--id") and i + 1 < len(argv):
            wanted, rest = argv[i + 1], argv[:i] + argv[i + 2 :]
        elif word.startswith("--id="):
            wanted, rest = word[5:], argv[:i] + argv[i + 1 :]
        if wanted:
            chosen = [c for c in found if wanted.lower() in (str(c.index), c.bdf.lower())]
            if not chosen:
                sys.stderr.write(f"No XPU with id {wanted}\n")
                return 1
    forms = {
        (): table(chosen),
        ("-m",): machine_readable(chosen),
        ("-q",): query(chosen, len(found)),
        ("-L",): "".join(f"XPU {c.index}: P800 OAM (UUID: {c.uuid})\n" for c in chosen),
        ("topo", "-m"): topology(found),
    }
    text = forms.get(tuple(rest))
    if text is None:
        sys.stderr.write(f"Invalid combination of input arguments: {' '.join(argv)}\n")
        return 1
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
