"""Variables that klops itself gives to templates: the host, the play, the run, and all other hosts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from klops.playbook.model import Play
from klops.playbook.tasks.surroundings import Fleet, PlayHosts, Surroundings
from klops.playbook.template.scope import Scope, Variables, missing

#: the version of ansible-core whose language playbooks may take for granted
_LANGUAGE = {"full": "2.19.0", "string": "2.19.0", "major": 2, "minor": 19, "revision": 0}

#: variables that only an inventory gives: whoever sets one of these, it stays as it is
_OF_INVENTORY = (
    "inventory_hostname",
    "inventory_hostname_short",
    "inventory_dir",
    "inventory_file",
    "groups",
    "group_names",
)


def of_host(name: str, known: Mapping[str, Any], fleet: Fleet) -> dict[str, Any]:
    """What the inventory has to say of a host, as far as ``known``, its variables, don't have it already."""
    found: dict[str, Any] = {"inventory_hostname": name, "inventory_hostname_short": name.split(".")[0]}
    if "groups" not in known and fleet.groups:
        found["groups"] = {group: list(hosts) for group, hosts in fleet.groups.items()}
    if "group_names" not in known and fleet.groups:
        found["group_names"] = sorted(set(fleet.groups_of.get(name, ())) - {"all"})
    return {**found, **{key: known[key] for key in _OF_INVENTORY if key in known}}


def of_run(around: Surroundings, play: Play, check: bool) -> dict[str, Any]:
    """What the run has to say, whichever host it is at; ``playbook_dir`` is that of the play's own file."""
    options = around.options
    limit = {} if options.limit is None else {"ansible_limit": ",".join(options.limit)}
    return {
        "ansible_check_mode": check,
        "ansible_diff_mode": options.diff,
        "ansible_forks": options.forks,
        "ansible_run_tags": list(options.tags) or ["all"],
        "ansible_skip_tags": list(options.skip_tags),
        "ansible_verbosity": options.verbosity,
        "ansible_version": _LANGUAGE,
        "ansible_inventory_sources": list(options.inventory_sources),
        "ansible_playbook_python": sys.executable,
        "playbook_dir": str(play.file.resolve().parent),
        **limit,
    }


class OfPlay(Mapping[str, Any]):
    """What the play has to say: hosts that failed are no longer among ``ansible_play_hosts``.

    Made when it is asked for, because that takes a look at every host.
    """

    __slots__ = ("_made",)

    def __init__(self, play: Play, hosts: PlayHosts) -> None:
        self._made: Mapping[str, Callable[[], Any]] = {
            "ansible_play_name": lambda: play.name,
            "ansible_play_hosts": lambda: list(hosts.living()),
            "ansible_play_hosts_all": lambda: list(hosts.all),
            "ansible_play_batch": lambda: list(hosts.batch),
            "play_hosts": lambda: list(hosts.batch),
        }

    def __getitem__(self, name: str) -> Any:
        return self._made[name]()

    def __contains__(self, name: object) -> bool:
        return name in self._made

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


class HostVars(Mapping[str, Any]):
    """``hostvars``: by host, what the inventory, facts and tasks of this run say of it."""

    __slots__ = ("_names", "_of")

    def __init__(self, names: Sequence[str], of: Callable[[str], Scope]) -> None:
        self._names = dict.fromkeys(names)
        self._of = of

    def __getitem__(self, name: str) -> Any:
        if name in self._names:
            return Variables(self._of(name), name)
        return missing(f"hostvars: no host is called {name!r}", str(name), self._names)

    def get(self, name: str, default: Any = None) -> Any:
        """The variables of a host, or ``default``."""
        return Variables(self._of(name), name) if name in self._names else default

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
