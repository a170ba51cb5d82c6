"""The environment of a task reaches what is read and what is run, and is in no argv."""

from __future__ import annotations

from klops.remote.base import Remote
from klops.remote.environment import EnvironmentRemote, with_environment
from klops.remote.fake import FakeRemote
from klops.remote.local import LocalRemote
from klops.remote.reads import DigestRead, FileRead, Read
from klops.remote.systemreads import CrontabRead

SAID = 'it\'s $HOME `x`\n"y"'


class Said(Read):
    """The variable SAID."""

    @property
    def script(self) -> str:
        return 'printf %s "$SAID"'


def local() -> Remote:
    return LocalRemote("here")


def test_a_read_sees_the_variables_as_they_are() -> None:
    (read,) = with_environment([Said("env")], {"SAID": SAID})
    reply = local().read([read])["env"]
    assert reply.text == SAID


def test_one_read_of_a_batch_leaves_the_others_alone() -> None:
    (own,) = with_environment([Said("own")], {"SAID": "x"})
    replies = local().read([own, Said("other")])
    assert (replies["own"].text, replies["other"].text) == ("x", "")


def test_without_variables_a_read_is_the_same_question() -> None:
    read = FileRead("a", "/a")
    assert with_environment([read], {}) == (read,)


def test_what_takes_long_still_does() -> None:
    digest, crontab = with_environment([DigestRead("d", "/a"), CrontabRead("c")], {"A": "b"})
    assert (digest.slow, crontab.slow) == (True, False)


def test_commands_and_reads_of_steps() -> None:
    inner = FakeRemote().on("", "")
    remote = EnvironmentRemote(inner, {"A": "outer", "B": "b"})
    remote.run(["x"], env={"A": "own"})
    remote.read([FileRead("a", "/a")])
    run, read = inner.log
    assert run.env == {"A": "own", "B": "b"}
    assert read.text.startswith("export A=outer\nexport B=b\n")
    assert remote.commands_run == 2
