"""Commands in containers: what is said of a command that can't be ended, or can't be reached any more."""

from __future__ import annotations

import re
from typing import Any

import pytest

from klops.errors import CommandTimeout, ConnectionLost, HostUnreachable, Interrupted, KlopsError
from klops.remote.base import Given, OnOutput
from klops.remote.container import ContainerRemote
from klops.remote.fake import Answer, FakeRemote, reply

SHELL = "process 96 \\(start 4711\\) of container box"


class Broken(FakeRemote):
    """A host on which a command in a container begins, and then goes wrong."""

    def __init__(self, error: KlopsError, ending: Answer) -> None:
        super().__init__("host1")
        self.error = error
        self.on("exec", ending)

    def stream(
        self, argv: Any, *, on_stdout: OnOutput, on_stderr: OnOutput, stdin: Given = b"", **_: Any
    ) -> int:
        assert isinstance(stdin, bytes)
        found = re.search(rb"@@%s B [^']*' ([0-9a-f]{32})", stdin)
        assert found is not None
        on_stdout(b"\n@@" + found.group(1) + b" B 96 96 4711\n")
        raise self.error


@pytest.mark.parametrize(
    ("error", "ending", "said"),
    [
        (CommandTimeout("late"), reply(), "sleep 9 did not end within 5 s, and was ended$"),
        (CommandTimeout("late"), reply(rc=1), f"within 5 s; {SHELL} could not be ended and still runs"),
        (CommandTimeout("late"), HostUnreachable("away"), f"{SHELL} may still run \\(away\\)"),
        (Interrupted("x"), reply(rc=1), f"was interrupted; {SHELL} could not be ended and still runs"),
        (ConnectionLost("lost it"), reply(), f"lost it; {SHELL} ends by itself when the host sees"),
    ],
)
def test_what_is_left_is_named(error: KlopsError, ending: Answer, said: str) -> None:
    host = Broken(error, ending)
    with pytest.raises(type(error), match=said):
        ContainerRemote(host, ["docker"], "box").run(["sleep", "9"], timeout=5)
    ended = [call for call in host.log if call.kind == "run"]
    assert len(ended) == (0 if isinstance(error, ConnectionLost) else 1)
    assert all(b"= 4711 ]" in call.stdin for call in ended), "ended by its identity"
