"""Facts: interfaces and addresses, from ``ip`` where it is there and from /proc where it isn't. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Address
from typing import Any

from klops.commands.factscript import Files

NAMES = frozenset({"all_ipv4_addresses", "all_ipv6_addresses", "default_ipv4", "default_ipv6", "interfaces"})
_NET = "/sys/class/net/"
#: ARPHRD numbers of the kernel
_TYPES = {"1": "ether", "32": "infiniband", "512": "ppp", "772": "loopback", "65534": "tunnel"}
_SCOPES = {"00": "global", "10": "host", "20": "link", "40": "site"}


@dataclass(frozen=True)
class _Address:
    """An address of an interface; ``label`` is the interface or an alias of it (``eth0:1``)."""

    interface: str
    label: str
    address: str
    prefix: str
    broadcast: str = ""
    #: of IPv6
    scope: str = ""
    secondary: bool = False

    @property
    def details(self) -> dict[str, str]:
        """An IPv4 address as facts have it."""
        network = IPv4Interface(f"{self.address}/{self.prefix}").network
        return {
            "address": self.address,
            "broadcast": self.broadcast,
            "netmask": str(network.netmask),
            "network": str(network.network_address),
            "prefix": self.prefix,
        }


def facts(said: Mapping[str, str], read: Files) -> dict[str, Any]:
    """What the sections and files say of the network. Interfaces are also facts by their own names."""
    v4 = list(_ip4(said.get("address", ""))) or list(_proc4(said.get("proc4", ""), said.get("local4", "")))
    v6 = list(_ip6(said.get("address", ""))) or list(_proc6(said.get("proc6", "")))
    interfaces = _interfaces(said, read)
    for one in v4:
        own = interfaces.setdefault(one.label, {})
        if "ipv4" in own or one.secondary:
            own.setdefault("ipv4_secondaries", []).append(one.details)
        else:
            own["ipv4"] = one.details
    for one in v6:
        details = {"address": one.address, "prefix": one.prefix, "scope": one.scope}
        interfaces.setdefault(one.interface, {}).setdefault("ipv6", []).append(details)
    default4 = _route(said.get("route4", "")) or _proc_default(said.get("proc4", ""), v4)
    default6 = _route(said.get("route6", ""))
    for one in v4:
        if default4.get("address") == one.address:
            default4.update(one.details, alias=one.label, **_of_device(interfaces.get(one.interface, {})))
    for one in v6:
        if default6.get("address") == one.address:
            default6.update(
                prefix=one.prefix, scope=one.scope, **_of_device(interfaces.get(one.interface, {}))
            )
    names = {name.replace(":", "_"): own for name, own in interfaces.items()}
    return {
        "interfaces": sorted(names),
        "default_ipv4": default4,
        "default_ipv6": default6,
        "all_ipv4_addresses": [one.address for one in v4 if not one.address.startswith("127.")],
        "all_ipv6_addresses": [one.address for one in v6 if one.address != "::1"],
        # as variables such names must be ones
        **{re.sub(r"[.-]", "_", name): own for name, own in names.items()},
    }


def _interfaces(said: Mapping[str, str], read: Files) -> dict[str, dict[str, Any]]:
    paths = said.get("paths", "").splitlines()
    links = dict(re.findall(r"(/sys/class/net/\S+) -> (?:.*/)?([^/\s]+)$", said.get("links", ""), re.M))
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        name = path.removeprefix(_NET)
        if not path.startswith(_NET) or "/" in name:
            continue
        text = {
            file: (read.get(f"{path}/{file}") or [""])[0].strip()
            for file in (
                "address",
                "mtu",
                "operstate",
                "type",
                "flags",
                "speed",
                "bridge/bridge_id",
                "bonding/mode",
            )
        }
        if not text["type"]:
            continue  # no interface, such as the file bonding_masters
        own: dict[str, Any] = {"device": name, "type": _TYPES.get(text["type"], "unknown")}
        if text["address"].strip("0:"):
            own["macaddress"] = text["address"]
        if text["mtu"]:
            own["mtu"] = int(text["mtu"])
        own["active"] = text["operstate"] != "down"
        if text["bridge/bridge_id"]:
            members = [p.rpartition("/")[2] for p in paths if p.startswith(f"{path}/brif/")]
            stp = (read.get(f"{path}/bridge/stp_state") or [""])[0] == "1"
            own.update(type="bridge", interfaces=members, id=text["bridge/bridge_id"], stp=stp)
        if text["bonding/mode"]:
            slaves = (read.get(f"{path}/bonding/slaves") or [""])[0].split()
            own.update(type="bonding", slaves=slaves, mode=text["bonding/mode"].split()[0])
        if f"{path}/device" in links:
            own["pciid"] = links[f"{path}/device"]
        if f"{path}/device/driver/module" in links:
            own["module"] = links[f"{path}/device/driver/module"]
        if text["speed"]:
            own["speed"] = int(text["speed"])
        if text["flags"]:
            own["promisc"] = bool(int(text["flags"], 16) & 0x100)
        found[name] = own
    return found


def _of_device(own: Mapping[str, Any]) -> dict[str, Any]:
    return {key: own[key] for key in ("macaddress", "mtu", "type") if key in own}


# -- ip ------------------------------------------------------------------------------------------------------


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Interfaces and the words of the lines below them, of ``ip addr`` or ``ifconfig -a``."""
    name = ""
    for line in text.splitlines():
        head = re.match(r"(?:\d+: )?([^\s:@]+)", line)
        if line[:1].strip() and head:
            name = head[1]
        elif name:
            yield name, line.split()


