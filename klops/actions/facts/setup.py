"""``setup`` and ``gather_facts``: what the host is, by Ansible's names, with no Python there.

.. code-block:: yaml

    - setup: {filter: ["distribution*", ansible_memtotal_mb]}
    - gather_facts:

Plays need neither: a fact that a task names is read with what the tasks read besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator

from klops.actions.base import Action, Params, Plan, Probe, Seen, View
from klops.actions.facts import hardware as hostfacts_hardware
from klops.actions.facts import hostfacts
from klops.actions.facts import system as hostfacts_system

_PREFIX = "ansible_"
_VIRTUAL = frozenset(name for name in hostfacts_system.NAMES if name.startswith("virtualization_"))
_SUBSETS = ("all", "min", "hardware", "network", "virtual")


def _listed(value: Any) -> Any:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


_Names = Annotated[list[str], BeforeValidator(_listed)]


class SetupParams(Params):
    """``filter``: patterns of names, with or without ``ansible_``.

    ``gather_subset``: all, min, hardware, network, virtual, or what to leave out (``!hardware``).
    """

    filter: _Names = Field(default_factory=list)
    gather_subset: _Names = Field(default_factory=lambda: ["all"])
    #: for Ansible's sake: the one reading has the time limit of every reading
    gather_timeout: int = 10

    @field_validator("gather_subset")
    @classmethod
    def _known(cls, names: list[str]) -> list[str]:
        for name in names:
            if name.removeprefix("!") not in _SUBSETS:
                raise ValueError(
                    f"{name!r} is none of {', '.join(_SUBSETS)}, nor one of these with ! before it"
                )
        return names


class Setup(Action[SetupParams]):
    """Give the host's facts to variables; changes nothing."""

    name = "setup"
    params = SetupParams

    def probe(self, params: SetupParams, view: View) -> Probe:
        """One read."""
        return Probe(hostfacts.READS)

    def plan(self, params: SetupParams, view: View, seen: Seen) -> Plan:
        """No steps; the engine takes ``ansible_facts`` over."""
        found = hostfacts.facts(seen.replies)
        kept = _matching(_subset(found, params.gather_subset), params.filter)
        return Plan(result={"ansible_facts": hostfacts.injected(kept)})


class GatherFacts(Setup):
    """``setup`` by the name that plays have for it."""

    name = "gather_facts"


def _subset(found: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    wanted = {name for name in names if not name.startswith("!")} or {"all"}
    unwanted = {name.removeprefix("!") for name in names if name.startswith("!")}
    if "all" in wanted:
        wanted = set(_SUBSETS)
    # as in Ansible: !all leaves the least, which !min leaves out as well
    wanted |= {"min"}
    wanted -= unwanted | (set(_SUBSETS) - {"min"} if "all" in unwanted else set())
    return {name: value for name, value in found.items() if _kind(name) in wanted}


def _kind(name: str) -> str:
    """The subset that a fact belongs to."""
    if name in _VIRTUAL:
        return "virtual"
    if name in hostfacts_hardware.NAMES or name == "uptime_seconds":
        return "hardware"
    # interfaces have facts by their own names
    return "min" if name in hostfacts_system.NAMES else "network"


def _matching(found: Mapping[str, Any], patterns: list[str]) -> dict[str, Any]:
    wanted = [pattern.removeprefix(_PREFIX) for pattern in patterns if pattern]
    if not wanted:
        return dict(found)
    return {name: value for name, value in found.items() if any(fnmatchcase(name, one) for one in wanted)}
