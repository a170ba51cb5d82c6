"""Names of hosts as inventories write them: a range in brackets, a port behind a colon, IPv6."""

from __future__ import annotations

import re
from ipaddress import IPv6Address

from klops.inventory.ranges import expand

_BRACKETED = re.compile(r"\[(?P<name>[^\[\]]+)\]:(?P<port>[0-9]+)")
# a colon in a range is none that a port stands behind, and an IPv6 address has several
_WITH_PORT = re.compile(r"(?P<name>(?:[^:\[\]]|\[[^\]]*\])+):(?P<port>[0-9]+)")
#: what shells, patterns and ssh give a meaning of its own
_FORBIDDEN = frozenset(" \t\r\n,;!&*?~'\"\\|<>()`$")


def parse_host(text: str) -> tuple[list[str], int | None]:
    """The names that ``name``, ``name[01:08]`` or ``name:22`` stands for, and the port.

    Raises ``ValueError`` that says what is wrong.
    """
    port: int | None = None
    name = text
    if found := _BRACKETED.fullmatch(text) or _WITH_PORT.fullmatch(text):
        name, port = found["name"], int(found["port"])
    elif text.endswith(":"):
        raise ValueError(f"{text!r} ends with a colon and names no port")
    if port == 0:
        raise ValueError(f"{text!r}: 0 is no port")
    names = [name] if ":" in name and "[" not in name else expand(name)
    if text == "---" or any(not _is_name(one) for one in names):
        raise ValueError(f"{text!r} is no host's name")
    return names, port


def _is_name(name: str) -> bool:
    if not name or not name.isprintable() or not _FORBIDDEN.isdisjoint(name) or name[0] in "-@":
        return False
    if ":" not in name:
        return True
    try:
        IPv6Address(name)
    except ValueError:
        return False
    return True
