"""What engines of several versions say of the same two containers: one that klops made, one made by hand."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from klops.commands import docker
from klops.commands.containerspec import LISTS_LABEL, SPEC_LABEL, ContainerSpec, size_in_bytes

VERSIONS = ("20.10", "24.0", "27.5", "29.0")
NODES = ("/dev/xpu0", "/dev/xpu1", "/dev/xpu2", "/dev/xpu3", "/dev/xpuctrl")
ROOT = "/var/lib/klops"
#: What the container that klops made was made from.
SPEC = ContainerSpec(
    name="klops",
    image="vllm-kunlun:1",
    command=("python3", "-I", "-S", f"{ROOT}/agent/current", "hold", "--root", ROOT),
    devices=tuple((node, node) for node in NODES),
    volumes=(f"{ROOT}:{ROOT}", "/data/models:/models:ro", "/usr:/usr:ro"),
    env=(("VLLM_USE_V1", "1"), ("XMLIR_D_XPU_L3_SIZE", "0")),
    shm=size_in_bytes("32g"),
    caps=("SYS_PTRACE",),
    security=("seccomp=unconfined",),
    ulimits=(("core", "0"), ("nofile", "1024")),
    stop_timeout=120,
)


@dataclass(frozen=True)
class Inspects:
    """What one version says. ``hand``: ``docker run -itd --net=host --device ... /bin/bash``."""

    version: str
    source: str
    made: dict[str, Any]
    hand: dict[str, Any]
    image: docker.Image


def load(version: str) -> Inspects:
    """A copy of one's own."""
    text = (Path(__file__).parent / f"{version}.json").read_text(encoding="utf-8")
    data = json.loads(text)
    image = docker.parse_image(json.dumps([data["image"]]))
    assert image is not None
    made, hand = data["inspect"]
    return Inspects(version, data["_source"], made, hand, image)


def of_another_spec(inspected: dict[str, Any]) -> dict[str, Any]:
    """The same container as if it had been made from a specification with nothing in common with ours."""
    other = copy.deepcopy(inspected)
    other["Config"]["Labels"] |= {SPEC_LABEL: "0" * 16, LISTS_LABEL: ""}
    return other
