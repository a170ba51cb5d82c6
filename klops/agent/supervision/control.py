"""The supervisor's socket: one JSON line asks, one JSON line answers. The end that asks.

The path of a Unix socket has at most 107 bytes and a root may be longer, so both ends go through a
descriptor of the folder.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from klops.agent.errors import VerbError

_NAME = "supervisor.sock"
#: Code of the error when none answers.
NO_SUPERVISOR = "no-supervisor"


def through(run: str) -> tuple[int, str]:
    """A descriptor of the folder, and the socket's path by way of it. Raises ``OSError``."""
    fd = os.open(run, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return fd, f"/proc/self/fd/{fd}/{_NAME}"


def ask(run: str, request: dict[str, Any], timeout: float = 5.0) -> dict[str, Any] | None:
    """Ask the supervisor; None when none answers. Raises :class:`VerbError` for what it refuses."""
    try:
        fd, path = through(run)
    except OSError:
        return None
    import socket  # of the verbs that only read one asks

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
