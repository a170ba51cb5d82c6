"""Verbs of one agent that only read are asked together, as a shell carries that out."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from klops.commands.reaping import Place
from klops.remote.base import Reply
from klops.remote.containerreads import AgentRead, ReapRead
from klops.remote.folding import Folded, fold
from klops.remote.reads import FileRead, Read
from klops.remote.script import Opening, batch_replies, batch_script

MARKER = "0123456789abcdef"


def agent(key: str, verb: str, container: str = "c", docker: str = "docker") -> AgentRead:
    return AgentRead(key, (docker,), container, "python3", "/k/agent/current", verb, ("--root", "/k x"))


READS: list[Read] = [
    agent("a", "status"),
    FileRead("f", "/nowhere"),
    agent("b", "releases"),
    agent("again", "status"),
    agent("other", "status", container="d"),
]


def sent(folded: Folded) -> list[str]:
    """The scripts of all lanes."""
    return [one for lane in folded.lanes for one in lane]


def test_what_goes_to_one_agent_is_one_command() -> None:
    folded = fold(READS)
    together = [shlex.split(one) for one in sent(folded) if " several " in one]
    (argv,) = together
    assert argv[:3] == ["docker", "exec", "c"]
    assert json.loads(argv[-1]) == [["status", "--root", "/k x"], ["releases", "--root", "/k x"]]
    assert set(folded.alone) == {read.script for read in READS}


def test_one_alone_is_asked_as_ever() -> None:
    reads = [agent("a", "status"), agent("b", "status"), FileRead("f", "/x")]
    assert fold(reads).lanes == ((reads[2].script,), (reads[0].script,))


def test_what_is_asked_of_containers_is_asked_beside_the_rest() -> None:
    place = Place(("docker",), "c", "python3", "/k", "/dev")
    reads = [ReapRead("r", place), *READS]
    lanes = fold(reads).lanes
    assert [len(lane) for lane in lanes] == [1, 1, 3, 1]
    assert lanes[0] == (READS[1].script,)
    assert lanes[1] == (reads[0].script,)
    # those that stand in for the one know how that ended
    assert lanes[2][1] == f"[ $_r2 != 0 ] || exit 0\n{READS[0].script}"
    found = fold(reads).replies([Reply(0, b'[[0, "x", ""], [0, "y", ""]]')] * 6)
    assert [found[READS[index].script].stdout for index in (0, 2)] == [b"x", b"y"]
    assert found[READS[4].script].stdout.startswith(b"[[")


@pytest.mark.parametrize("said", [b"", b"[]", b"[[0, 1]]", b"no JSON", b'[["x", "", ""], [0, "", ""]]'])
def test_what_is_no_answer_is_none_to_any_of_them(said: bytes) -> None:
    folded = fold(READS)
    answers = [Reply(0, said if " several " in one else b"") for one in sent(folded)]
    replies = folded.replies(answers)
    assert [replies[READS[index].script].rc for index in (0, 2, 4)] == [1, 1, 0]


#: Stands in for docker: how it answers ``several``, and what it says of each call.
DOCKER = """#!/bin/sh
echo "$2 $8" >>"$0.log"
[ "$8" != several ] || { %s; }
echo "alone $8"
"""


def asked(tmp_path: Path, several: str) -> tuple[dict[str, Reply], list[str]]:
    """Replies by key, and the verbs that were asked for, in order."""
    docker = tmp_path / "docker"
    docker.write_text(DOCKER % several)
    docker.chmod(0o755)
    reads: list[Any] = [agent("a", "status", docker=str(docker)), agent("b", "ps", docker=str(docker))]
    folded = fold([*reads, FileRead("f", "/nowhere")])
    script = batch_script(folded.lanes, MARKER)
    done = subprocess.run(["sh", "-c", 'eval "$(cat)"'], input=script, capture_output=True, check=True)
    out, err = Opening(MARKER), Opening(MARKER)
    answers = batch_replies(out.feed(done.stdout), err.feed(done.stderr), MARKER, len(sent(folded)))
    replies = folded.replies(answers)
    assert replies[FileRead("f", "/nowhere").script].rc == 44
    log = (tmp_path / "docker.log").read_text().splitlines()
    return {read.key: replies[read.script] for read in reads}, [line.split()[1] for line in log]


def test_all_is_answered_by_one_call(tmp_path: Path) -> None:
    said = json.dumps([[3, "one\udcff", "e"], [0, "two", ""]])
    replies, calls = asked(tmp_path, f"printf '%s\\n' {shlex.quote(said)}; exit 0")
    assert replies == {"a": Reply(3, b"one\xff", b"e"), "b": Reply(0, b"two", b"")}
    assert calls == ["several"]


@pytest.mark.parametrize("fails", ["echo verbs: status, ps; exit 2", "exit 137", "echo '[[0, '; exit 1"])
def test_an_agent_that_can_t_is_asked_for_each_in_the_same_command(tmp_path: Path, fails: str) -> None:
    replies, calls = asked(tmp_path, fails)
    assert replies == {"a": Reply(0, b"alone status\n", b""), "b": Reply(0, b"alone ps\n", b"")}
    assert calls == ["several", "status", "ps"]
