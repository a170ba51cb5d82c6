"""What a host answered: asked once, forgotten after a change, asked again when it is old."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from klops.actions.base import Probe
from klops.actions.catalog import catalog
from klops.errors import CommandFailed, CommandTimeout, TaskFailed, UsageError
from klops.playbook.load.plays import load_playbook
from klops.playbook.localfiles import read_local
from klops.playbook.shipped import find
from klops.playbook.tasks.host import MAX_AGE, Replies
from klops.remote.base import DEFAULT_TIMEOUT, Reply
from klops.remote.fake import Call, FakeRemote
from klops.remote.filereads import StatRead
from klops.remote.reads import DigestRead, FileRead, FilesRead, Read
from tests.unit.playbook.onehost import Fleet

PROBE = Probe((FileRead("a", "/a"),))


def test_replies_are_kept_forgotten_and_age() -> None:
    now = 100.0
    remote = FakeRemote().on("/a", "A").on("/b", "B")
    replies = Replies(lambda: remote, clock=lambda: now)
    assert replies.of(PROBE, lambda: [FileRead("a", "/b")])["a"].text == "A"
    assert replies.of(Probe((FileRead("x", "/b"),)), list)["x"].text == "B"
    assert remote.commands_run == 1
    replies.forget()
    replies.of(PROBE, list)
    assert remote.commands_run == 2
    now += MAX_AGE
    replies.of(PROBE, list)
    assert remote.commands_run == 3


def test_what_is_fresh_stays_so_while_the_rest_is_read() -> None:
    now = 100.0

    def slow(_: Call) -> str:
        nonlocal now
        now += 40
        return "B"

    remote = FakeRemote().on("/a", "A").on("/b", slow)
    replies = Replies(lambda: remote, clock=lambda: now)
    replies.of(PROBE, list)
    now += MAX_AGE - 30
    found = replies.of(Probe((*PROBE.reads, FileRead("b", "/b"))), list)
    assert {key: reply.text for key, reply in found.items()} == {"a": "A", "b": "B"}
    assert remote.commands_run == 2


def test_what_somebody_else_changed_is_read_again() -> None:
    changes = 0
    remote = FakeRemote().on("/a", "A")
    replies = Replies(lambda: remote, changes=lambda: changes)
    replies.of(PROBE, list)
    replies.of(PROBE, list)
    changes += 1
    replies.of(PROBE, list)
    assert (remote.commands_run, replies.forgotten) == (2, 1)


def test_of_many_threads_one_takes_the_lock_and_each_gets_its_remote() -> None:
    fleet = Fleet({"h": {}})
    host = fleet.host("h")
    together = threading.Barrier(8)

    def work(number: int) -> None:
        together.wait(20)
        host.lock(True, fleet.settings("h"))
        host.remote(True, by=f"h{number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert fleet.locks["h"].taken == 1
    assert fleet.opened == [("h", True)]
    assert fleet.remotes["h"].clones == 8


def test_own_playbooks_win_over_shipped_ones(tmp_path: Path) -> None:
    path, origin = find("up.yml", working_directory=tmp_path)
    assert origin == "shipped"
    assert path.is_file()
    own = tmp_path / "playbooks" / "up.yml"
    own.parent.mkdir()
    own.write_text("")
    assert find("up.yml", working_directory=tmp_path) == (own, "local")
    with pytest.raises(UsageError, match="no playbook none"):
        find("none.yml", working_directory=tmp_path)


@pytest.mark.parametrize("folder", ["playbooks", "elsewhere"])
def test_a_copy_of_a_shipped_playbook_finds_the_shipped_template(tmp_path: Path, folder: str) -> None:
    shipped, _ = find("up.yml", working_directory=tmp_path)
    own = tmp_path / folder / "up.yml"
    own.parent.mkdir()
    own.write_bytes(shipped.read_bytes())
    load_playbook(own, catalog())
    name = "host-readme.txt.j2"
    assert read_local((own,), "templates", name) == read_local((shipped,), "templates", name)
    (own.parent / name).write_text("my own")
    assert read_local((own,), "templates", name) == b"my own"


def test_local_files_are_looked_for_beside_the_playbook(tmp_path: Path) -> None:
    playbook = tmp_path / "playbooks" / "p.yml"
    for place in ("templates/t", "playbooks/t", "playbooks/templates/t"):
        file = tmp_path / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(place)
        assert read_local((playbook,), "templates", "t").decode() == place
    assert read_local((playbook,), "files", str(tmp_path / "templates/t")) == b"templates/t"
    with pytest.raises(TaskFailed, match="is a folder"):
        read_local((playbook,), "files", "templates")


class Asked(FakeRemote):
    """Knows how long each batch might take; one of more than ``most`` reads is too much to answer.

    With ``lasting`` what is slow takes longer than any limit.
    """

    lasting = False

    def __init__(self, most: int = 9) -> None:
        super().__init__()
        self.most = most
        self.timeouts: list[float | None] = []
        self.on("", "x")

    def read(self, reads: Sequence[Read], *, timeout: float | None = DEFAULT_TIMEOUT) -> dict[str, Reply]:
        self.timeouts.append(timeout)
        if self.lasting and timeout is not None and any(read.slow for read in reads):
            raise CommandTimeout("it took too long")
        if len(reads) > self.most:
            raise CommandFailed("too much", code="output-limit")
        return super().read(reads, timeout=timeout)


def test_slow_reads_are_asked_with_the_rest_while_that_is_quick_enough() -> None:
    remote = Asked()
    replies = Replies(lambda: remote)
    replies.of(PROBE, lambda: [DigestRead("d", "/model")])
    assert remote.timeouts == [DEFAULT_TIMEOUT]


def test_a_digest_takes_as_long_as_it_takes_and_the_rest_has_its_limit() -> None:
    remote = Asked()
    remote.lasting = True
    replies = Replies(lambda: remote)
    replies.of(PROBE, list)
    replies.of(Probe((FileRead("b", "/b"),)), lambda: [DigestRead("d", "/model"), StatRead("s", "/b")])
    assert remote.timeouts == [DEFAULT_TIMEOUT] * 3 + [None]
    replies.of(Probe((StatRead("s", "/b", checksum="sha1"), FilesRead("f", "/b", ("c",), ("c",)))), list)
    assert remote.timeouts[4:] == [None]


def test_what_is_too_much_together_is_asked_for_without_looking_ahead() -> None:
    remote = Asked(most=1)
    replies = Replies(lambda: remote)
    assert replies.of(PROBE, lambda: [FileRead("b", "/b")])["a"].text == "x"
    assert len(remote.timeouts) == 2
    with pytest.raises(CommandFailed):
        replies.of(Probe((FileRead("c", "/c"), FileRead("d", "/d"))), list)
