"""Names that look like a connection variable and are none: accepted, as any ``ansible_*`` is, but told."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from klops.errors import Mistake
from klops.inventory.connection import VARIABLES
from klops.yamlsource import Node

#: Ansible's own names that resemble one of klops' and mean something else.
_ANSIBLES = frozenset(
    (
        *("ansible_become_exe", "ansible_become_flags", "ansible_ssh_args", "ansible_ssh_executable"),
        *("ansible_ssh_pipelining", "ansible_ssh_retries", "ansible_ssh_use_tty", "ansible_hostname"),
        *("ansible_ssh_transfer_method", "ansible_ssh_host_key_checking", "ansible_host_key_checking"),
        *("ansible_connection_timeout", "ansible_connect_timeout", "ansible_command_timeout"),
        *("ansible_user_id", "ansible_user_dir", "ansible_user_uid", "ansible_user_gid"),
        *("ansible_user_shell", "ansible_sftp_extra_args", "ansible_scp_extra_args"),
    )
)
#: How alike two names must be: one letter missing, too many, wrong or swapped with the next.
_ALIKE = 0.9


def near_misses(variables: Mapping[str, Node]) -> Iterator[Mistake]:
    """Variables of a host that may have been meant to say how to reach it."""
    for name, node in variables.items():
        if not name.startswith("ansible") or name in VARIABLES or name in _ANSIBLES:
            continue
        near = difflib.get_close_matches(name, VARIABLES, n=1, cutoff=_ALIKE)
        if near:
            yield Mistake(node.location, f"{name} says nothing to klops", f"did you mean {near[0]}?")
