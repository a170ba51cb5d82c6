"""The same container in other words: everything that engines, clients and people write in several ways."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]
_NOTHING: tuple[None, list[Any]] = (None, [])


@st.composite
def respelled(draw: Draw, inspected: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """``inspected`` in another spelling, and where its links lead to."""
    raw = copy.deepcopy(inspected)
    host, config = raw["HostConfig"], raw["Config"]
    links = _devices(draw, host)
    _volumes(draw, host)
    _options(draw, host)
    _command(draw, config)
    config["Env"] = draw(st.permutations(config["Env"]))
    if draw(st.booleans()):
        config["Env"] = dict(item.partition("=")[::2] for item in config["Env"])
    if ":" in config["Image"] and draw(st.booleans()):
        config["Image"] = draw(st.sampled_from(["docker.io/library/", "index.docker.io/"])) + config["Image"]
    for name, value in host["LogConfig"]["Config"].items():
        if value.isdigit() and draw(st.booleans()):
            host["LogConfig"]["Config"][name] = int(value)
    for key, value in list(host.items()):
        if value in _NOTHING:
            host[key] = draw(st.sampled_from(_NOTHING))
            if draw(st.booleans()):
                del host[key]
    return raw, links


def _devices(draw: Draw, host: dict[str, Any]) -> dict[str, str]:
    links = {}
    for number, device in enumerate(host.get("Devices") or ()):
        real = device["PathOnHost"]
        if draw(st.booleans()):
            device["PathOnHost"] = f"/dev/by-path/pci-{number}"
            links[device["PathOnHost"]] = real
        elif draw(st.booleans()):
            device["PathOnHost"] = real.replace("/dev/", "/dev//")
        if device.get("CgroupPermissions") == "rwm":
            device["CgroupPermissions"] = draw(st.sampled_from(["rwm", "mwr", "rw", ""]))
    if host.get("Devices"):
        host["Devices"] = draw(st.permutations(host["Devices"]))
    return links


def _volumes(draw: Draw, host: dict[str, Any]) -> None:
    binds, mounts = [], list(host.get("Mounts") or ())
    for bind in host.get("Binds") or ():
        source, inside, *rest = bind.split(":")
        options = rest[0].split(",") if rest else []
        if draw(st.booleans()):
            mounts.append({"Type": "bind", "Source": source, "Target": inside, "ReadOnly": "ro" in options})
            continue
        more = draw(st.sets(st.sampled_from(["Z", "rprivate"] + ([] if "ro" in options else ["rw"]))))
        options = draw(st.permutations([*options, *more]))
        slashes = draw(st.sampled_from(["", "/", "//"]))
        binds.append(
            ":".join([source + slashes, inside + slashes, *([",".join(options)] if options else [])])
        )
    host["Binds"], host["Mounts"] = draw(st.permutations(binds)), draw(st.permutations(mounts))


def _options(draw: Draw, host: dict[str, Any]) -> None:
    for key in ("CapAdd", "CapDrop"):
        found = [
            ("CAP_" if draw(st.booleans()) else "") + cap.removeprefix("CAP_") for cap in host.get(key) or ()
        ]
        host[key] = draw(st.permutations([cap.lower() if draw(st.booleans()) else cap for cap in found]))
    security = [
        option.replace("=", ":", 1) if draw(st.booleans()) else option for option in host["SecurityOpt"] or ()
    ]
    if draw(st.booleans()):
        security.append("no-new-privileges=false")
    host["SecurityOpt"] = draw(st.permutations(security))
    host["Ulimits"] = draw(st.permutations(host["Ulimits"] or []))
    if host["ShmSize"] == 32 * 1024**3 and "Tmpfs" not in host and draw(st.booleans()):
        host["ShmSize"] = 64 * 1024**2
        if draw(st.booleans()):
            host["Tmpfs"] = {"/dev/shm": draw(st.sampled_from(["size=32g", "rw,size=33554432k,exec"]))}
        else:
            options = {"SizeBytes": 32 * 1024**3}
            host["Mounts"] = [
                *host["Mounts"],
                {"Type": "tmpfs", "Target": "/dev/shm", "TmpfsOptions": options},
            ]
    if host["Runtime"] == "runc":
        host["Runtime"] = draw(st.sampled_from(["runc", "io.containerd.runc.v2", ""]))


def _command(draw: Draw, config: dict[str, Any]) -> None:
    words = [*(config["Entrypoint"] or ()), *(config["Cmd"] or ())]
    cut = draw(st.integers(0, len(words)))
    config["Entrypoint"], config["Cmd"] = words[:cut] or None, words[cut:] or None
    if cut == 1 and draw(st.booleans()):
        config["Entrypoint"] = words[0]
