"""A host over ssh."""

from __future__ import annotations

import errno
import selectors
from collections.abc import Sequence
from typing import TYPE_CHECKING

import paramiko

from klops.errors import ConnectionLost, HostUnreachable
from klops.remote import openfiles
from klops.remote.base import Remote, Reply, Stream
from klops.remote.become import SELF, Become
from klops.remote.drain import LinkLostError
from klops.remote.link import Link
from klops.remote.script import login_line
from klops.remote.shell import ShellRemote, title
from klops.remote.terminal import TerminalInput, on_terminal, write_out

if TYPE_CHECKING:
    from klops.inventory.connection import Connection

_PIECE = 256 * 1024
#: Seconds between two looks for room in the window while there is more to send.
WINDOW_TICK = 0.005
#: Times a batch of reads is sent before a connection that keeps breaking is given up.
READ_TRIES = 3
#: Status of a command whose shell the host ended without saying how.
NO_STATUS = 255


class ChannelPipes:
    """A command on a channel."""

    def __init__(self, link: Link, channel: paramiko.Channel) -> None:
        self._link = link
        self._channel = channel
        # made before anything arrives: from then on it is readable whenever there is output
        self._selector = selectors.DefaultSelector()
        self._selector.register(channel.fileno(), selectors.EVENT_READ)

    def send(self, data: memoryview) -> int:
        if self._channel.closed:
            return len(data)
        if not self._channel.send_ready():
            return 0
        try:
            return self._channel.send(bytes(data))
        except (OSError, EOFError, paramiko.SSHException):
            return len(data)  # closed meanwhile: its status tells the rest

    def end_input(self) -> None:
        try:
            self._channel.shutdown_write()
        except (OSError, EOFError, paramiko.SSHException):
            return  # the same

    def take(self) -> tuple[bytes, bytes]:
        out = self._channel.recv(_PIECE) if self._channel.recv_ready() else b""
        err = self._channel.recv_stderr(_PIECE) if self._channel.recv_stderr_ready() else b""
        return out, err

    def at_end(self) -> bool:
        over = self._channel.closed or bool(self._channel.eof_received)
        return over and not self._channel.recv_ready() and not self._channel.recv_stderr_ready()

    def status(self) -> int | None:
        if not self._channel.exit_status_ready():
            return None
        if self._channel.exit_status >= 0:
            return self._channel.exit_status
        why = self._link.lost()
        if why:
            raise LinkLostError(why)
        return NO_STATUS

    def wait(self, seconds: float, *, writing: bool) -> None:
        if self.at_end():
            self._channel.status_event.wait(seconds)
        else:
            self._selector.select(min(seconds, WINDOW_TICK) if writing else seconds)

    def close(self) -> None:
        self._selector.close()
        self._channel.close()
        self._link.session_ended()


class SshRemote(ShellRemote):
    """Commands over one ssh connection, opened at first use."""

    def __init__(self, name: str, link: Link, *, become: Become = SELF, audit_log: str = "") -> None:
        super().__init__(name, become=become, audit_log=audit_log)
        self._link = link
        self._owner = True
        self._counter = [0]

    @classmethod
    def of(cls, connection: Connection, *, become: Become, audit_log: str = "") -> SshRemote:
        """The remote for a connection of kind ssh; :class:`UsageError` for settings that can't be met."""
        return cls(connection.name, Link.of(connection), become=become, audit_log=audit_log)

    @property
    def commands_run(self) -> int:  # type: ignore[override]  # shared with clones, so never assigned to
        return self._counter[0]

    def _count(self) -> None:
        self._counter[0] += 1

    def _open(self, argv: Sequence[str]) -> ChannelPipes:
        channel = self._link.session(lambda: self._cancelled)
        pipes = self._pipes(channel)
        try:
            channel.exec_command(login_line(argv))
        except (OSError, EOFError, paramiko.SSHException) as e:
            pipes.close()
            # the script has not been sent, so nothing has run
            raise ConnectionLost(f"{self.name}: connection lost: {self._link.lost(e) or e}") from e
        return pipes

    def _pipes(self, channel: paramiko.Channel) -> ChannelPipes:
        try:
            with openfiles.told_as_such(self.name):
                return ChannelPipes(self._link, channel)
        except BaseException:
            channel.close()
            self._link.session_ended()
            raise

    def _batch(
        self, lanes: Sequence[Sequence[str]], timeout: float | None, engine: Sequence[str]
    ) -> list[Reply]:
        tried = 0
        while True:
            tried += 1
            try:
                return super()._batch(lanes, timeout, engine)
            except ConnectionLost:
                # a read may be sent again; the next one makes a new connection, with pauses of its own
                if tried >= READ_TRIES or self._cancelled:
                    raise

    def connect(self, host: str, port: int, *, timeout: float) -> Stream:
        """A forwarded connection."""
        self._count()
        try:
            return self._link.direct(host, port, timeout)
        except paramiko.ChannelException as e:
            # 1 is "administratively prohibited" (RFC 4254, 5.1)
            if e.code == 1:
                raise PermissionError(errno.EPERM, "the host's sshd forbids it (AllowTcpForwarding)") from e
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"{host}:{port}: {e.text}") from e
        except (paramiko.SSHException, EOFError) as e:
            if self._link.lost(e):
                raise HostUnreachable(f"{self.name}: connection lost: {self._link.lost(e)}") from e
            raise TimeoutError(errno.ETIMEDOUT, f"{host}:{port}: no answer within {timeout:g} s") from e

    def interactive(self, argv: Sequence[str], *, tty: bool) -> int:
        """The command gets the caller's terminal; without one, its standard streams."""
        if not tty:
            with TerminalInput() as source:
                return self._command(argv, source, write_out(1), write_out(2), None)
        self._count()
        channel = self._link.session()
        try:
            rc = on_terminal(channel, [*self.become.sudo, "--", *argv] if self.become.wanted else argv)
        except (OSError, EOFError, paramiko.SSHException) as e:
            raise ConnectionLost(f"{self.name}: connection lost: {self._link.lost(e) or e}") from e
        finally:
            channel.close()
            self._link.session_ended()
        why = self._link.lost() if rc < 0 else ""
        if why:
            raise ConnectionLost(f"{self.name}: connection lost during {title(argv)}: {why}")
        return rc if rc >= 0 else NO_STATUS

    def renew(self, timeout: float) -> None:
        """A new connection for this remote and its clones."""
        self._link.renew(timeout)

    def clone(self, *, become: bool | None = None, become_user: str | None = None) -> Remote:
        """A second remote over the same connection, for another thread or another user."""
        become_now = self.become.but(become, become_user)
        other = SshRemote(self.name, self._link, become=become_now, audit_log=self.audit_log)
        other._owner = False
        other._counter = self._counter
        return other

    def close(self) -> None:
        """End what runs and, unless this is a clone, close the connection."""
        super().close()
        if self._owner:
            self._link.close()
