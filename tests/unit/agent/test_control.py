"""The supervisor's socket."""

from __future__ import annotations

import errno
import json
import os
import selectors
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from klops.agent.errors import VerbError
from klops.agent.supervision import control, serving


@pytest.fixture(params=[10, 200], ids=["short-path", "path-beyond-108-bytes"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder for the socket."""
    folder = tmp_path / ("r" * int(request.param))
    folder.mkdir()
    return str(folder)


@pytest.fixture
def server(run: str) -> Iterator[str]:
    """A server that answers with what it was asked, or refuses; returns its folder."""

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        if "refuse" in request:
            raise VerbError("no", "refused", "try later")
        if "full" in request:
            raise OSError(errno.ENOSPC, "No space left on device", "/r/x")
        if "odd" in request:
            return {"asked": request[request["odd"]]}
        return {"asked": request}

    (Path(run) / "supervisor.sock").touch()  # what a supervisor that was killed left
    selector = selectors.DefaultSelector()
    ends, end = os.pipe()
    selector.register(ends, selectors.EVENT_READ, None)
    served = serving.Server(run, selector, answer)

    def serve() -> None:
        while True:
            for key, _ in selector.select():
                if key.data is None:
                    return
                key.data()

    thread = threading.Thread(target=serve)
    thread.start()
    yield run
    os.write(end, b".")
    thread.join(10)
    served.close()
    selector.close()
    os.close(ends)
    os.close(end)
    assert list(Path(run).iterdir()) == []


def test_question_and_answer(server: str) -> None:
    assert control.ask(server, {"verb": "status"}) == {"asked": {"verb": "status"}}
    with pytest.raises(VerbError, match="refused") as caught:
        control.ask(server, {"refuse": True})
    assert caught.value.as_json() == {"code": "no", "message": "refused", "hint": "try later"}
    with pytest.raises(VerbError, match="/r/x: No space left on device") as caught:
        control.ask(server, {"full": True})
    assert caught.value.code == "system"
    assert (Path(server) / "supervisor.sock").stat().st_mode & 0o777 == 0o600


def test_a_silent_client_and_a_rude_one_hold_up_nobody(server: str) -> None:
    folder = os.open(server, os.O_PATH)
    silent, rude = (socket.socket(socket.AF_UNIX) for _ in range(2))
    with silent, rude:
        for client in (silent, rude):
            client.connect(f"/proc/self/fd/{folder}/supervisor.sock")
        silent.sendall(b'{"verb"')
        rude.sendall(b"[1, 2]\n")
        assert json.loads(rude.recv(65536))["error"]["code"] == "bad-request"
        assert control.ask(server, {"verb": "x"}) == {"asked": {"verb": "x"}}
    os.close(folder)


def test_a_request_that_nobody_reckoned_with_is_told_and_ends_no_supervisor(
    server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for odd in ("nothing", ["no key"]):
        with pytest.raises(VerbError, match="could not be answered") as caught:
            control.ask(server, {"odd": odd})
        assert caught.value.code == "internal"
    assert (
        "klops supervisor: a request could not be answered: KeyError: 'nothing' (" in capsys.readouterr().err
    )
    folder = os.open(server, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as deep:
        deep.connect(f"/proc/self/fd/{folder}/supervisor.sock")
        deep.sendall(b"[" * 50000 + b"\n")
        assert json.loads(deep.recv(65536))["error"]["code"] == "bad-request"
    os.close(folder)
    assert control.ask(server, {"verb": "x"}) == {"asked": {"verb": "x"}}


def test_nobody_answers(run: str) -> None:
    assert control.ask(run, {}) is None
    (Path(run) / "supervisor.sock").touch()
    assert control.ask(run, {}) is None
    assert control.ask(run + "/nowhere", {}) is None
    with pytest.raises(VerbError, match="no supervisor answers"):
        control.insist(run, {}, patience=0)
