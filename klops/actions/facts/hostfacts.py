"""Facts of a host by Ansible's names, from one read that needs no Python there. Pure."""

from __future__ import annotations

from typing import Any

from klops.actions.facts import hardware as hostfacts_hardware
from klops.actions.facts import network as hostfacts_network
from klops.actions.facts import system as hostfacts_system
from klops.commands.factscript import files, sections
from klops.errors import TaskFailed
from klops.remote.base import Replies
from klops.remote.systemreads import FactsRead

KEY = "facts"
#: What is read.
READS = (FactsRead(KEY),)
_PREFIX = "ansible_"


def facts(replies: Replies) -> dict[str, Any]:
    """Facts by name without ``ansible_``. Raises :class:`TaskFailed` when the host said nothing of use."""
    text = replies[KEY].text
    said = sections(text)
    if "end" not in said:
        raise TaskFailed(
            "the host's shell did not get through the reading of facts",
            hint="it needs a POSIX shell with grep, cat and id",
            code="facts",
        )
    read = files(said.get("files", ""))
    system = hostfacts_system.facts(said, read)
    return {
        **system,
        **hostfacts_hardware.facts(said, read, system["architecture"]),
        **hostfacts_network.facts(said, read),
    }


def injected(found: dict[str, Any]) -> dict[str, Any]:
    """Facts as variables: ``ansible_NAME``, where the name has not got that already."""
    return {name if name.startswith(_PREFIX) else _PREFIX + name: value for name, value in found.items()}


#: names that interfaces of hosts usually have
_INTERFACES = ("lo", "docker0", *(f"{kind}{n}" for kind in ("eth", "ib", "bond", "br") for n in range(16)))
#: Names of variables that only facts give. Of single interfaces (``ansible_eth0``) there are those with usual
#: names; any other is in ``ansible_facts``.
INJECTED = frozenset(
    {
        "ansible_facts",
        *(
            _PREFIX + name
            for name in (
                *hostfacts_system.NAMES,
                *hostfacts_hardware.NAMES,
                *hostfacts_network.NAMES,
                *_INTERFACES,
            )
        ),
    }
)
