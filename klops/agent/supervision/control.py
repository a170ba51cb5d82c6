"""The supervisor's socket: one JSON line asks, one JSON line answers. Both ends.

The path of a Unix socket has at most 107 bytes and a root may be longer, so both ends go through a
descriptor of the folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import time
from typing import Any, Callable

from klops.agent.errors import VerbError, system_error

_NAME = "supervisor.sock"
#: Code of the error when none answers.
NO_SUPERVISOR = "no-supervisor"
#: Bytes of a request, and seconds it may take to arrive.
_LONGEST = 65536
_PATIENCE = 5.0


def _through(run: str) -> tuple[int, str]:
    fd = os.open(run, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return fd, f"/proc/self/fd/{fd}/{_NAME}"


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
        fd, path = _through(run)
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
            reply = self._answer(dict(json.loads(line)))
        except VerbError as error:
            reply = {"error": error.as_json()}
        except (TypeError, ValueError):
            reply = {"error": VerbError("bad-request", "a request is one JSON object in a line").as_json()}
        except OSError as error:
            reply = {"error": system_error(error).as_json()}
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
            fd, path = _through(self._run)
            try:
                os.unlink(path)
            finally:
                os.close(fd)


def ask(run: str, request: dict[str, Any], timeout: float = 5.0) -> dict[str, Any] | None:
    """Ask the supervisor; None when none answers. Raises :class:`VerbError` for what it refuses."""
    try:
        fd, path = _through(run)
    except OSError:
        return None
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        client.settimeout(timeout)
        client.connect(path)
        client.sendall(json.dumps(request).encode("ascii") + b"\n")
        data = b""
        while not data.endswith(b"\n"):
            part = client.recv(65536)
            if not part:
                return None  # it ended in the middle of the answer
            data += part
    except OSError:
        return None
    finally:
        client.close()
        os.close(fd)
    reply: dict[str, Any] = json.loads(data)
    if "error" in reply:
        raise VerbError(**reply["error"])
    return reply


def insist(run: str, request: dict[str, Any], patience: float = 15.0) -> dict[str, Any]:
    """Ask until a supervisor answers: its launcher starts it again when it dies."""
    deadline = time.monotonic() + patience
    while True:
        reply = ask(run, request)
        if reply is not None:
            return reply
        if time.monotonic() > deadline:
            raise VerbError(
                NO_SUPERVISOR,
                f"no supervisor answers on {run}/{_NAME}",
                "klops up starts one; docker logs of a container that klops made says what became of it",
            )
        time.sleep(0.1)
