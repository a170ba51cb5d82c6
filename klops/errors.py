"""Errors of klops, each with a stable code, an exit status and what to do next.

::

    KlopsError                    1
    |-- UsageError                2   the command line cannot be meant
    |   |-- ConfirmationNeeded    2   a question would have to be asked, and there is nobody to ask
    |   `-- SourceErrors          2   mistakes in inventory, playbook or settings, each with its place
    |-- HostUnreachable           4   no connection: what the host does is unknown
    |   |-- ConnectionLost        4   it was there, and went away in mid-command
    |   |-- AuthenticationFailed  4
    |   `-- HostKeyRejected       4   unknown or changed host key
    |-- CommandFailed             1   a remote command ended with another status than 0
    |   `-- CommandTimeout        1   it did not end in time, and was ended
    |-- DockerUnavailable         1   no engine answers, or it may not be asked
    |-- AgentError                1   the agent in the container refused or failed
    |-- TaskFailed                1   an action looked, and says no: the host isn't fit for what was asked
    |   `-- ChangedMeanwhile      1   what was planned to be changed is no longer what the plan was made of
    |-- LockHeld                  1   somebody else is changing this host
    |-- ReadOnlyViolation         1   check mode was about to write: a fault of klops
    `-- Interrupted             130

``retryable`` is a property of the class, never of a message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

E = TypeVar("E", bound="KlopsError")


class KlopsError(Exception):
    """Root of all errors that klops raises on purpose.

    ``code`` is stable and meant for programs, ``hint`` says what to do next ("" when there is nothing).
    ``values`` are what a task that fails with it registers beside that, by Ansible's names.
    """

    code = "error"
    exit_status = 1
    retryable = False

    def __init__(
        self, message: str, *, hint: str = "", code: str = "", values: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.values: Mapping[str, Any] = values or {}
        if code:
            self.code = code

    def but(self: E, **changed: Any) -> E:
        """A copy with other attributes (``message``, ``hint``, ``values``, ...); this one stays as it is.

        Where it was raised and what caused it is kept.
        """
        # not copy.copy, which calls the class with the texts alone: not all are made of them
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__, **changed)
        other.args = (other.message,)
        other.__cause__, other.__context__ = self.__cause__, self.__context__
        other.__suppress_context__ = self.__suppress_context__
        return other.with_traceback(self.__traceback__)

    def as_json(self) -> dict[str, str]:
        """``{code, message, hint}``, the shape of the contract."""
        return {"code": self.code, "message": self.message, "hint": self.hint}


class UsageError(KlopsError):
    """The command line, as typed, cannot be meant."""

    code = "usage"
    exit_status = 2


class ConfirmationNeeded(UsageError):
    """A question would have to be asked, but there is neither a terminal nor ``--yes``."""

    code = "confirmation-needed"


@dataclass(frozen=True, order=True)
class Location:
    """A place in a source file; line and column count from 1, 0 means unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Mistake:
    """One mistake in a source file: where, what, and the nearest thing that would have been right."""

    location: Location
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.location}: {self.message}" + (f" ({self.hint})" if self.hint else "")


class SourceErrors(UsageError):
    """All mistakes found in an inventory, a playbook or settings; raised before anything runs anywhere."""

    code = "source"

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(sorted(mistakes, key=lambda m: m.location))
        super().__init__("\n".join(str(m) for m in self.mistakes))


class HostUnreachable(KlopsError):
    """No connection. What the host does is unknown, and *unreachable is not stopped*."""

    code = "unreachable"
    exit_status = 4
    retryable = True


class ConnectionLost(HostUnreachable):
    """The connection was up and went away; what ran at that time may have had its effect or not."""

    code = "connection-lost"


class AuthenticationFailed(HostUnreachable):
    """The host answered and refused every credential offered."""

    code = "authentication-failed"
    retryable = False


class HostKeyRejected(HostUnreachable):
    """The host's key is unknown, or differs from the one recorded."""

    code = "host-key"
    retryable = False


class CommandFailed(KlopsError):
    """A remote command ended with another status than 0.

    ``rc`` is the exit status; a command killed by signal n has ``128 + n``. ``stdout`` and ``stderr`` are
    what it said, as far as that is kept.
    """

    code = "command-failed"

    def __init__(
        self,
        message: str,
        *,
        rc: int = 1,
        stdout: str = "",
        stderr: str = "",
        hint: str = "",
        code: str = "",
        values: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, hint=hint, code=code, values=values)
        self.rc = rc
        self.stdout = stdout
        self.stderr = stderr


class CommandTimeout(CommandFailed):
    """A remote command did not end in time, and was ended by klops."""

    code = "timeout"


class DockerUnavailable(KlopsError):
    """No Docker engine answers on the host, or this user may not ask it."""

    code = "docker-unavailable"


class AgentError(KlopsError):
    """The agent in the container could not be run, or refused what it was asked."""

    code = "agent"


class TaskFailed(KlopsError):
    """An action looked at the host and says no."""

    code = "task-failed"


class ChangedMeanwhile(TaskFailed):
    """What was planned to be changed is no longer what the plan was made of; nothing was done to it."""

    code = "changed-meanwhile"


class LockHeld(KlopsError):
    """Somebody else is changing this host right now."""

    code = "lock-held"


class ReadOnlyViolation(KlopsError):
    """Something tried to write in check mode: a fault of klops, stopped before it happens."""

    code = "read-only"


class Interrupted(KlopsError):
    """Ctrl-C, or the signal that stands for it."""

    code = "interrupted"
    exit_status = 130


def exit_status(statuses: Sequence[int]) -> int:
    """The one exit status of several: 130 over 2 over 4 over 1 over 3 over 0."""
    for wanted in (130, 2, 4, 1, 3):
        if wanted in statuses:
            return wanted
    return 0
