"""A socket that notices when the other side has gone silent.

paramiko sends keepalives but never looks for an answer, so a peer behind a dead link is waited for as long as
TCP waits. Here a question is asked when the link was idle; an answer, or any other byte, must come in time.
paramiko's own thread calls ``recv`` ten times a second and thereby notices; a writer that is stuck notices in
``send``.
"""

from __future__ import annotations

import errno
import threading
import time
from typing import Any

#: Seconds without traffic after which a question is asked.
ASK_AFTER = 5.0
#: Seconds in which something must be heard after a question.
ANSWER_WITHIN = 9.0


class Wire:
    """Wraps a socket or a forwarded channel for :class:`paramiko.Transport`."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._asked = 0.0
        #: why the link is dead, "" while it isn't known to be
        self.why = ""

    def recv(self, size: int) -> bytes:
        """As of a socket; a link known to be dead raises ``OSError``."""
        try:
            data: bytes = self._sock.recv(size)
        except TimeoutError:
            self._check()
            raise
        except OSError as e:
            self.why = self.why or e.strerror or str(e)
            raise
        if data:
            self._asked = 0.0
        else:
            self.why = self.why or "closed by the other side"
        return data

    def send(self, data: bytes) -> int:
        """As of a socket; a link known to be dead raises ``OSError``."""
        try:
            return int(self._sock.send(data))
        except TimeoutError:
            self._check()
            raise

    def watch(self, transport: Any) -> None:
        """Ask from now on, through paramiko's hook for keepalives."""

        def ask() -> None:
            if self._asked:
                return
            self._asked = time.monotonic()
            # it waits for the answer, and this is the thread that would receive it
            threading.Thread(target=_ask, args=(transport,), name="klops-keepalive", daemon=True).start()

        transport.packetizer.set_keepalive(ASK_AFTER, ask)

    def _check(self) -> None:
        if self._asked and time.monotonic() - self._asked > ANSWER_WITHIN:
            self.why = f"no answer for {ASK_AFTER + ANSWER_WITHIN:.0f} s"
            # not ETIMEDOUT: OSError would turn that into TimeoutError, which paramiko takes for "nothing yet"
            raise ConnectionAbortedError(errno.ECONNABORTED, self.why)

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


def _ask(transport: Any) -> None:
    from paramiko import SSHException

    try:
        transport.global_request("keepalive@openssh.com", wait=True)
    except (SSHException, EOFError, OSError):
        return  # the link is gone, and whoever uses it is told by paramiko