def _ip4(text: str) -> Iterator[_Address]:
    for name, words in _blocks(text):
        if words[:1] != ["inet"] or len(words) < 2:
            continue
        after = dict(itertools.pairwise(words))
        if words[1].startswith("addr:"):  # busybox's ifconfig
            mask = next((word[5:] for word in words if word.startswith("Mask:")), "255.255.255.255")
            broadcast = next((word[6:] for word in words if word.startswith("Bcast:")), "")
            yield _Address(name, name, words[1][5:], _prefix(mask), broadcast)
        elif "netmask" in words:  # the other ifconfig
            yield _Address(name, name, words[1], _prefix(after["netmask"]), after.get("broadcast", ""))
        else:
            address, _, prefix = words[1].partition("/")
            if "peer" in words:
                prefix = after["peer"].partition("/")[2]
            yield _Address(
                name,
                words[-1] if words[-1].partition(":")[0] == name else name,
                address,
                prefix or "32",
                after.get("brd", ""),
                secondary="secondary" in words,
            )


def _ip6(text: str) -> Iterator[_Address]:
    for name, words in _blocks(text):
        if words[:1] != ["inet6"] or len(words) < 2:
            continue
        after = dict(itertools.pairwise(words))
        if words[1] == "addr:" and len(words) > 2:  # busybox's ifconfig
            address, _, prefix = words[2].partition("/")
            yield _Address(name, name, address, prefix, scope=words[-1].removeprefix("Scope:").lower())
        elif "prefixlen" in words:
            scope = re.search(r"<(\w+)>", words[-1])
            yield _Address(name, name, words[1], after["prefixlen"], scope=scope[1] if scope else "")
        else:
            address, _, prefix = words[1].partition("/")
            if "peer" in words:
                prefix = after["peer"].partition("/")[2]
            yield _Address(name, name, address, prefix, scope=after.get("scope", ""))


def _route(text: str) -> dict[str, Any]:
    """Of ``ip route get``: by which interface, address and gateway the way out goes."""
    words = (text.splitlines() or [""])[0].split()
    after = dict(itertools.pairwise(words))
    names = {"interface": "dev", "address": "src", "gateway": "via"}
    return {fact: after[word] for fact, word in names.items() if word in after}


# -- /proc ---------------------------------------------------------------------------------------------------


def _prefix(mask: str) -> str:
    return str(IPv4Interface(f"0.0.0.0/{mask}").network.prefixlen)


def _routes(text: str) -> Iterator[tuple[str, int, int, int, int]]:
    """Interface, destination, gateway, mask and metric of the lines of /proc/net/route."""
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) >= 8:
            yield words[0], _little(words[1]), _little(words[2]), _little(words[7]), int(words[6])


def _little(text: str) -> int:
    return int.from_bytes(bytes.fromhex(text), "little")


def _dotted(number: int) -> str:
    return ".".join(str(byte) for byte in number.to_bytes(4, "big"))


def _proc4(routes: str, local: str) -> Iterator[_Address]:
    """Addresses of the kernel's table, at the interface whose network they are in."""
    lines = local.splitlines()
    own = dict.fromkeys(
        match[1]
        for line, after in itertools.pairwise(lines)
        if "/32 host LOCAL" in after and (match := re.search(r"\|-- ([\d.]+)", line))
    )
    for address in own:
        if address.startswith("127."):
            yield _Address("lo", "lo", address, "8")
            continue
        number = int.from_bytes(bytes(map(int, address.split("."))), "big")
        for name, network, gateway, mask, _ in _routes(routes):
            if mask and not gateway and number & mask == network:
                broadcast = _dotted(network | ~mask & 0xFFFFFFFF)
                yield _Address(name, name, address, _prefix(_dotted(mask)), broadcast)
                break


def _proc6(text: str) -> Iterator[_Address]:
    for line in text.splitlines():
        words = line.split()
        if len(words) == 6:
            address = str(IPv6Address(bytes.fromhex(words[0])))
            yield _Address(
                words[5], words[5], address, str(int(words[2], 16)), scope=_SCOPES.get(words[3], "")
            )


def _proc_default(routes: str, addresses: list[_Address]) -> dict[str, Any]:
    ways = [(metric, name, way) for name, to, way, mask, metric in _routes(routes) if not to and not mask]
    if not ways:
        return {}
    _, name, gateway = min(ways)
    found: dict[str, Any] = {"interface": name, "gateway": _dotted(gateway)}
    address = next((one.address for one in addresses if one.interface == name), "")
    return {**found, "address": address} if address else found
