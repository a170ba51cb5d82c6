"""One ssh connection to a host: opened at first use, through its jump hosts, with checked host keys.

Several remotes of one host share a link (paramiko's transports may be used by many threads). Opening is tried
again where that makes sense; what went wrong is told apart, because each has another fix. That telling is
most of the module, and needs the connection's inside.
"""

from __future__ import annotations

import errno
import logging
import random
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fabric  # type: ignore[import-untyped]  # fabric ships no types
import paramiko

from klops.errors import AuthenticationFailed, ConnectionLost, HostUnreachable, Interrupted, KlopsError
from klops.remote import hostkeys, openfiles
from klops.remote.checkedkeys import CheckedKeys
from klops.remote.hostkeys import HostKey
from klops.remote.sshconfig import resolve
from klops.remote.wire import Wire

if TYPE_CHECKING:
    from klops.inventory.connection import Connection
    from klops.remote.sshconfig import Target
    from klops.secret import Secret

#: Connections of this process that may be on their way to one sshd at once: its MaxStartups drops more.
STARTS = 8
#: Tries to connect to a host that isn't there or refuses.
QUICK_TRIES = 3
#: Tries to connect to a host whose sshd dropped us before it said a word.
BANNER_TRIES = 15
#: Tries to open a channel while the host allows no more of them (MaxSessions).
CHANNEL_TRIES = 10
CHANNEL_TIMEOUT = 20.0
#: Seconds to wait for one of our own sessions to end before asking again.
SESSION_WAIT = 5.0
#: Seconds between two looks whether the command that waits for a session is still wanted.
WANTED_TICK = 0.1
AUTH_TIMEOUT = 30.0

# without a handler logging's last resort prints paramiko's tracebacks on standard error
logging.getLogger("paramiko").addHandler(logging.NullHandler())


#: by address and port; a host that doesn't answer keeps nobody else waiting
_starts: dict[tuple[str, int], threading.BoundedSemaphore] = {}


class _TryError(Exception):
    """One failed try to connect: what to say, and how many tries such a failure is worth."""

    def __init__(self, error: KlopsError, tries: int = 1) -> None:
        super().__init__(error.message)
        self.error = error
        self.tries = tries


