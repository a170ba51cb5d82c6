"""How a host is reached: Ansible's connection variables, typed."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from klops.errors import Location, Mistake, SourceErrors
from klops.secret import Secret
from klops.yamlsource import Node, ScalarNode, nearest

CONNECT_TIMEOUT = 10.0
SSH_PASSWORD = "KLOPS_SSH_PASSWORD"  # noqa: S105 - the name of a variable
BECOME_PASSWORD = "KLOPS_BECOME_PASSWORD"  # noqa: S105 - the name of a variable

_SSH = ("ssh", "smart", "paramiko", "paramiko_ssh")
_KINDS = (*_SSH, "local")
# Each setting with the names Ansible's ssh connection knows it by, the strongest first.
_NAMES = {
    "address": ("ansible_ssh_host", "ansible_host"),
    "port": ("ansible_ssh_port", "ansible_port"),
    "user": ("ansible_ssh_user", "ansible_user"),
    "password": ("ansible_ssh_password", "ansible_ssh_pass", "ansible_password"),
    "key": ("ansible_ssh_private_key_file", "ansible_private_key_file"),
    "kind": ("ansible_connection",),
    "common_args": ("ansible_ssh_common_args",),
    "extra_args": ("ansible_ssh_extra_args",),
    "timeout": ("ansible_ssh_timeout", "ansible_timeout"),
    "become": ("ansible_become",),
    "become_method": ("ansible_become_method",),
    "become_user": ("ansible_become_user",),
    "become_password": ("ansible_become_password", "ansible_become_pass"),
}
#: every variable that says how a host is reached
VARIABLES = tuple(name for names in _NAMES.values() for name in names)


@dataclass(frozen=True)
class Connection:
    """How to reach a host; of ``user`` and ``port`` None leaves it to ``~/.ssh/config``."""

    name: str
    address: str
    port: int | None = None
    user: str | None = None
    private_key_file: str | None = None
    kind: Literal["ssh", "local"] = "ssh"
    become: bool = False
    become_password: Secret | None = None
    password: Secret | None = None
    #: arguments of ssh, already split
    common_args: tuple[str, ...] = ()
    #: seconds
    connect_timeout: float = CONNECT_TIMEOUT


def build_connection(host: str, variables: Mapping[str, Node]) -> Connection:
    """The connection of a host from its merged variables.

    Passwords that no variable gives come from ``KLOPS_SSH_PASSWORD`` and ``KLOPS_BECOME_PASSWORD``. Raises
    :class:`SourceErrors` with all mistakes.
    """
    reader = _Reader(variables)
    kind = reader.word("kind", _KINDS, "ssh")
    reader.word("become_method", ("sudo",), "sudo")
    reader.word("become_user", ("root",), "root")
    connection = Connection(
        name=host,
        address=reader.text("address") or host,
        port=reader.port(),
        user=reader.text("user"),
        private_key_file=reader.text("key"),
        kind="local" if kind == "local" else "ssh",
        become=reader.flag("become"),
        become_password=reader.secret("become_password", BECOME_PASSWORD),
        password=reader.secret("password", SSH_PASSWORD),
        common_args=(*reader.words("common_args"), *reader.words("extra_args")),
        connect_timeout=reader.timeout(),
    )
    if reader.mistakes:
        raise SourceErrors(reader.mistakes)
    return connection


class _Reader:
    """Reads connection variables as written and collects mistakes."""

    def __init__(self, variables: Mapping[str, Node]) -> None:
        self._variables = variables
        self.mistakes: list[Mistake] = []

    def _find(self, what: str) -> tuple[str, ScalarNode] | None:
        for name in _NAMES[what]:
            node = self._variables.get(name)
            if node is None or (isinstance(node, ScalarNode) and node.plain and node.value is None):
                continue
            if not isinstance(node, ScalarNode):
                self._mistake(node.location, f"{name} is a single value")
            elif "{{" in node.text or "{%" in node.text:
                self._mistake(
                    node.location, f"templates are not supported in {name}", "write the value itself"
                )
            else:
                return name, node
        return None

    def text(self, what: str) -> str | None:
        """The text, or None when nobody gives one."""
        found = self._find(what)
        return found[1].text or None if found else None

    def word(self, what: str, allowed: tuple[str, ...], default: str) -> str:
        """One of the allowed words."""
        found = self._find(what)
        if not found:
            return default
        name, node = found
        if node.text not in allowed:
            near = nearest(node.text, allowed)
            hint = f"did you mean {near}?" if near else f"expected {' or '.join(allowed)}"
            self._mistake(node.location, f"{name}: {node.text!r} is not supported", hint)
        return node.text

    def words(self, what: str) -> tuple[str, ...]:
        """Words split as a POSIX shell splits them."""
        found = self._find(what)
        try:
            return tuple(shlex.split(found[1].text)) if found else ()
        except ValueError as error:
            assert found  # noqa: S101 - only found text can fail to split
            self._mistake(
                found[1].location, f"{found[0]} cannot be split into words: {error}", "close the quote"
            )
            return ()

    def flag(self, what: str) -> bool:
        """True or false as YAML 1.1 or a quoted word says it."""
        found = self._find(what)
        if not found:
            return False
        word = found[1].text.lower()
        if word not in ("true", "yes", "on", "false", "no", "off"):
            self._mistake(found[1].location, f"{found[0]} is true or false, not {found[1].text!r}")
        return word in ("true", "yes", "on")

    def port(self) -> int | None:
        """A TCP port."""
        found = self._find("port")
        if not found:
            return None
        name, node = found
        if not re.fullmatch("[1-9][0-9]{0,4}", node.text) or int(node.text) > 65535:
            self._mistake(node.location, f"{name} is a number from 1 to 65535, not {node.text!r}")
            return None
        return int(node.text)

    def timeout(self) -> float:
        """Seconds to wait for a connection."""
        found = self._find("timeout")
        if not found:
            return CONNECT_TIMEOUT
        name, node = found
        if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", node.text) or not float(node.text):
            self._mistake(node.location, f"{name} is a number of seconds above 0, not {node.text!r}")
            return CONNECT_TIMEOUT
        return float(node.text)

    def secret(self, what: str, variable: str) -> Secret | None:
        """A password from the variables, else from the environment."""
        found = self._find(what)
        if found and isinstance(found[1].value, Secret):
            return found[1].value
        if found:
            return Secret(found[1].text, source=found[0])
        value = os.environ.get(variable)
        return Secret(value, source=f"env {variable}") if value else None

    def _mistake(self, location: Location, message: str, hint: str = "") -> None:
        self.mistakes.append(Mistake(location, message, hint))
