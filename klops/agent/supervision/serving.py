"""The supervisor's socket, the end that answers: :mod:`klops.agent.supervision.control` is the other."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import time
from typing import Any, Callable

from klops.agent.errors import INTERNAL, VerbError, system_error
from klops.agent.supervision.control import through
from klops.agent.trouble import fault, say

#: Bytes of a request, and seconds it may take to arrive.
_LONGEST = 65536
_PATIENCE = 5.0


class Server:
    """Answers requests inside the supervisor's loop; a slow or silent client holds up nobody."""

    def __init__(
        self, run: str, selector: selectors.BaseSelector, answer: Callable[[dict[str, Any]], Any]
    ) -> None:
        self._selector = selector
        self._answer = answer
        self._clients: dict[socket.socket, tuple[bytearray, float]] = {}
        self._run = run
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        fd, path = through(run)
        try:
            # the caller holds the supervisors' lock, so what lies there is stale
            if os.path.lexists(path):
                os.unlink(path)
            self._socket.bind(path)
            os.chmod(path, 0o600)
        finally:
            os.close(fd)
        self._socket.listen(16)
        self._socket.setblocking(False)
        selector.register(self._socket, selectors.EVENT_READ, self._accept)

    def _accept(self) -> None:
        try:
            client, _ = self._socket.accept()
        except OSError:
            return  # it went away again
        client.setblocking(False)
        self._clients[client] = (bytearray(), time.monotonic())
        self._selector.register(client, selectors.EVENT_READ, lambda: self._read(client))

    def _read(self, client: socket.socket) -> None:
        buffer, _ = self._clients[client]
        try:
            part = client.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        buffer += part
        if part and b"\n" not in buffer and len(buffer) < _LONGEST:
            return
        if b"\n" in buffer:
            self._reply(client, bytes(buffer))
        self._drop(client)

    def _reply(self, client: socket.socket, line: bytes) -> None:
        try:
            reply = self._answer(_request(line))
        except VerbError as error:
            reply = {"error": error.as_json()}
        except OSError as error:
            reply = {"error": system_error(error).as_json()}
        except Exception as error:  # whoever asks for something odd ends no supervisor of all units
            said = f"a request could not be answered: {fault(error)}"
            say(said)
            hint = "report it with the log of the container"
            reply = {"error": VerbError(INTERNAL, f"the supervisor: {said}", hint).as_json()}
        try:
            client.settimeout(1.0)
            client.sendall(json.dumps(reply).encode("ascii") + b"\n")
        except OSError:
            return  # the client went away: it will ask again

    def _drop(self, client: socket.socket) -> None:
        self._selector.unregister(client)
        del self._clients[client]
        client.close()

    def expire(self, now: float) -> None:
        """Drop clients that say nothing."""
        for client, (_, since) in list(self._clients.items()):
            if now - since > _PATIENCE:
                self._drop(client)

    def close(self) -> None:
        """Stop answering and remove the socket."""
        for client in list(self._clients):
            self._drop(client)
        self._selector.unregister(self._socket)
        self._socket.close()
        with contextlib.suppress(OSError):  # the next supervisor removes what is left
            fd, path = through(self._run)
            try:
                os.unlink(path)
            finally:
                os.close(fd)


def _request(line: bytes) -> dict[str, Any]:
    """What a line asks for. Raises :class:`VerbError` for one that is no JSON object."""
    found = None
    # RecursionError: brackets without an end
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(line)
    if not isinstance(found, dict):
        raise VerbError("bad-request", "a request is one JSON object in a line")
    return found
