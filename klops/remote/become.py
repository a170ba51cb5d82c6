"""Becoming another user through sudo. The password goes only to its prompt, never into a script or argv."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from klops.errors import CommandFailed

if TYPE_CHECKING:
    from klops.inventory.connection import Connection
    from klops.remote.drain import Input
    from klops.secret import Secret

ROOT = "root"


@dataclass(frozen=True)
class Become:
    """Whether to become another user, whom, and the password for sudo (None: it must not ask)."""

    wanted: bool = False
    user: str = ROOT
    password: Secret | None = None

    @classmethod
    def of(cls, connection: Connection) -> Become:
        """What a connection says."""
        return cls(connection.become, connection.become_user, connection.become_password)

    def but(self, wanted: bool | None, user: str | None) -> Become:
        """The same unless ``wanted`` or ``user`` say otherwise, as a task may."""
        return replace(self, wanted=self.wanted if wanted is None else wanted, user=user or self.user)

    @property
    def sudo(self) -> list[str]:
        """sudo with the user to become, and that user's home."""
        return ["sudo", "-H", "-u", self.user]


#: nobody else
SELF = Become()


class BecomeGate:
    """Holds a command's input back until sudo has started the shell, and answers its prompt once.

    It sits on both sides: as the input of the command, and on its standard error, where sudo asks.
    Without a password it lets everything pass: ``sudo -n`` never asks.
    """

    def __init__(self, source: Input, password: Secret | None) -> None:
        self._source = source
        self._password = password
        self._open = password is None
        self._answer: memoryview | None = None
        self._asked = 0
        self._held = b""
        token = secrets.token_hex(8)
        self.prompt = f"@@klops-{token}-password:"
        self.ready = f"@@klops-{token}-ready"

    @property
    def needed(self) -> bool:
        """Whether sudo may ask."""
        return self._password is not None

    @property
    def refused(self) -> bool:
        """Whether sudo asked again: the password was wrong."""
        return self._asked > 1

    def peek(self) -> memoryview | None:
        """The password once it was asked for, the command's input once the shell runs, nothing before."""
        if self._answer:
            return self._answer
        return self._source.peek() if self._open else memoryview(b"")

    def advance(self, count: int) -> None:
        """Drop what was sent."""
        if self._answer:
            self._answer = self._answer[count:]
        else:
            self._source.advance(count)

    def feed(self, data: bytes) -> bytes:
        """Standard error without the conversation with sudo."""
        if self._open:
            return data
        self._held += data
        if self.prompt.encode() in self._held:
            self._held = self._held.replace(self.prompt.encode(), b"", 1)
            self._asked += 1
            if self._asked == 1 and self._password is not None:
                self._answer = memoryview(self._password.reveal().encode() + b"\n")
        ready = self.ready.encode() + b"\n"
        at = self._held.find(ready)
        if at < 0:
            return b""
        self._open = True
        rest, self._held = self._held[:at] + self._held[at + len(ready) :], b""
        return rest

    @property
    def held(self) -> str:
        """What sudo said so far."""
        return self._held.decode("utf-8", "replace")


def become_argv(argv: Sequence[str], become: Become, gate: BecomeGate) -> list[str]:
    """``argv`` as the other user."""
    if not gate.needed:
        return [*become.sudo, "-n", "--", *argv]
    start = f'echo {gate.ready} >&2; exec "$@"'
    return [*become.sudo, "-S", "-p", gate.prompt, "--", "sh", "-c", start, "sh", *argv]


def become_error(name: str, said: str, rc: int) -> CommandFailed:
    """Why sudo did not start the shell, with what to do about it."""
    if "not found" in said:
        hint = "install sudo on the host, or connect as root"
    elif "unknown user" in said:
        hint = "make the user on the host, or correct become_user"
    elif "not in the sudoers" in said or "not allowed" in said:
        hint = "allow the user in /etc/sudoers.d, or connect as root"
    elif "did not take" in said or "incorrect password" in said:
        hint = "check ansible_become_password or KLOPS_BECOME_PASSWORD"
    else:
        hint = "set ansible_become_password or KLOPS_BECOME_PASSWORD, or allow NOPASSWD in /etc/sudoers.d"
    return CommandFailed(
        f"{name}: sudo did not start the shell: {said or 'no output'}",
        rc=rc,
        stderr=said,
        hint=hint,
        code="become",
    )
