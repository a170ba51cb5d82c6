"""The fake host that other tests stand on."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest

from klops.errors import CommandFailed, HostUnreachable
from klops.remote.fake import Call
from klops.remote.reads import FileRead
from klops.testing import FakeRemote, UnexpectedCallError, reply


def test_rules_and_log() -> None:
    host = FakeRemote("h").on("docker", "plain").on(re.compile("^docker rm "), reply(rc=1, stderr="in use"))
    assert host.run(["docker", "ps"]).text == "plain"
    with pytest.raises(CommandFailed, match="in use") as caught:
        host.run(["docker", "rm", "a b"])
    assert caught.value.rc == 1
    assert host.commands == ["docker ps", "docker rm 'a b'"]
    assert host.commands_run == 2


def test_reads_are_one_command() -> None:
    host = FakeRemote().on("/a", "A").on("/b", lambda call: reply(call.read.key if call.read else "", rc=44))
    replies = host.read([FileRead("a", "/a"), FileRead("b", "/b")])
    assert (replies["a"].text, replies["b"].rc, replies["b"].text) == ("A", 44, "b")
    assert host.commands_run == 1


def test_what_was_not_expected_fails_the_test() -> None:
    with pytest.raises(UnexpectedCallError, match="no rule for run: true"):
        FakeRemote().run(["true"])


def test_unreachable() -> None:
    with pytest.raises(HostUnreachable, match="h: no route"):
        FakeRemote("h", unreachable="no route").put(b"", "/x")


def test_files_connections_and_streams() -> None:
    host = FakeRemote().on("follow", reply("out", stderr="err", rc=5))
    host.put(b"data", "/x", mode=0o600)
    assert host.files == {"/x": (b"data", 0o600)}
    with pytest.raises(ConnectionRefusedError):
        host.connect("127.0.0.1", 8000, timeout=1)
    seen: list[bytes] = []
    assert host.stream(["follow"], on_stdout=seen.append, on_stderr=seen.append) == 5
    assert seen == [b"out", b"err"]


def test_pieces_of_input_are_taken_whole() -> None:
    host = FakeRemote().on("take", lambda call: reply(call.stdin.upper()))
    seen: list[bytes] = []
    assert host.stream(["take"], on_stdout=seen.append, on_stderr=seen.append, stdin=iter([b"a", b"b"])) == 0
    assert seen == [b"AB"]


def test_input_may_be_an_answer_to_what_was_said() -> None:
    def program(call: Call) -> str:
        return {b"ask": "lacking\n", b"ask.": "lacking\n.done\n"}.get(call.stdin, "")

    host, seen, waited = FakeRemote().on("send", program), list[bytes](), list[bytes]()

    def pieces() -> Iterator[bytes | None]:
        yield b"ask"
        while not seen:
            waited.append(b"")
            yield None
        yield b"."

    assert host.stream(["send"], on_stdout=seen.append, on_stderr=seen.append, stdin=pieces()) == 0
    assert (seen, len(waited)) == ([b"lacking\n", b".done\n"], 1)
    (call,) = host.log
    assert call.stdin == b"ask."


def test_who_says_no_more_gets_no_more() -> None:
    host, seen = FakeRemote().on("send", reply("refused", rc=1)), list[bytes]()
    stdin = itertools.repeat(None)
    assert host.stream(["send"], on_stdout=seen.append, on_stderr=seen.append, stdin=stdin) == 1
    assert seen == [b"refused"]
