"""``klops sync``, ``klops releases`` and ``klops rollback`` as they are typed, and what they print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from klops.cli import running
from klops.cli.session import Session
from klops.errors import KlopsError, TaskFailed
from klops.playbook.results import PlayRun, RunResult, Status, TaskResult, TaskRun
from tests.unit.agent.generations.root import Root
from tests.unit.cli.conftest import LocalHost

FIRST, SECOND = f"{'a' * 12}-{'1' * 12}", f"{'b' * 12}-{'2' * 12}"
SYNCED = {
    "release": "abc-1",
    "current": "abc-1",
    "commit": "abc",
    "digest": "0" * 64,
    "files": 2000,
    "sent_files": 3,
    "sent_bytes": 1536,
    "normalised": 4,
}


class Engine:
    """Takes the place of the engine: what a run registers, and what the runs so far were asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.action = "klops.source"
        self.values: Mapping[str, Any] = {**SYNCED, "imports": []}
        self.error: KlopsError | None = None

    def run(self, session: Session, path: Any, origin: str, *, extra: Any = None, **_: Any) -> RunResult:
        """A run in which the last task may fail."""
        self.asked.append((path.name, dict(extra or {})))
        done = TaskResult(Status.CHANGED, values={**self.values, "changed": True})
        tasks = [TaskRun("t", self.action, {"here": done})]
        errors = {}
        if self.error is not None:
            tasks.append(
                TaskRun(
                    "u",
                    "klops.rollback",
                    {"here": TaskResult(Status.FAILED, values=self.error.values, error=self.error)},
                )
            )
            errors["here"] = self.error
        play = PlayRun("p", ("here",), tasks)
        check = session.common.check
        return RunResult("p.yml", check=check, plays=[play], hosts=("here",), errors=errors)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Nothing is run."""
    made = Engine()
    monkeypatch.setattr(running, "run_playbook", made.run)
    return made


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        ([], {}),
        (["--ref", "v1:src"], {"ref": "v1:src"}),
        (["--dirty", "--no-restart"], {"dirty": True, "restart": False}),
    ],
)
def test_options_become_variables_of_the_playbook(
    host: LocalHost, engine: Engine, typed: list[str], asked: dict[str, Any]
) -> None:
    assert host.klops("sync", "here", *typed)[0] == 0
    assert engine.asked == [("sync.yml", asked)]


def test_the_document_of_a_sync(host: LocalHost, engine: Engine) -> None:
    rc, document = host.json("sync", "here")
    assert (rc, document["hosts"]) == (0, {"here": SYNCED})
    assert {"plays", "recap", "remote_commands", "seconds"} <= set(document)


def test_what_was_gone_back_from_is_told_beside_the_error(host: LocalHost, engine: Engine) -> None:
    engine.error = TaskFailed("generation 3 serves again", code="rolled-back", values={"current": "old-9"})
    rc, document = host.json("sync", "here")
    assert (rc, document["ok"]) == (1, False)
    shown = document["hosts"]["here"]
    assert (shown["release"], shown["current"]) == ("abc-1", "old-9")
    assert shown["error"]["code"] == "rolled-back"
    _, out, _ = host.klops("sync", "here")
    assert out.rstrip().endswith(" does not stand: old-9 is current")


def test_where_going_back_failed_nobody_says_what_is_current(host: LocalHost, engine: Engine) -> None:
    engine.error = TaskFailed("boom", code="rollback-failed", values={"current": None})
    assert host.json("sync", "here")[1]["hosts"]["here"]["current"] is None
    _, out, _ = host.klops("sync", "here")
    assert out.rstrip().endswith(" does not stand: klops releases shows what is current")


def test_people_read_one_line_a_host(host: LocalHost, engine: Engine) -> None:
    _, out, _ = host.klops("sync", "here")
    assert "here: release abc-1 (3 of 2000 files sent, 1.5 KiB; line endings of 4 made LF)\n" in out
    _, out, _ = host.klops("sync", "here", "--check")
    assert "here: release abc-1 (2000 files; line endings of 4 made LF)\n" in out


def test_with_a_playbook_that_has_no_use_for_an_option_nothing_runs(host: LocalHost, engine: Engine) -> None:
    (host.home / "playbooks").mkdir()
    (host.home / "playbooks" / "sync.yml").write_text("- hosts: all\n  tasks:\n    - klops.source: {}\n")
    rc, document = host.json("sync", "here", "--ref", "v1")
    assert (rc, document["error"]["code"], engine.asked) == (2, "usage", [])
    assert "gives klops.source the parameter ref" in document["error"]["message"]


def test_rollback_shows_the_status(host: LocalHost, engine: Engine) -> None:
    engine.action, engine.values = "klops.status", {"services": {}, "source": {"release": "a"}}
    rc, document = host.json("rollback", "here", "--to", "7")
    assert (rc, engine.asked) == (0, [("rollback.yml", {"to": 7})])
    assert document["hosts"]["here"] == {"services": {}, "source": {"release": "a"}}
    assert host.klops("rollback", "here")[0] == 0
    assert engine.asked[-1] == ("rollback.yml", {})
    assert host.klops("rollback", "here", "--to", "0")[0] == 2


@pytest.fixture
def listed(host: LocalHost) -> LocalHost:
    """A host on which one release served, and the next one didn't."""
    host.container()
    host.agent()
    root = Root(host.root)
    root.release(FIRST)
    root.unit()
    root.note()
    root.release(SECOND)
    root.note("bad", error="main failed: boom\nits last lines")
    root.release(FIRST)
    return host


def test_the_document_of_releases(listed: LocalHost) -> None:
    rc, document = listed.json("releases", "here")
    assert rc == 0
    shown = document["hosts"]["here"]
    assert (shown["current"], shown["generation"]) == (FIRST, 1)
    assert [(one["number"], one["health"]) for one in shown["generations"]] == [(2, "bad"), (1, "good")]
    # what lies there has no whole manifest
    assert (shown["releases"], len(shown["faults"])) == ([], 2)


def test_people_see_which_one_stands(listed: LocalHost) -> None:
    rc, out, _ = listed.klops("releases", "here")
    assert rc == 0
    assert "\n* 1        good" in out
    assert "\n  2        bad " in out
    assert "  generation 2: main failed: boom\n" in out
    assert f"the manifest of release {SECOND} can't be read" in out


def test_without_a_container_there_is_nothing_to_list(host: LocalHost) -> None:
    rc, document = host.json("releases", "here")
    assert (rc, document["hosts"]["here"]["error"]["code"]) == (1, "container-absent")
