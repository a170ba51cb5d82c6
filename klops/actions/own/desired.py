"""What the settings of a host ask for: the container, and the specification of each unit. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from klops.cards.identity import CONTROL_NODE, node_name
from klops.cards.smi import Cards
from klops.commands import inspectedpaths, vllm
from klops.commands.agent import hold, spec_digest
from klops.commands.containerspec import ContainerSpec, size_in_bytes
from klops.commands.readonly import refusal
from klops.commands.smi import machine
from klops.errors import TaskFailed

if TYPE_CHECKING:
    from klops.actions.own.hostview import HostView
    from klops.inventory.settings import Service, Settings

#: Where card nodes are inside a container that klops makes.
INSIDE = "/dev"
#: Debuggers and the card runtime's peer mappings need both: every known recipe for these cards has them.
CAPS = ("SYS_PTRACE",)
SECURITY = ("seccomp=unconfined",)
#: Environment variable through which vLLM takes its key, so that no argv shows it.
KEY_VARIABLE = "VLLM_API_KEY"
#: Keys of a specification that its digest isn't over: a change of them is no reason to start a service anew.
NOT_DIGESTED = ("digest", "smi")
#: Bytes of a unit's log file before it is rotated, and how many are kept.
LOG_BYTES, LOG_KEEP = 64 * 1024**2, 5

_CARD = re.compile(r"/xpu(\d+)\Z")


def devices(settings: Settings, host: HostView, *, anew: bool = False) -> tuple[tuple[str, str], ...]:
    """(node on the host, node in the container) of every card in use, and, last, of the control node.

    A card keeps its minor's number inside: one number less that can be mistaken for another. One that the
    host has lost is left out, as the others can serve; where the container has its node already, that may
    stay. ``anew``: for a container that is to be made. It gets the nodes too that no card of xpu-smi has,
    unless the settings name the cards: a card that is dead now may serve later, without a new container.
    Raises TaskFailed where it isn't certain which card is lost.
    """
    gone = host.missing
    if gone.doubt:
        known = host.cards.by_index()
        raise TaskFailed(
            f"cards.use names card {', '.join(map(str, gone.indexes))}, but xpu-smi knows only "
            f"{', '.join(map(str, sorted(known))) or 'none'}",
            code="card-missing",
            hint="correct klops.cards.use, or look why the card is gone: xpu-smi -m, dmesg",
        )
    lost = {card.node for card in host.cards.cards if card.index in host.nodeless}
    *cards, control = known_devices(settings, host.cards)
    wanted = [pair for pair in cards if pair[0] not in lost]
    spare = settings.cards.use is None and bool(host.cards_from)
    if not (gone.indexes or lost or spare):
        return (*wanted, control)
    others = {card.node for card in host.cards.cards} - lost
    if anew:
        found = [(node, f"{INSIDE}/{posixpath.basename(node)}") for node in host.strays] if spare else []
    else:
        raw = host.container.raw if host.container is not None else {}
        inside = inspectedpaths.devices(raw, {})
        found = [(device.node, device.inside) for device in inside if _CARD.search(device.node)]
    return (*wanted, *(pair for pair in found if pair[0] not in others), control)


def known_devices(settings: Settings, cards: Cards) -> tuple[tuple[str, str], ...]:
    """The same, whatever is missing."""
    known, folder = cards.by_index(), settings.cards.device_dir.rstrip("/")
    used = (known[index].minor for index in settings.cards.indexes if index in known)
    names = [*map(node_name, used), CONTROL_NODE]
    return tuple((f"{folder}/{name}", f"{INSIDE}/{name}") for name in names)


def container_spec(settings: Settings, host: HostView, *, anew: bool = False) -> ContainerSpec:
    """The container as the settings want it. Raises TaskFailed when they say too little.

    ``anew``: to make one by, not to hold against one that is there; see :func:`devices`.
    """
    wanted = settings.container
    if not wanted.image:
        raise TaskFailed(
            "no image is set to make the container from",
            code="image-missing",
            hint="set klops.container.image to the name of an image on the host",
        )
    return ContainerSpec(
        name=wanted.name,
        image=wanted.image,
        command=tuple(hold(wanted.python, settings.root)),
        devices=devices(settings, host, anew=anew),
        volumes=(f"{settings.root}:{settings.root}", *wanted.volumes),
        env=tuple(sorted(wanted.env.items())),
        shm=size_in_bytes(wanted.shm),
        caps=CAPS,
        security=SECURITY,
        ulimits=tuple(sorted(wanted.ulimits.items())),
        runtime=wanted.runtime,
        stop_timeout=int(wanted.stop_timeout),
    )


def missing_secret(settings: Settings, names: Collection[str]) -> TaskFailed | None:
    """The error for services whose secret can't be had or can't be a key, None when all are fit for use."""
    missing = settings.missing_secrets(names)
    if not missing:
        return None
    text = "; ".join(error.message for error in missing)
    return TaskFailed(text, code=missing[0].code, hint=missing[0].hint)


def secrets(service: Service) -> dict[str, str]:
    """Environment variables of a unit that nobody may see."""
    return {} if service.api_key is None else {KEY_VARIABLE: service.api_key.reveal()}


def unit_spec(
    settings: Settings, name: str, chosen: tuple[int, ...], identities: Mapping[int, Mapping[str, Any]]
) -> dict[str, Any]:
    """The specification of one unit: everything its supervisor needs but the secrets, and a digest over it.

    ``identities`` has the card of each index: index, minor, node (inside the container), bdf, uuid, serial.
    """
    service = settings.services[name]
    served = service.served_name or name
    tp = len(chosen)
    spec: dict[str, Any] = {
        "schema": 1,
        "name": name,
        "argv": list(
            vllm.serve_argv(
                service.model, port=service.port, served_name=served, tp=tp, args=_flags(service.args)
            )
        ),
        "env": dict(service.env),
        "env_script": service.env_script,
        "cards": [dict(identities[index]) for index in chosen],
        "visible_env": settings.cards.visible_env,
        "device_dir": INSIDE,
        "tp": tp,
        "port": service.port,
        "model": served,
        "health": {
            "start_timeout": service.start_timeout,
            "interval": 5,
            "timeout": 10,
            "failures": 3,
            "smoke": service.smoke,
            "stall_timeout": service.stall_timeout,
        },
        "stop": {"timeout": service.stop_timeout},
        "restart": {
            "policy": service.restart.policy,
            "delay": service.restart.delay,
            "max_delay": service.restart.max_delay,
            "limit": service.restart.limit,
            "window": service.restart.window,
        },
        "log": {"max_bytes": LOG_BYTES, "keep": LOG_KEEP},
        "min_shm": size_in_bytes(service.min_shm),
    }
    if settings.source.repo is not None:
        spec["source"] = {"paths": release_paths(settings)}
    spec["digest"] = spec_digest(spec)
    spec["smi"] = smi_inside(settings)
    return spec


def release_targets(settings: Settings) -> list[dict[str, str]]:
    """Where the release is to be found in the container, as the agent takes it."""
    return [
        {"root": target.root}
        if target.root is not None
        else {"package": str(target.package), "path": target.folder, "place": target.place}
        for target in settings.source.targets
    ]


def release_paths(settings: Settings) -> list[str]:
    """Folders within the release that a unit has in front of its PYTHONPATH; "" is the release itself."""
    found = [
        "/".join(target.folder.split("/")[: -len(target.package.split("."))])
        for target in settings.source.targets
        if target.package is not None and target.place == "pythonpath"
    ]
    return list(dict.fromkeys(found))


def smi_inside(settings: Settings) -> str:
    """The xpu-smi that a supervisor may ask inside the container; "" for none."""
    smi = settings.cards.smi
    return "" if smi.where == "host" or refusal(machine(smi.path)) else smi.path


def _flags(args: Mapping[str, Any]) -> dict[str, Any]:
    """``max_model_len`` as vllm's own ``max-model-len``; what follows a dot is a key of JSON, and stays."""
    found = {}
    for flag, value in args.items():
        head, dot, key = flag.partition(".")
        found[head.replace("_", "-") + dot + key] = value
    return found


def identities(cards: Cards, nodes: Mapping[str, str]) -> dict[int, dict[str, Any]]:
    """Identity of each card by index, its node as the container names it.

    ``nodes``: the path in the container of nodes of the host. One that isn't in it has the name there that
    klops would give it; where that is another card's the card is left out, lest they be mistaken.
    """
    found, taken = {}, set(nodes.values())
    for card in cards.cards:
        name = f"{INSIDE}/{node_name(card.minor)}"
        if card.node in nodes or name not in taken:
            found[card.index] = {**card.identity(), "node": nodes.get(card.node, name)}
    return found


def container_indexes(nodes: Collection[str]) -> dict[str, int]:
    """What runtimes in a container call a card, by its node there: its rank by the number in the name."""
    numbered = {node: match for node in nodes if (match := _CARD.search(node))}
    return {node: rank for rank, node in enumerate(sorted(numbered, key=lambda n: int(numbered[n][1])))}
