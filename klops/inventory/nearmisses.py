"""Names that look like a connection variable and are none: accepted, as any ``ansible_*`` is, but told."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from klops.errors import Mistake
from klops.inventory.connection import VARIABLES
from klops.yamlsource import Node

#: Ansible's own names that resemble one of klops' and mean something else.
_ANSIBLES = frozenset(
    f"ansible_{name}"
    for name in (
        "become_exe become_flags ssh_args ssh_executable ssh_pipelining ssh_retries ssh_use_tty ssh_timeout "
        "ssh_transfer_method ssh_host_key_checking ssh_pkcs11_provider host_key_checking hostname "
        "connection_timeout connect_timeout command_timeout user_id user_dir user_uid user_gid user_shell "
        "sftp_extra_args scp_extra_args ports hosts facts fact_path"
    ).split()
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
