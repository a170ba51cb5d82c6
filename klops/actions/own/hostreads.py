"""The reads that several klops actions share.

Each is built here and nowhere else, so that two tasks that want the same thing send the same script, and it
is carried out once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from klops.actions.own import desired, records
from klops.cards.identity import CONTROL_NODE, node_name
from klops.commands import cardreads, docker, smi
from klops.commands.agent import agent_path, verb
from klops.commands.readonly import refusal
from klops.remote.containerreads import (
    AgentRead,
    ContainerImageRead,
    DeviceLinksRead,
    PidMapRead,
    RecordedRead,
)
from klops.remote.reads import CommandRead, FileRead, FirstRead, ListRead, Read
from klops.remote.rootreads import RootFileRead, RootNamesRead

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

VERSION = "docker.version"
CONTAINER = "container"
STATUS = "agent.status"
HOLDERS = "agent.holders"
NODES = "nodes"
SMI_MACHINE = "smi.m"
SMI_QUERY = "smi.q"
PIDS = "pids"
LOCK = "lock"
RUN_FOLDER = "run"
IMAGE = "image"
CONTAINER_IMAGE = "container.image"
ADOPTED = "adopted"
ADOPTED_CONTAINER = "adopted.container"
RECREATION = "recreation"
DEVICE_LINKS = "device.links"
QUARANTINE = "quarantine"
BOOT_ID = "boot.id"
VERDICT = "cards.verdict"
BASELINE = "cards.baseline"
DRIVER = "driver.version"
RELEASES = "releases"
PACKAGES = "packages"

#: Nodes looked for: as many as the largest host of this kind has, whatever is expected.
_NODES = 16


def docker_prefix(settings: Settings) -> tuple[str, ...]:
    """How docker is called on this host."""
    return docker.prefix(settings.docker.host, sudo=settings.docker.sudo)


def engine(settings: Settings) -> Read:
    """Whether an engine answers."""
    return CommandRead(VERSION, docker.version(docker_prefix(settings)))


def container(settings: Settings) -> Read:
    """The container, inspected."""
    return CommandRead(CONTAINER, docker.inspect(docker_prefix(settings), settings.container.name))


def host(settings: Settings) -> tuple[Read, ...]:
    """What :func:`~klops.actions.own.hostview.look` needs at least: engine, container, whose it is, agent."""
    return (
        engine(settings),
        container(settings),
        adopted(settings),
        adopted_container(settings),
        status(settings),
        verdict(settings),
        baseline(settings),
    )


def adopted_container(settings: Settings) -> Read:
    """The container on record as adopted, inspected by its id: its name may be another one by now."""
    path = records.adoption_path(settings.root)
    return RecordedRead(ADOPTED_CONTAINER, docker_prefix(settings), path)


def adopted(settings: Settings) -> Read:
    """The record of a container that klops adopted."""
    return FileRead(ADOPTED, records.adoption_path(settings.root))


def recreation(settings: Settings) -> Read:
    """The record of a container that is just being made anew, or was when its run was lost."""
    return FileRead(RECREATION, records.recreation_path(settings.root))


def image(settings: Settings) -> tuple[Read, ...]:
    """The image of the settings, inspected; nothing when they name none."""
    name = settings.container.image
    return (CommandRead(IMAGE, docker.image(docker_prefix(settings), name)),) if name else ()


def container_image(settings: Settings) -> Read:
    """The image that the container was made from, inspected: its tag may have moved on since."""
    return ContainerImageRead(CONTAINER_IMAGE, docker_prefix(settings), settings.container.name)


def device_links(settings: Settings) -> Read:
    """Where the device paths of the container and of the settings lead to on the host, ``PATH<TAB>REAL``."""
    wanted = settings.container
    return DeviceLinksRead(DEVICE_LINKS, docker_prefix(settings), wanted.name, node_paths(settings))


def agent_argv(settings: Settings, name: str, *args: str, stdin: bool = False) -> list[str]:
    """The command line of one verb of the agent of this host."""
    wanted = settings.container
    return verb(docker_prefix(settings), wanted.name, wanted.python, settings.root, name, *args, stdin=stdin)


def agent(settings: Settings, key: str, name: str, *args: str) -> Read:
    """A verb of the agent that only reads."""
    return AgentRead(
        key,
        docker=docker_prefix(settings),
        container=settings.container.name,
        python=settings.container.python,
        agent=agent_path(settings.root),
        verb=name,
        args=("--root", settings.root, *args),
    )


def status(settings: Settings, *args: str) -> Read:
    """What the agent says of its units."""
    return agent(settings, STATUS, "status", *args)


def holders(settings: Settings) -> Read:
    """Who in the container holds a card."""
    return agent(settings, HOLDERS, "holders")


def releases(settings: Settings, *, verify: bool = True, entries: bool = False) -> Read:
    """Releases on the host.

    ``verify``: every file of the current one is read there, and what is imported is looked up. ``entries``:
    with all that the current one consists of.
    """
    targets = json.dumps(desired.release_targets(settings))
    paths = json.dumps(desired.release_paths(settings))
    looks = ("--verify", "--imports", targets, "--paths", paths) if verify else ()
    more = ("--entries",) if entries else ()
    return agent(settings, RELEASES, "releases", *looks, *more)


def packages(settings: Settings, files: Sequence[str] | None = None) -> Read:
    """Versions of the pinned distributions, and how files of site-packages stand: those of the settings."""
    names = json.dumps(sorted(settings.stack.packages))
    if files is None:
        files = [patch.file for patch in settings.stack.patches]
    return agent(settings, PACKAGES, "packages", "--names", names, "--files", json.dumps(list(files)))


def pids(settings: Settings) -> Read:
    """Host pids of the container's processes."""
    return PidMapRead(PIDS, docker=docker_prefix(settings), container=settings.container.name)


