"""How a host is reached: Ansible's connection variables, typed."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from klops.errors import Location, Mistake, SourceErrors
from klops.inventory.rendering import Renderer, is_template, rendered
from klops.secret import Secret
from klops.yamlsource import Node, ScalarNode, nearest

CONNECT_TIMEOUT = 10.0
SSH_PASSWORD = "KLOPS_SSH_PASSWORD"  # noqa: S105 - the name of a variable
BECOME_PASSWORD = "KLOPS_BECOME_PASSWORD"  # noqa: S105 - the name of a variable
KEY_PASSPHRASE = "KLOPS_SSH_KEY_PASSPHRASE"  # noqa: S105 - the name of a variable
NONE_ASKED: Mapping[str, Secret] = {}

_BUILTIN = "ansible.builtin."
_SSH = ("ssh", "smart", "paramiko", "paramiko_ssh")
_KINDS = (*_SSH, "local")
_TRUE = ("true", "yes", "on", "1", "t", "y")
_FALSE = ("false", "no", "off", "0", "f", "n")
# Each setting with the names Ansible's ssh connection and sudo know it by, the strongest first.
NAMES = {
    "address": ("ansible_ssh_host", "ansible_host"),
    "port": ("ansible_ssh_port", "ansible_port"),
    "user": ("ansible_ssh_user", "ansible_user"),
    "password": ("ansible_ssh_password", "ansible_ssh_pass", "ansible_password"),
    "key": ("ansible_ssh_private_key_file", "ansible_private_key_file"),
    "key_passphrase": ("ansible_ssh_private_key_passphrase", "ansible_private_key_passphrase"),
    "kind": ("ansible_connection",),
    "args": ("ansible_ssh_args",),
    "common_args": ("ansible_ssh_common_args",),
    "extra_args": ("ansible_ssh_extra_args",),
    "timeout": ("ansible_ssh_timeout", "ansible_timeout"),
    "become": ("ansible_become",),
    "become_method": ("ansible_become_method",),
    "become_user": ("ansible_sudo_user", "ansible_become_user"),
    "become_password": ("ansible_sudo_pass", "ansible_become_pass", "ansible_become_password"),
}
#: every variable that says how a host is reached
VARIABLES = tuple(name for names in NAMES.values() for name in names)


@dataclass(frozen=True)
class Connection:
    """How to reach a host; of ``user`` and ``port`` None leaves it to ``~/.ssh/config``."""

    name: str
    address: str
    port: int | None = None
    user: str | None = None
    private_key_file: str | None = None
    key_passphrase: Secret | None = None
    kind: Literal["ssh", "local"] = "ssh"
    become: bool = False
    #: who commands run as when ``become`` is asked for
    become_user: str = "root"
    become_password: Secret | None = None
    password: Secret | None = None
    #: arguments of ssh, already split: of ansible_ssh_args, then _common_args, then _extra_args
    common_args: tuple[str, ...] = ()
    #: seconds
    connect_timeout: float = CONNECT_TIMEOUT

    @property
    def secrets(self) -> list[Secret]:
        """What must never be shown."""
        return [s for s in (self.password, self.become_password, self.key_passphrase) if s is not None]


def build_connection(
    host: str,
    variables: Mapping[str, Node],
    render: Renderer | None = None,
    asked: Mapping[str, Secret] = NONE_ASKED,
) -> Connection:
    """The connection of a host from its merged variables; ``render`` gives the values of templates in them.

    Passwords that no variable gives are what somebody was ``asked`` for, or come from the environment:
    ``KLOPS_SSH_PASSWORD``, ``KLOPS_BECOME_PASSWORD`` and ``KLOPS_SSH_KEY_PASSPHRASE``, which are also the
    names in ``asked``. Raises :class:`SourceErrors` with all mistakes.
    """
    reader = _Reader(variables, render, asked)
    kind = reader.word("kind", _KINDS, "ssh")
    reader.word("become_method", ("sudo",), "sudo")
    connection = Connection(
        name=host,
        address=reader.text("address") or host,
        port=reader.port(),
        user=reader.text("user"),
        private_key_file=reader.text("key"),
        key_passphrase=reader.secret("key_passphrase", KEY_PASSPHRASE),
        kind="local" if kind == "local" else "ssh",
        become=reader.flag("become"),
        become_user=reader.text("become_user") or "root",
        become_password=reader.secret("become_password", BECOME_PASSWORD),
        password=reader.secret("password", SSH_PASSWORD),
        common_args=(*reader.words("args"), *reader.words("common_args"), *reader.words("extra_args")),
        connect_timeout=reader.timeout(),
    )
    if reader.mistakes:
        raise SourceErrors(reader.mistakes)
    return connection


class _Reader:
    """Reads connection variables as written and collects mistakes."""

    def __init__(
        self, variables: Mapping[str, Node], render: Renderer | None, asked: Mapping[str, Secret]
    ) -> None:
        self._variables = variables
        self._render = render
        self._asked = asked
        self.mistakes: list[Mistake] = []

    def _find(self, what: str) -> tuple[str, ScalarNode] | None:
        for name in NAMES[what]:
            node = self._variables.get(name)
            if node is not None and is_template(node):
                node = self._rendered(name, node)
            if node is None or (isinstance(node, ScalarNode) and node.plain and node.value is None):
                continue
            if isinstance(node, ScalarNode):
                return name, node
            self._mistake(node.location, f"{name} is a single value")
        return None

    def _rendered(self, name: str, node: Node) -> Node | None:
        if self._render is None:
            self._mistake(node.location, f"templates are not supported in {name}", "write the value itself")
            return None
        try:
            return rendered(node, self._render)
        except SourceErrors as error:
            self.mistakes.extend(error.mistakes)
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
        word = node.text.removeprefix(_BUILTIN)
        if word not in allowed:
            near = nearest(word, allowed)
            hint = f"did you mean {near}?" if near else f"expected {' or '.join(allowed)}"
            self._mistake(node.location, f"{name}: {node.text!r} is not supported", hint)
        return word

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
        """True or false in the words that Ansible takes for it, quoted or not."""
        found = self._find(what)
        if not found:
            return False
        word = found[1].text.lower()
        if word not in (*_TRUE, *_FALSE):
            self._mistake(found[1].location, f"{found[0]} is true or false, not {found[1].text!r}")
        return word in _TRUE

    def port(self) -> int | None:
        """A TCP port."""
        found = self._find("port")
        if not found:
            return None
        name, node = found
        if not re.fullmatch("[1-9][0-9]{0,4}", node.text) or int(node.text) > 65535:
            text = f"{name} is a number from 1 to 65535, not {node.text!r}"
            self._mistake(node.location, text, _port_hint(node.text))
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
        if variable in self._asked:
            return self._asked[variable]
        value = os.environ.get(variable)
        return Secret(value, source=f"env {variable}") if value else None

    def _mistake(self, location: Location, message: str, hint: str = "") -> None:
        self.mistakes.append(Mistake(location, message, hint))


def _port_hint(text: str) -> str:
    """What may have been meant by something that is no port."""
    if re.fullmatch("[0-9]+", text):
        plain = text.lstrip("0")
        if plain and int(plain) <= 65535:
            return f"write {plain}"
        shorter = plain[:-1]
        return f"a digit too many? {shorter} would be one" if shorter and int(shorter) <= 65535 else ""
    if re.fullmatch("[0-9]+:[0-9]+", text):
        return "one port: that of sshd on the host"
    return ""
