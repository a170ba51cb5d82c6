"""Facts: the virtual machine or container that a host is. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from klops.commands.factscript import Files, first_line

#: what DMI says of the vendor or product -> the kind of machine that is made up
_MACHINES = (
    ("product_name", ("KVM", "KVM Server", "Bochs", "AHV"), "kvm"),
    ("product_name", ("OpenStack Compute", "OpenStack Nova"), "openstack"),
    ("bios_vendor", ("Xen",), "xen"),
    ("bios_vendor", ("innotek GmbH",), "virtualbox"),
    ("bios_vendor", ("Amazon EC2", "DigitalOcean", "Hetzner", "Linode"), "kvm"),
    ("sys_vendor", ("QEMU", "Amazon EC2", "DigitalOcean", "Google", "Scaleway", "Nutanix"), "kvm"),
    ("sys_vendor", ("Microsoft Corporation",), "VirtualPC"),
    ("sys_vendor", ("OpenStack Foundation",), "openstack"),
)
_CONTAINERS = ("docker", "lxc", "podman", "openvz", "containerd")


def virtualization(said: Mapping[str, str], read: Files, paths: frozenset[str]) -> dict[str, Any]:
    """What the host is a guest of, or a host for."""
    guest = _guest(said, read, paths)
    modules = [line.split()[0] for line in said.get("modules", "").splitlines() if line]
    host = ["kvm"] if "kvm" in modules or "/dev/kvm" in paths else []
    host += ["virtualbox"] if "vboxdrv" in modules else []
    if any("control_d" in line for line in read.get("/proc/xen/capabilities", [])):
        host.insert(0, "xen")
    if set(guest) & set(_CONTAINERS):
        guest = [*guest, "container"]
    named = guest[0] if guest else host[0] if host else "NA"
    return {
        "virtualization_type": named,
        "virtualization_role": "guest" if guest else "host" if host else "NA",
        "virtualization_tech_guest": sorted(set(guest)),
        "virtualization_tech_host": sorted(set(host)),
    }


def _guest(said: Mapping[str, str], read: Files, paths: frozenset[str]) -> list[str]:
    """What the host is a guest of, the innermost first."""
    found = []
    for line in read.get("/proc/1/cgroup", []):
        if re.search(r"/docker(/|-[0-9a-f]+\.scope)", line):
            found.append("docker")
        if re.search(r"/lxc/|/machine\.slice/machine-lxc", line):
            found.append("lxc")
        if "/system.slice/containerd.service" in line:
            found.append("containerd")
    name = said.get("container", "").partition("=")[2].splitlines()
    if name:
        found.append(name[0] if name[0] in ("lxc", "podman") else "container")
    if "/proc/vz" in paths and not {"/proc/lve", "/proc/bc"} & paths:
        found.append("openvz")
    if first_line(read, "/run/systemd/container"):
        found.append(first_line(read, "/run/systemd/container"))
    if {"/.dockerenv", "/.dockerinit"} & paths:
        found.append("docker")
    if "/proc/xen" in paths and not any("control_d" in x for x in read.get("/proc/xen/capabilities", [])):
        found.append("xen")
    for key, values, kind in _MACHINES:
        if first_line(read, f"/sys/class/dmi/id/{key}") in values:
            found.append(kind)
    if first_line(read, "/sys/class/dmi/id/product_name").startswith("VMware"):
        found.append("VMware")
    if re.search(r"^model name.*QEMU Virtual CPU", said.get("cpu", ""), re.MULTILINE):
        found.append("kvm")
    return found