class Link:
    """The connection to one hop. Safe to use from several threads."""

    def __init__(
        self, target: Target, *, password: Secret | None = None, passphrase: Secret | None = None
    ) -> None:
        self.target = target
        self._password = password
        self._passphrase = passphrase
        # a password is the host's own; a key is often the same one for the hosts on the way
        self._gate = Link(target.jump, passphrase=passphrase) if target.jump else None
        self._lock = threading.RLock()
        self._opening = threading.Lock()
        self._room = threading.Condition()
        self._sessions = 0
        #: the session that was begun before anybody asked for one
        self._begun: Future[paramiko.Channel] | None = None
        self._connection: Any = None
        self._wire: Wire | None = None
        self.closed = False

    @classmethod
    def of(cls, connection: Connection) -> Link:
        """The link for a connection of kind ssh; :class:`UsageError` for settings that can't be met."""
        return cls(resolve(connection), password=connection.password, passphrase=connection.key_passphrase)

    def begin(self) -> None:
        """Connect and open a session beside what the caller does.

        The first who asks for a session gets that one, or is told what went wrong.
        """
        begun: Future[paramiko.Channel] = Future()

        def connect() -> None:
            try:
                begun.set_result(self._open_session(lambda: self.closed))
            except BaseException as e:
                begun.set_exception(e)

        self._begun = begun
        # klops may end meanwhile: it must not wait for a host that doesn't answer
        threading.Thread(target=connect, name=f"{self.target.name}: connecting", daemon=True).start()

    def session(self, cancelled: Callable[[], bool] = lambda: False) -> paramiko.Channel:
        """A channel for one command, which has not run when this raises.

        Tell :meth:`session_ended` when it is closed.
        A host that opens no more sessions (MaxSessions) is asked again when one of ours has ended, until
        ``cancelled`` says that nobody wants it any more: :class:`Interrupted`.
        """
        with self._room:
            begun, self._begun = self._begun, None
        if begun is not None:
            channel = begun.result()
            if not channel.closed:
                return channel
            # the connection died while nobody used it
            self.session_ended()
        return self._open_session(cancelled)

    def _open_session(self, cancelled: Callable[[], bool]) -> paramiko.Channel:
        refused = 0
        reconnected = False
        while True:
            transport = self._transport()
            try:
                # one at a time: paramiko keeps the reason of a refusal in one place for all
                with self._opening:
                    channel = transport.open_session(timeout=CHANNEL_TIMEOUT)
            except paramiko.ChannelException as e:
                refused = 0 if self._wait_for_room(refused, e, cancelled) else refused + 1
            except (paramiko.SSHException, OSError, EOFError) as e:
                # the connection died while nobody used it: no harm in making another
                if reconnected or not self.lost(e):
                    raise ConnectionLost(f"{self.target.name}: connection lost: {self.lost(e) or e}") from e
                reconnected = True
            else:
                with self._room:
                    self._sessions += 1
                return channel

    def direct(self, host: str, port: int, timeout: float) -> paramiko.Channel:
        """A TCP connection as seen from the hop; ``paramiko.ChannelException`` when nothing answers there."""
        transport = self._transport()
        with self._opening:
            return transport.open_channel("direct-tcpip", (host, port), ("127.0.0.1", 0), timeout=timeout)

    def renew(self, timeout: float) -> None:
        """Close the connection and make a new one, in one try of ``timeout`` seconds.

        Raises :class:`HostUnreachable`.
        """
        with self._lock:
            if self.closed:
                raise HostUnreachable(f"{self.target.name}: the connection was closed")
            self._drop()
            whole = self.target
            self.target = replace(whole, connect_timeout=timeout)
            try:
                self._open_once()
            except _TryError as e:
                raise e.error from e.__cause__
            finally:
                self.target = whole

    def lost(self, e: BaseException | None = None) -> str:
        """Why the connection is gone; "" while it stands."""
        why = self._wire.why if self._wire else ""
        # the wire knows first: paramiko ends its channels before it says that the connection is gone
        if self._connection is not None and self._connection.is_connected and not why:
            return ""
        return why or str(e or "") or "closed"

    def close(self) -> None:
        """Close the connection and those to the jump hosts."""
        with self._lock:
            self.closed = True
            self._drop()
            if self._gate:
                self._gate.close()

    def shown_key(self) -> HostKey:
        """The host's key, of a recorded type when there is one; nobody is logged in but on jump hosts."""
        tried = 0
        while True:
            tried += 1
            wire = None
            try:
                wire = self._wire_up()
                transport = self._new_transport(wire, hostkeys.load(self.target.known_hosts))
                try:
                    transport.start_client(timeout=self.target.connect_timeout)
                    key = transport.get_remote_server_key()
                    return HostKey(key.get_name(), key.asbytes())
                finally:
                    transport.close()
            except (paramiko.SSHException, OSError, EOFError) as e:
                problem = self._explain(e, transport=None, wire=wire)
                if tried >= problem.tries:
                    raise problem.error from e
                time.sleep(random.uniform(0.1, 0.5))  # noqa: S311 - jitter

    def session_ended(self) -> None:
        """A channel of :meth:`session` was closed: whoever waits for room may try."""
        with self._room:
            self._sessions -= 1
            self._room.notify_all()

    def _wait_for_room(
        self, refused: int, e: paramiko.ChannelException, cancelled: Callable[[], bool]
    ) -> bool:
        """After a refused channel: until one of ours is closed (True), or a moment; at last an error."""
        end = time.monotonic() + SESSION_WAIT
        with self._room:
            while self._sessions and time.monotonic() < end and not cancelled():
                if self._room.wait(WANTED_TICK):
                    return True
        if cancelled():
            raise Interrupted(f"{self.target.name}: interrupted while it waited for a session")
        if refused >= CHANNEL_TRIES:
            raise HostUnreachable(
                f"{self.target.name}: the host opens no further session: {e}",
                hint="raise MaxSessions in its sshd_config, or wait for other commands to end",
            ) from e
        time.sleep(random.uniform(0.05, 0.3))  # noqa: S311 - jitter
        return False

    def _transport(self) -> paramiko.Transport:
        with self._lock:
            if self.closed:
                raise HostUnreachable(f"{self.target.name}: the connection was closed")
            if self._connection is None or not self._connection.is_connected:
                self._drop()
                self._open()
            transport: paramiko.Transport = self._connection.transport
            return transport

    def _open(self) -> None:
        try:
            self._open_once()
        except _TryError as first:
            if first.tries < 2:
                raise first.error from first.__cause__
            self._open_again(first)

    def _open_again(self, first: _TryError) -> None:
        # only now: a run whose connections come up needs none of it
        import tenacity

        def worth_it(state: tenacity.RetryCallState) -> bool:
            e = state.outcome.exception() if state.outcome else None
            return not isinstance(e, _TryError) or state.attempt_number + 1 >= e.tries

        patient = first.tries > QUICK_TRIES
        again = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_TryError),
            stop=worth_it,
            wait=tenacity.wait_random_exponential(multiplier=0.2, max=2.0 if patient else 0.6),
            reraise=True,
        )
        time.sleep(random.uniform(0.05, 0.5))  # noqa: S311 - jitter
        try:
            again(self._open_once)
        except _TryError as last:
            raise last.error from last.__cause__

    def _open_once(self) -> None:
        openfiles.ask_for_more()
        with openfiles.told_as_such(self.target.name):
            self._try_to_open()

    def _try_to_open(self) -> None:
        target = self.target
        entries = hostkeys.load(target.known_hosts)
        if target.required_key and not Path(target.required_key).is_file():
            raise AuthenticationFailed(
                f"{target.name}: key file {target.required_key} is not there",
                hint="see ansible_ssh_private_key_file",
            )
        # a jump host's connection first: it takes a place among the starts of its own
        if self._gate:
            self._gate._transport()
        with _starts.setdefault((target.address, target.port), threading.BoundedSemaphore(STARTS)):
            wire: Wire | None = None
            connection = fabric.Connection(
                target.address,
                user=target.user,
                port=target.port,
                config=fabric.Config(lazy=True),
                connect_timeout=target.connect_timeout,
            )
            try:
                wire = self._wire_up()
                connection.connect_kwargs = {
                    "sock": wire,
                    "password": self._password.reveal() if self._password else None,
                    "passphrase": self._passphrase.reveal() if self._passphrase else None,
                    "key_filename": list(target.keys) or None,
                    "allow_agent": target.use_agent,
                    "look_for_keys": target.default_keys,
                    "banner_timeout": target.connect_timeout,
                    "auth_timeout": AUTH_TIMEOUT,
                    "transport_factory": lambda sock, **_: self._new_transport(sock, entries),
                }
                connection.client.set_missing_host_key_policy(CheckedKeys(target, entries))
                connection.open()
                wire.watch(connection.transport)
            except BaseException as e:
                # fabric keeps a transport only when all went well; its client has it in any case
                transport = connection.client.get_transport()
                connection.client.close()
                if wire is not None:
                    wire.close()
                if isinstance(e, (paramiko.SSHException, OSError, EOFError)) and not openfiles.ran_out(e):
                    raise self._explain(e, transport=transport, wire=wire) from e
                raise
        self._connection, self._wire = connection, wire

    def _wire_up(self) -> Wire:
        target = self.target
        if self._gate:
            try:
                return Wire(self._gate.direct(target.address, target.port, target.connect_timeout))
            except paramiko.ChannelException as e:
                raise OSError(
                    errno.ECONNREFUSED, f"{self._gate.target.address} could not connect to it: {e}"
                ) from e
        sock = socket.create_connection((target.address, target.port), target.connect_timeout)
        # without it a command waits 40 ms for the acknowledgement of the one before
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Wire(sock)

    def _new_transport(self, wire: Any, entries: list[hostkeys.Entry]) -> paramiko.Transport:
        transport = paramiko.Transport(wire)
        transport.banner_timeout = self.target.connect_timeout
        options = transport.get_security_options()
        options.key_types = hostkeys.preferred(entries, self.target.known_hosts_name, list(options.key_types))
        # paramiko compares the MACs of the others byte by byte in Python: a tenth of a fleet run's time
        options.ciphers = sorted(options.ciphers, key=lambda name: "gcm" not in name)
        return transport

    def _explain(self, e: Exception, *, transport: paramiko.Transport | None, wire: Wire | None) -> _TryError:
        """What went wrong, in the words that name the fix."""
        target = self.target
        where = f"{target.name}: {target.place}"
        if isinstance(e, socket.gaierror):
            return _TryError(
                HostUnreachable(
                    f"{where}: the name does not resolve: {e.strerror}", hint="check ansible_host"
                )
            )
        if wire is None:
            if isinstance(e, TimeoutError):
                hint = "check ansible_host and the way there; ansible_timeout sets the wait"
                return _TryError(
                    HostUnreachable(f"{where}: no answer within {target.connect_timeout:g} s", hint=hint)
                )
            if isinstance(e, ConnectionRefusedError) or getattr(e, "errno", 0) == errno.ECONNREFUSED:
                why = f": {e.strerror}" if self._gate and isinstance(e, OSError) else ""
                hint = "is sshd running there, on this port?"
                return _TryError(HostUnreachable(f"{where}: connection refused{why}", hint=hint), QUICK_TRIES)
            return _TryError(
                HostUnreachable(f"{where}: {_text(e)}", hint="check ansible_host and the way there"),
                QUICK_TRIES,
            )
        if isinstance(e, paramiko.AuthenticationException) or "authentication" in type(e).__name__.lower():
            return _TryError(self._auth_error(e))
        if transport is None or not transport.remote_version:
            if not wire.why:
                return _TryError(
                    HostUnreachable(
                        f"{where}: the connection stands, but no banner came in {target.connect_timeout:g} s",
                        hint="is it sshd that listens there, and is the host too busy to answer?",
                    )
                )
            return _TryError(
                HostUnreachable(
                    f"{where}: dropped us before its banner ({wire.why})",
                    hint="too many connections at once (MaxStartups), a ban, or no sshd on this port",
                ),
                BANNER_TRIES,
            )
        if not transport.is_authenticated() and transport.initial_kex_done:
            return _TryError(self._auth_error(e))
        return _TryError(HostUnreachable(f"{where}: {_text(e)}"), QUICK_TRIES if wire.why else 1)

    def _auth_error(self, e: Exception) -> AuthenticationFailed:
        target = self.target
        tried = [f"key {k}" for k in target.keys]
        tried += ["the ssh agent"] if target.use_agent else []
        tried += ["~/.ssh/id_*"] if target.default_keys else []
        tried += ["a password"] if self._password else []
        hint = "check ansible_user and ansible_ssh_private_key_file, or load the key into an ssh agent"
        if isinstance(e, paramiko.PasswordRequiredException):
            hint = "a private key is encrypted: ssh-add it to an ssh agent, or set KLOPS_SSH_KEY_PASSPHRASE"
        elif self._passphrase is not None:
            hint = "does the passphrase (KLOPS_SSH_KEY_PASSPHRASE) open the key, and is it the right key?"
        return AuthenticationFailed(
            f"{target.name}: {target.place}: {target.user} was not let in: {_text(e)};"
            f" tried: {', '.join(tried)}",
            hint=hint,
        )

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._wire is not None:
            self._wire.close()
            self._wire = None


def _text(e: BaseException) -> str:
    return str(getattr(e, "strerror", "") or e) or type(e).__name__
