"""The script that reads what a host is: POSIX shell, /proc, /sys and a few programs any userland has.

Each section of what it says begins with a line of the control character RS and the section's name. Files are
read by one ``grep`` for all of them (``PATH:LINE``): forks are what such a script costs.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TypeAlias

#: Lines of files by path.
Files: TypeAlias = Mapping[str, Sequence[str]]
#: Begins the line that names a section.
MARK = "\x1e"

_FILES = """
/etc/debian_version /etc/redhat-release /etc/centos-release /etc/alpine-release /etc/lsb-release
/etc/machine-id /var/lib/dbus/machine-id
/etc/selinux/config /sys/fs/selinux/enforce /sys/fs/selinux/policyvers
/etc/resolv.conf /etc/ssh/ssh_host_*_key.pub /run/systemd/container
/proc/1/comm /proc/1/cgroup /proc/uptime /proc/loadavg /proc/cmdline /proc/mounts /proc/self/mountinfo
/proc/meminfo
/proc/self/mountinfo
/proc/sys/crypto/fips_enabled /proc/sys/kernel/version /proc/xen/capabilities /sys/class/dmi/id/*
/sys/class/net/*/address /sys/class/net/*/mtu /sys/class/net/*/operstate /sys/class/net/*/type
/sys/class/net/*/flags /sys/class/net/*/speed /sys/class/net/*/bonding/slaves /sys/class/net/*/bonding/mode
/sys/class/net/*/bridge/bridge_id /sys/class/net/*/bridge/stp_state
"""
_PATHS = """
/usr/bin/rpm-ostree /usr/bin/yum /usr/bin/dnf /usr/bin/dnf-3 /usr/bin/microdnf /usr/bin/dnf5 /usr/bin/apt-get
/usr/bin/zypper /usr/bin/pacman /bin/opkg /sbin/apk /usr/bin/emerge /usr/bin/xbps-install /usr/bin/rpm
/.dockerenv /.dockerinit /run/.containerenv /run/ostree-booted /run/systemd/system /dev/kvm /proc/xen /proc/vz
/proc/bc /proc/lve /etc/init.d /sbin/openrc /etc/dinit.d /sys/kernel/security/apparmor
/sys/class/net/*/brif/* /sys/class/net/*
"""
_LINKS = """
/sys/class/net/*/device /sys/class/net/*/device/driver/module /dev/disk/by-uuid/* /usr/bin/dnf /sbin/init
"""
_CPU = (
    "processor|Processor|vendor_id|model name|cpu|Vendor|physical id|core id|cpu cores|siblings"
    "|# processors|max thread id"
)

SCRIPT = rf"""
exec 2>/dev/null
s() {{ printf '\n\036%s\n' "$1"; }}
s env; cat /proc/self/environ | tr '\n\000' '\001\n'
LC_ALL=C; export LC_ALL
s id; id
s passwd; u=$(id -u); getent passwd "$u" || grep "^[^:]*:[^:]*:$u:" /etc/passwd
s uname; uname -snrm; uname -v
s bits; getconf LONG_BIT || head -c 5 /bin/sh | od -An -tu1
s fqdn; hostname -f
s os; cat /etc/os-release || cat /usr/lib/os-release
s files; grep -Hs '' {" ".join(_FILES.split())}
s cpu; grep -E '^({_CPU})[[:space:]]*:' /proc/cpuinfo; grep -m 1 '^flags' /proc/cpuinfo
s nproc; nproc
s paths; for p in {" ".join(_PATHS.split())}; do [ -e "$p" ] && printf '%s\n' "$p"; done
command -v systemctl
s links; ls -ld {" ".join(_LINKS.split())}
s modules; grep -s -E '^(kvm|vboxdrv) ' /proc/modules
s container; tr '\000' '\n' < /proc/1/environ | grep '^container='
s chroot; if [ -e /proc/1/root/. ]; then [ / -ef /proc/1/root/. ] && echo no || echo yes; fi
s address; ip addr show || ifconfig -a
s route4; ip -4 route get 8.8.8.8; s route6; ip -6 route get 2404:6800:400a:800::1012
s proc4; cat /proc/net/route; s local4; cat /proc/net/fib_trie; s proc6; cat /proc/net/if_inet6
s sizes; set --
while read -r d p t rest; do
  case $d in /*) ;; *) continue ;; esac
  case $t in fuse*|nfs*|cifs) continue ;; esac
  case $p in *\\*) p=$(printf '%b' "$(printf %s "$p" | sed 's/\\/\\0/g')") ;; esac
  set -- "$@" "$p"
done < /proc/mounts
[ $# -gt 0 ] && stat -f -c '%s %S %b %a %c %d %n' -- "$@"
s date; date '+%s %Y-%m-%dT%H:%M:%S %z %Z'
s end; exit 0
"""


def sections(text: str) -> dict[str, str]:
    """What the script said, by section, without blank lines around.

    >>> sections(f"\\n{MARK}id\\nuid=0(root)\\n\\n{MARK}fqdn\\n")
    {'id': 'uid=0(root)', 'fqdn': ''}
    """
    found = {}
    for part in text.split(f"\n{MARK}")[1:]:
        name, _, said = part.partition("\n")
        found[name] = said.strip("\n")
    return found


def files(said: str) -> dict[str, list[str]]:
    """Lines of files by path, as ``grep -H`` prints them."""
    found: dict[str, list[str]] = {}
    for said_line in said.splitlines():
        path, colon, text = said_line.partition(":")
        if colon and path.startswith("/"):
            found.setdefault(path, []).append(text)
    return found


def first_line(read: Files, path: str) -> str:
    """The first line of a file; "" for one that is empty or not there."""
    return (read.get(path) or [""])[0].strip()


def assignments(lines: Sequence[str]) -> dict[str, str]:
    """``KEY=value`` lines as a shell would read them, such as those of os-release."""
    found = {}
    for one in lines:
        key, equals, value = one.partition("=")
        if equals and not key.lstrip().startswith("#"):
            try:
                found[key.strip()] = "".join(shlex.split(value)) if value[:1] in "\"'" else value.strip()
            except ValueError:  # a quote that isn't closed
                found[key.strip()] = value.strip()
    return found