def lock(settings: Settings) -> Read:
    """Who is changing this host."""
    return FileRead(LOCK, f"{settings.root}/lock")


def _root_file(settings: Settings, key: str, path: str) -> Read:
    record = records.adoption_path(settings.root)
    return RootFileRead(key, docker_prefix(settings), settings.container.name, path, record)


def unit_state(settings: Settings, name: str) -> Read:
    """What the supervisor knows of a unit, for when the agent can't be asked."""
    return _root_file(settings, f"state:{name}", f"{settings.root}/run/{name}.state.json")


def unit_file(settings: Settings, name: str) -> Read:
    """The specification of a unit on disk, for a diff: it may be readable for root only."""
    return _root_file(settings, f"unit:{name}", f"{settings.root}/units/{name}.json")


def run_folder(settings: Settings) -> Read:
    """Names of the files the supervisor keeps, for when the agent can't be asked."""
    prefix, record = docker_prefix(settings), records.adoption_path(settings.root)
    return RootNamesRead(RUN_FOLDER, prefix, settings.container.name, f"{settings.root}/run", record)


def quarantine(settings: Settings) -> tuple[Read, ...]:
    """The notes on cards kept out of service and the host's boot, for when the agent can't be asked."""
    notes = _root_file(settings, QUARANTINE, f"{settings.root}/cards.json")
    return (notes, FileRead(BOOT_ID, "/proc/sys/kernel/random/boot_id"))


def verdict(settings: Settings) -> Read:
    """What the last diagnosis of the cards came to."""
    return _root_file(settings, VERDICT, f"{settings.root}/verdict.json")


def baseline(settings: Settings) -> Read:
    """What `klops cards learn` wrote: identities and bandwidths of when the host was good."""
    given = settings.cards.baseline
    if given is not None:
        return FileRead(BASELINE, given)
    return _root_file(settings, BASELINE, f"{settings.root}/baseline.json")


def node_paths(settings: Settings) -> tuple[str, ...]:
    """Every path at which a card node may be on the host, and that of the control node."""
    numbers = range(max(_NODES, settings.cards.expected))
    names = [*(node_name(number) for number in numbers), CONTROL_NODE]
    return tuple(f"{settings.cards.device_dir}/{name}" for name in names)


def nodes(settings: Settings) -> Read:
    """Listing of the card nodes on the host, looked at through links, as docker does."""
    return ListRead(NODES, node_paths(settings), follow=True)


def driver() -> Read:
    """The driver's own version: the only one that is the same wherever it is asked for."""
    return FileRead(DRIVER, cardreads.DRIVER)


def smi_places(settings: Settings) -> tuple[str, ...]:
    """Where xpu-smi is asked, the preferred place first."""
    where = settings.cards.smi.where
    return ("host", "container") if where == "auto" else (where,)


def cards(settings: Settings) -> tuple[Read, ...]:
    """``xpu-smi -m`` and ``-q`` of the first place that answers; none of a program not known to only read."""
    path = settings.cards.smi.path
    if refusal(smi.machine(path)):
        return ()
    prefix, name = docker_prefix(settings), settings.container.name
    found = []
    for key, argv in ((SMI_MACHINE, smi.machine(path)), (SMI_QUERY, smi.query(path))):
        places = {"host": argv, "container": docker.execute(prefix, name, *argv)}
        found.append(
            FirstRead(key, tuple(CommandRead(place, places[place]) for place in smi_places(settings)))
        )
    return tuple(found)
