"""Variables that are accepted, as any ``ansible_*`` is, and do nothing: told when more was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from klops.errors import Mistake
from klops.inventory.connection import VARIABLES
from klops.inventory.secretforms import FORMS
from klops.inventory.variables import SETTINGS
from klops.yamlsource import MappingNode, Node, ScalarNode

#: Ansible's own names that resemble one of klops' and mean something else.
_ANSIBLES = frozenset(
    (
        *("ansible_ssh_pipelining", "ansible_ssh_retries", "ansible_ssh_use_tty", "ansible_hostname"),
        "ansible_ssh_transfer_method",
        *("ansible_connection_timeout", "ansible_connect_timeout", "ansible_command_timeout"),
        *("ansible_user_id", "ansible_user_dir", "ansible_user_uid", "ansible_user_gid"),
        *("ansible_user_shell", "ansible_sftp_extra_args", "ansible_scp_extra_args"),
    )
)
_SUDO = "the host's own sudo is called, with the flags it needs"
_TRUST = "keys are always checked; klops hosts trust records them"
_SHELL = "commands run in /bin/sh"
#: Ansible's own names that would change how a host is reached, and what holds here.
_WITHOUT_EFFECT = {
    "ansible_become_exe": _SUDO,
    "ansible_become_flags": _SUDO,
    "ansible_sudo_exe": _SUDO,
    "ansible_sudo_flags": _SUDO,
    "ansible_ssh_executable": "no ssh program is run",
    "ansible_host_key_checking": _TRUST,
    "ansible_ssh_host_key_checking": _TRUST,
    "ansible_shell_executable": _SHELL,
}
#: How alike two names must be: one letter missing, too many, wrong or swapped with the next.
_ALIKE = 0.9


def near_misses(variables: Mapping[str, Node]) -> Iterator[Mistake]:
    """Variables of a host that are meant to say how to reach it, or may be, and have no effect."""
    for name, node in variables.items():
        yield from unread_secrets(name, node)
        if name in _WITHOUT_EFFECT:
            yield Mistake(node.location, f"{name} has no effect", _WITHOUT_EFFECT[name])
            continue
        if not name.startswith("ansible") or name in VARIABLES or name in _ANSIBLES:
            continue
        near = difflib.get_close_matches(name, VARIABLES, n=1, cutoff=_ALIKE)
        if near:
            yield Mistake(node.location, f"{name} says nothing to klops", f"did you mean {near[0]}?")


def unread_secrets(name: str, node: Node) -> Iterator[Mistake]:
    """Mappings in a variable that look like a secret setting's form and stay the mappings they are."""
    if not isinstance(node, MappingNode) or name == SETTINGS or name in VARIABLES:
        return
    for key, value in node.entries:
        if len(node.entries) == 1 and key.text in FORMS and isinstance(value, ScalarNode):
            text = (
                f"{name}: {{{key.text}: ...}} is a mapping here: only settings under {SETTINGS} are read so"
            )
            instead = "\"{{ lookup('env', 'NAME') }}\"" if key.text == "env" else "a lookup"
            yield Mistake(node.location, text, f"write {instead}, or give the variable with -e @FILE")
        yield from unread_secrets(name, value)
