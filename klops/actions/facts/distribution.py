"""Facts: the distribution, and what manages its packages and services. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from klops.commands.factscript import Files, assignments, first_line

#: ID of os-release -> the name Ansible has for the distribution, and its family
_DISTRIBUTIONS = {
    "almalinux": ("AlmaLinux", "RedHat"),
    "alpine": ("Alpine", "Alpine"),
    "amzn": ("Amazon", "RedHat"),
    "arch": ("Archlinux", "Archlinux"),
    "centos": ("CentOS", "RedHat"),
    "debian": ("Debian", "Debian"),
    "deepin": ("Deepin", "Debian"),
    "fedora": ("Fedora", "RedHat"),
    "gentoo": ("Gentoo", "Gentoo"),
    "kali": ("Kali", "Debian"),
    "kylin": ("Kylin Linux Advanced Server", "RedHat"),
    "linuxmint": ("Linux Mint", "Debian"),
    "ol": ("OracleLinux", "RedHat"),
    "openEuler": ("openEuler", "RedHat"),
    "opensuse-leap": ("openSUSE Leap", "Suse"),
    "opensuse-tumbleweed": ("openSUSE Tumbleweed", "Suse"),
    "raspbian": ("Raspbian", "Debian"),
    "rhel": ("RedHat", "RedHat"),
    "rocky": ("Rocky", "RedHat"),
    "sles": ("SLES", "Suse"),
    "tencentos": ("TencentOS", "RedHat"),
    "ubuntu": ("Ubuntu", "Debian"),
    "uos": ("Uos", "Debian"),
}
_FAMILIES = {"debian": "Debian", "rhel": "RedHat", "fedora": "RedHat", "centos": "RedHat", "suse": "Suse"}
#: a package manager's path -> its name; the last one that is there counts
_PACKAGES = {
    "/usr/bin/rpm-ostree": "atomic_container",
    "/usr/bin/yum": "dnf",
    "/usr/bin/dnf-3": "dnf",
    "/usr/bin/dnf5": "dnf5",
    "/usr/bin/apt-get": "apt",
    "/usr/bin/zypper": "zypper",
    "/usr/bin/pacman": "pacman",
    "/bin/opkg": "opkg",
    "/sbin/apk": "apk",
    "/usr/bin/emerge": "portage",
    "/usr/bin/xbps-install": "xbps",
}
_INITS = {"procd": "openwrt_init", "runit-init": "runit", "svscan": "svc", "openrc-init": "openrc"}


def distribution(text: str, read: Files) -> dict[str, Any]:
    """What os-release (``text``) and the distribution's own files say."""
    release = assignments(text.splitlines())
    known = _DISTRIBUTIONS.get(release.get("ID", ""))
    like = release.get("ID_LIKE", "").split()
    name = known[0] if known else release.get("NAME", "") or "Linux"
    family = known[1] if known else next((_FAMILIES[one] for one in like if one in _FAMILIES), name)
    version = release.get("VERSION_ID", "")
    exact = _exact_version(read)
    if exact == version or exact.startswith(f"{version}."):
        version = exact
    codename = release.get("VERSION_CODENAME", "") or _in_brackets(release.get("VERSION", ""))
    if "Stream" in release.get("NAME", ""):
        codename = "Stream"
    parts = version.split(".")
    found: dict[str, Any] = {
        "distribution": name,
        "os_family": family,
        "distribution_version": version or "NA",
        "distribution_major_version": parts[0] or "NA",
        "distribution_release": codename or "NA",
        "distribution_file_parsed": bool(release),
        "distribution_file_path": "/etc/os-release",
        "distribution_file_variety": name if known and family != "RedHat" else family,
        "lsb": _lsb(release, read, name),
    }
    if len(parts) > 1 and name == "Debian":
        found["distribution_minor_version"] = parts[1]
    return found


def _exact_version(read: Files) -> str:
    """The version that a distribution's own file has, with its minor number."""
    for path in ("/etc/debian_version", "/etc/alpine-release"):
        if re.fullmatch(r"[\d.]+", first_line(read, path)):
            return first_line(read, path)
    for path in ("/etc/centos-release", "/etc/redhat-release"):
        match = re.search(r"release ([\d.]+)", first_line(read, path))
        if match:
            return match[1]
    return ""


def _in_brackets(text: str) -> str:
    match = re.search(r"\(([^)]*)\)", text)
    return match[1] if match else ""


def _lsb(release: Mapping[str, str], read: Files, name: str) -> dict[str, str]:
    lsb = assignments(read.get("/etc/lsb-release", []))
    number = lsb.get("DISTRIB_RELEASE", "") or release.get("VERSION_ID", "")
    codename = lsb.get("DISTRIB_CODENAME", "") or release.get("VERSION_CODENAME", "")
    if not codename:
        return {}
    return {
        "id": lsb.get("DISTRIB_ID", "") or name,
        "release": number,
        "description": lsb.get("DISTRIB_DESCRIPTION", "") or release.get("PRETTY_NAME", ""),
        "codename": codename,
        "major_release": number.partition(".")[0],
    }


def packages(paths: frozenset[str], family: str, links: str) -> str:
    """The package manager, from the paths that are there; ``links`` are lines of ``ls -l``."""
    found = [name for path, name in _PACKAGES.items() if path in paths]
    if family == "Debian":
        return "apt"
    if family == "RedHat":
        if "/run/ostree-booted" in paths:
            return "atomic_container"
        if not {"/usr/bin/dnf", "/usr/bin/microdnf"} & paths:
            # older ones only have yum
            return found[-1] if found else "unknown"
        return "dnf5" if re.search(r"/usr/bin/dnf -> \S*dnf5$", links, re.MULTILINE) else "dnf"
    return found[-1] if found else "unknown"


def services(first: str, paths: frozenset[str], links: str) -> str:
    """What runs services; ``first`` is the name of process 1."""
    name = first.rpartition("/")[2]
    if name and name != "init" and not name.endswith("sh"):
        return _INITS.get(name, name)
    has_systemctl = any(path.endswith("/systemctl") for path in paths)
    if has_systemctl and "/run/systemd/system" in paths:
        return "systemd"
    if "/sbin/openrc" in paths:
        return "openrc"
    if has_systemctl and re.search(r"/sbin/init -> \S*systemd$", links, re.MULTILINE):
        return "systemd"
    if "/etc/init.d" in paths:
        return "sysvinit"
    return "dinit" if "/etc/dinit.d" in paths else "service"
