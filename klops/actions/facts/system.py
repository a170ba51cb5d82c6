"""Facts: names, user, time, environment and what else is of the system as a whole. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from klops.actions.facts.distribution import distribution, packages, services
from klops.actions.facts.virtual import virtualization
from klops.commands.factscript import Files, assignments, first_line

NAMES = frozenset(
    {
        "apparmor", "architecture", "cmdline", "date_time", "distribution", "distribution_file_parsed",
        "distribution_file_path", "distribution_file_variety", "distribution_major_version",
        "distribution_minor_version", "distribution_release", "distribution_version", "dns", "domain",
        "effective_group_id", "effective_user_id", "env", "fips", "fqdn", "hostname", "is_chroot", "kernel",
        "kernel_version", "loadavg", "local", "lsb", "machine", "machine_id", "nodename", "os_family",
        "pkg_mgr", "proc_cmdline", "real_group_id", "real_user_id", "selinux", "service_mgr",
        "ssh_host_key_dsa_public", "ssh_host_key_dsa_public_keytype", "ssh_host_key_ecdsa_public",
        "ssh_host_key_ecdsa_public_keytype", "ssh_host_key_ed25519_public",
        "ssh_host_key_ed25519_public_keytype", "ssh_host_key_rsa_public", "ssh_host_key_rsa_public_keytype",
        "system", "uptime_seconds", "user_dir", "user_gecos", "user_gid", "user_id", "user_shell",
        "user_uid", "userspace_architecture", "userspace_bits", "virtualization_role",
        "virtualization_tech_guest", "virtualization_tech_host", "virtualization_type",
    }
)  # fmt: skip


def facts(said: Mapping[str, str], read: Files) -> dict[str, Any]:
    """What the sections and files say of the system."""
    paths = frozenset(said.get("paths", "").splitlines())
    release = distribution(said.get("os", ""), read)
    uname = said.get("uname", "").splitlines() or [""]
    system, node, kernel, machine = (uname[0].split() + [""] * 4)[:4]
    fqdn = said.get("fqdn", "") or node
    found: dict[str, Any] = {
        "system": system,
        "nodename": node,
        "hostname": node.partition(".")[0],
        "fqdn": fqdn,
        "domain": fqdn.partition(".")[2],
        "kernel": kernel,
        "kernel_version": uname[1] if len(uname) > 1 else "",
        "machine": machine,
        "architecture": "i386" if re.fullmatch(r"i[3456]86", machine) else machine,
        "userspace_bits": _bits(said.get("bits", "")),
        "machine_id": first_line(read, "/etc/machine-id") or first_line(read, "/var/lib/dbus/machine-id"),
        "is_chroot": said.get("chroot") == "yes",
        "fips": first_line(read, "/proc/sys/crypto/fips_enabled") == "1",
        "apparmor": {"status": "enabled" if "/sys/kernel/security/apparmor" in paths else "disabled"},
        "local": {},
        "pkg_mgr": packages(paths, release["os_family"], said.get("links", "")),
        "service_mgr": services(first_line(read, "/proc/1/comm"), paths, said.get("links", "")),
        "date_time": _time(said.get("date", "")),
        "env": _environment(said.get("env", "")),
        "dns": _dns(read.get("/etc/resolv.conf", [])),
        **release,
        **_user(said),
        **_selinux(read),
        **virtualization(said, read, paths),
        **_host_keys(read),
    }
    found["userspace_architecture"] = _userspace(found["architecture"], found["userspace_bits"])
    uptime = first_line(read, "/proc/uptime").partition(".")[0]
    if uptime:
        found["uptime_seconds"] = int(uptime)
    load = first_line(read, "/proc/loadavg").split()
    if len(load) >= 3:
        found["loadavg"] = dict(zip(("1m", "5m", "15m"), map(float, load), strict=False))
    options = first_line(read, "/proc/cmdline").split()
    found["cmdline"] = dict(map(_option, options))
    found["proc_cmdline"] = _all_options(options)
    return found


def _bits(said: str) -> str:
    # of a program's header: 127 E L F and 1 or 2 for 32 or 64 bits
    return {"1": "32", "2": "64"}.get(said.split()[-1], said.split()[0]) if said.split() else ""


def _userspace(architecture: str, bits: str) -> str:
    if architecture == "x86_64":
        return "i386" if bits == "32" else "x86_64"
    return architecture


def _user(said: Mapping[str, str]) -> dict[str, Any]:
    numbers = dict(re.findall(r"(\w+)=(\d+)", said.get("id", "")))
    uid, gid = int(numbers.get("uid", -1)), int(numbers.get("gid", -1))
    entry = (said.get("passwd", "").splitlines() or [""])[0].split(":")
    name = re.match(r"uid=\d+\(([^)]*)\)", said.get("id", ""))
    found: dict[str, Any] = {
        "user_id": entry[0] or (name[1] if name else str(uid)),
        "user_uid": uid,
        "user_gid": gid,
        "real_user_id": uid,
        "real_group_id": gid,
        "effective_user_id": int(numbers.get("euid", uid)),
        "effective_group_id": int(numbers.get("egid", gid)),
    }
    if len(entry) == 7:
        found.update(user_gecos=entry[4], user_dir=entry[5], user_shell=entry[6])
    return found


def _time(said: str) -> dict[str, str]:
    epoch, local, offset, zone = (said.split() + [""] * 4)[:4]
    if not epoch.isdecimal():
        return {}
    here = datetime.strptime(local, "%Y-%m-%dT%H:%M:%S")  # noqa: DTZ007 - the host's own clock, as it shows it
    utc = datetime.fromtimestamp(int(epoch), timezone.utc)
    names = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    return {
        "year": f"{here:%Y}",
        "month": f"{here:%m}",
        "day": f"{here:%d}",
        "hour": f"{here:%H}",
        "minute": f"{here:%M}",
        "second": f"{here:%S}",
        # in English whatever the language here
        "weekday": names[here.weekday()],
        "weekday_number": f"{here:%w}",
        "weeknumber": f"{here:%W}",
        "epoch": epoch,
        "epoch_int": epoch,
        "date": f"{here:%Y-%m-%d}",
        "time": f"{here:%H:%M:%S}",
        # date has no parts of a second on every host
        "iso8601": f"{utc:%Y-%m-%dT%H:%M:%SZ}",
        "iso8601_micro": f"{utc:%Y-%m-%dT%H:%M:%S.%fZ}",
        "iso8601_basic": f"{here:%Y%m%dT%H%M%S%f}",
        "iso8601_basic_short": f"{here:%Y%m%dT%H%M%S}",
        "tz": zone,
        "tz_dst": zone,
        "tz_offset": offset,
    }


def _environment(said: str) -> dict[str, str]:
    found = {}
    for line in said.split("\n"):
        key, equals, value = line.partition("=")
        if equals:
            found[key] = value.replace("\x01", "\n")
    return found


def _option(word: str) -> tuple[str, Any]:
    key, equals, value = word.partition("=")
    return key, value if equals else True


def _all_options(words: list[str]) -> dict[str, Any]:
    """As ``cmdline``; a list where an option is given several times."""
    found: dict[str, Any] = {}
    for key, value in map(_option, words):
        if key not in found:
            found[key] = value
        elif isinstance(value, str):
            before = found[key]
            found[key] = [*(before if isinstance(before, list) else [before]), value]
    return found


def _dns(lines: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in lines:
        words = line.split()
        if len(words) < 2 or words[0].startswith(("#", ";")):
            continue
        if words[0] == "nameserver":
            found.setdefault("nameservers", []).append(words[1])
        elif words[0] == "domain":
            found["domain"] = words[1]
        elif words[0] in ("search", "sortlist"):
            found[words[0]] = words[1:]
        elif words[0] == "options":
            pairs = (word.partition(":") for word in words[1:])
            found["options"] = {key: value if colon else True for key, colon, value in pairs}
    return found


def _selinux(read: Files) -> dict[str, Any]:
    enforce = first_line(read, "/sys/fs/selinux/enforce")
    if not enforce:
        return {"selinux": {"status": "disabled"}}
    config = assignments(read.get("/etc/selinux/config", []))
    return {
        "selinux": {
            "status": "enabled",
            "mode": "enforcing" if enforce == "1" else "permissive",
            "config_mode": config.get("SELINUX", "unknown"),
            "type": config.get("SELINUXTYPE", "unknown"),
            "policyvers": int(first_line(read, "/sys/fs/selinux/policyvers") or 0) or "unknown",
        }
    }


def _host_keys(read: Files) -> dict[str, str]:
    found = {}
    for path in read:
        match = re.fullmatch(r"/etc/ssh/ssh_host_(\w+)_key\.pub", path)
        words = first_line(read, path).split()
        if match and len(words) >= 2:
            found[f"ssh_host_key_{match[1]}_public"] = words[1]
            found[f"ssh_host_key_{match[1]}_public_keytype"] = words[0]
    return found
