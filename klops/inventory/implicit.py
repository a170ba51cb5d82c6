"""The host that needs no inventory: this machine itself, under one of its three names.

As in Ansible it is no member of any group, so ``all`` doesn't mean it; variables of ``all``, group_vars/all
and host_vars of its name still count for it. An inventory that lists one of the names has taken it over.
"""

from __future__ import annotations

from klops.errors import Location
from klops.inventory.model import Graph, Layer
from klops.yamlsource import ScalarNode

NAMES = ("localhost", "127.0.0.1", "::1")
_WHERE = Location("implicit localhost")
LAYER: Layer = {"ansible_connection": ScalarNode(_WHERE, "local", True, "local")}


def implicit(graph: Graph, name: str) -> str | None:
    """The host that a name of this machine stands for when no host is called so; None for another name."""
    if name not in NAMES or name in graph.hosts:
        return None
    return next((host for host in graph.hosts if host in NAMES), name)
