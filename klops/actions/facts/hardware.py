"""Facts: processors, memory, mounts, and what the firmware says. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from klops.commands.factscript import Files

#: fact -> file below /sys/class/dmi/id
_DMI = {
    "bios_date": "bios_date",
    "bios_vendor": "bios_vendor",
    "bios_version": "bios_version",
    "board_asset_tag": "board_asset_tag",
    "board_name": "board_name",
    "board_serial": "board_serial",
    "board_vendor": "board_vendor",
    "board_version": "board_version",
    "chassis_asset_tag": "chassis_asset_tag",
    "chassis_serial": "chassis_serial",
    "chassis_vendor": "chassis_vendor",
    "chassis_version": "chassis_version",
    "product_name": "product_name",
    "product_serial": "product_serial",
    "product_uuid": "product_uuid",
    "product_version": "product_version",
    "system_vendor": "sys_vendor",
}
NAMES = frozenset(
    {
        *_DMI,
        "flags", "memfree_mb", "memory_mb", "memtotal_mb", "mounts", "processor", "processor_cores",
        "processor_count", "processor_nproc", "processor_threads_per_core", "processor_vcpus",
        "swapfree_mb", "swaptotal_mb",
    }
)  # fmt: skip
_LISTED = ("processor", "Processor", "vendor_id", "Vendor", "model name", "cpu")


def facts(said: Mapping[str, str], read: Files, architecture: str) -> dict[str, Any]:
    """What the sections and files say of the machine."""
    firmware = {
        name: (read.get(f"/sys/class/dmi/id/{file}") or ["NA"])[0].strip() for name, file in _DMI.items()
    }
    return {
        **firmware,
        **_processors(said.get("cpu", ""), said.get("nproc", ""), architecture),
        **_memory(read.get("/proc/meminfo", [])),
        "mounts": _mounts(read, said.get("sizes", ""), said.get("links", "")),
    }


def _processors(text: str, nproc: str, architecture: str) -> dict[str, Any]:
    pairs = [
        (key.strip(), value.strip()) for key, _, value in (line.partition(":") for line in text.splitlines())
    ]
    if not pairs:
        return {}
    values: dict[str, list[str]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    found: dict[str, Any] = {"processor": [value for key, value in pairs if key in _LISTED]}
    if "flags" in values:
        found["flags"] = values["flags"][0].split()
    numbers = len(values.get("processor", ()))
    # of processors that name no sockets each counts for one, as in Ansible
    by_name = len(values.get("vendor_id", ())) == len(values.get("model name", ())) > 0
    counted = (
        numbers if by_name or architecture.startswith(("arm", "aarch", "ppc")) else len(found["processor"])
    )
    sockets = len(set(values.get("physical id", ())))
    cores = int(values["cpu cores"][0]) if values.get("cpu cores") else 1
    siblings = int(values["siblings"][0]) if values.get("siblings") else 1
    found["processor_count"] = sockets or counted
    found["processor_cores"] = cores
    found["processor_threads_per_core"] = round(siblings / cores)
    found["processor_vcpus"] = found["processor_count"] * cores * found["processor_threads_per_core"]
    found["processor_nproc"] = int(nproc) if nproc.isdecimal() else numbers
    return found


def _memory(lines: Sequence[str]) -> dict[str, Any]:
    mb: dict[str, int] = {}
    for line in lines:
        match = re.match(r"(\w+):\s+(\d+)", line)
        if match:
            mb[match[1]] = int(match[2]) // 1024
    if not {"MemTotal", "MemFree", "SwapTotal", "SwapFree"} <= mb.keys():
        return {}
    unused = mb["MemFree"] + mb.get("Cached", 0) + mb.get("Buffers", 0)
    return {
        "memtotal_mb": mb["MemTotal"],
        "memfree_mb": mb["MemFree"],
        "swaptotal_mb": mb["SwapTotal"],
        "swapfree_mb": mb["SwapFree"],
        "memory_mb": {
            "real": {"total": mb["MemTotal"], "free": mb["MemFree"], "used": mb["MemTotal"] - mb["MemFree"]},
            "nocache": {"free": unused, "used": mb["MemTotal"] - unused},
            "swap": {
                "total": mb["SwapTotal"],
                "free": mb["SwapFree"],
                "used": mb["SwapTotal"] - mb["SwapFree"],
                "cached": mb.get("SwapCached", 0),
            },
        },
    }


def _mounts(read: Files, sizes: str, links: str) -> list[dict[str, Any]]:
    """File systems on devices and of other machines; the latter without sizes, which could be waited for.

    Of several on one path it is the last that is seen there. One that shows only a folder of its file system
    has the option ``bind``, which the kernel doesn't list.
    """
    by_path = {
        match[7]: match for match in re.finditer(r"^(\d+) (\d+) (\d+) (\d+) (\d+) (\d+) (.+)$", sizes, re.M)
    }
    uuids = {
        match[2]: match[1] for match in re.finditer(r"/dev/disk/by-uuid/(\S+) -> .*/([^/\s]+)$", links, re.M)
    }
    whole = [line.split() for line in read.get("/proc/self/mountinfo", [])]
    bound = {_unescaped(fields[4]) for fields in whole if len(fields) > 4 and fields[3] != "/"}
    found: dict[str, dict[str, Any]] = {}
    for line in read.get("/proc/mounts", []):
        fields = [_unescaped(field) for field in line.split()]
        if len(fields) < 4:
            continue
        device, path, kind, options = fields[:4]
        if (not device.startswith("/") and ":/" not in device) or kind == "none":
            continue
        entry: dict[str, Any] = {
            "mount": path,
            "device": device,
            "fstype": kind,
            "options": f"{options},bind" if path in bound else options,
            "dump": int(fields[4]) if fields[4:5] else 0,
            "passno": int(fields[5]) if fields[5:6] else 0,
            "uuid": uuids.get(device.rpartition("/")[2], "N/A"),
        }
        size = by_path.get(path)
        if size:
            block, fragment, total, free, inodes, free_inodes = map(int, size.groups()[:6])
            entry.update(
                size_total=fragment * total,
                size_available=fragment * free,
                block_size=block,
                block_total=total,
                block_available=free,
                block_used=total - free,
                inode_total=inodes,
                inode_available=free_inodes,
                inode_used=inodes - free_inodes,
            )
        found[path] = entry
    return list(found.values())


def _unescaped(field: str) -> str:
    r"""``\040`` and the like are how the kernel writes spaces in names."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
