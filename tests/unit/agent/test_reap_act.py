"""Rounds of signals: who gets which, and who is spared between two of them."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from klops.agent.audit import Audit
from klops.agent.errors import VerbError
from klops.agent.processes import identity, procs
from klops.agent.reaping import act
from klops.agent.reaping.act import Ender, Outcome
from klops.agent.reaping.judge import Finding, Verdict
from klops.agent.reaping.sight import Seen
from klops.agent.trouble import Troubles

STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
while True:
    signal.pause()
"""


class Start(Protocol):
    """Starts one."""

    def __call__(self) -> Finding: ...


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes that ignore TERM; ended after the test."""
    children: list[subprocess.Popen[bytes]] = []

    def one() -> Finding:
        child = subprocess.Popen([sys.executable, "-I", "-S", "-c", STUBBORN], stdout=subprocess.PIPE)
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        process = procs.read(child.pid)
        assert process is not None
        return Finding(Seen(process, process, 1, ""), "llm", "left behind")

    yield one
    for child in children:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds as in life, but for their length."""
    monkeypatch.setattr(act, "ROUNDS", tuple((number, 0.2) for number, _ in act.ROUNDS))


def verdict(*orphans: Finding) -> Verdict:
    """Nothing else is there."""
    return Verdict(list(orphans), [], [], [], [], [], [])


def outcomes(tmp_path: Path, first: Verdict, again: Callable[[], Verdict]) -> dict[tuple[int, int], Outcome]:
    """What comes of it."""
    audit = Audit(str(tmp_path / "audit.jsonl"), "a test", Troubles())
    ender = Ender(first, {one.seen.key for one in first.orphans}, again, audit)
    ender.run()
    return ender.outcomes


def test_one_that_is_taken_over_between_two_rounds_is_spared(tmp_path: Path, start: Start) -> None:
    taken, left = start(), start()
    looks = iter([verdict(taken, left), verdict(left), verdict()])
    found = outcomes(tmp_path, verdict(taken, left), lambda: next(looks))
    spared, ended = found[taken.seen.key], found[left.seen.key]
    assert (spared.action, spared.outcome, spared.note) == ("term", "skipped", "no longer left behind")
    assert (ended.action, ended.outcome) == ("kill", "gone")


def test_a_lock_that_is_lost_ends_all_signals(tmp_path: Path, start: Start) -> None:
    one = start()
    looks = iter([verdict(one)])

    def again() -> Verdict:
        for found in looks:
            return found
        raise VerbError("host-locked", "ann has the host's lock")

    [found] = outcomes(tmp_path, verdict(one), again).values()
    assert (found.action, found.outcome, found.note) == ("term", "alive", "ann has the host's lock")


def test_what_an_orphan_begets_meanwhile_is_ended_with_it_and_a_spared_one_isnt(
    tmp_path: Path, start: Start
) -> None:
    parent, spared = start(), start()
    spared = spared._replace(spared="only 1 s old")
    child = start()._replace(spared="only 0 s old")
    looks = iter([verdict(parent, spared), verdict(parent, spared, child), verdict(spared)])
    found = outcomes(tmp_path, verdict(parent, spared), lambda: next(looks))
    assert {key: one.outcome for key, one in found.items()} == {
        parent.seen.key: "gone",
        child.seen.key: "gone",
    }


def test_one_that_outlives_kill_is_called_so_after_a_bounded_number_of_tries(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = start()
    sent: list[object] = []

    def signal_of(*words: object) -> str:
        sent.append(words[4])
        return "sent"

    monkeypatch.setattr(Audit, "signal", signal_of)
    [found] = outcomes(tmp_path, verdict(one), lambda: verdict(one)).values()
    assert (found.action, found.outcome) == ("kill", "unkillable")
    assert "in state S" in found.note
    assert sent == [signal.SIGTERM] + [signal.SIGKILL] * 3


def test_a_signal_that_is_refused_leaves_it_alive_and_says_so(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = start()
    monkeypatch.setattr(Audit, "signal", lambda *_: "refused: Operation not permitted")
    [found] = outcomes(tmp_path, verdict(one), lambda: verdict(one)).values()
    assert (found.action, found.outcome) == ("none", "alive")
    assert found.note == "refused: Operation not permitted"


def test_a_pid_that_is_anothers_by_now_gets_no_signal(tmp_path: Path, start: Start) -> None:
    one = start()
    process = one.seen.process
    before = one._replace(seen=one.seen._replace(process=process._replace(start=process.start - 1)))
    [found] = outcomes(tmp_path, verdict(before), lambda: verdict(before)).values()
    assert (found.action, found.outcome) == ("none", "gone")
    assert identity.alive(identity.of(process))
    assert not (tmp_path / "audit.jsonl").exists()


def test_a_refusal_of_an_earlier_round_says_nothing_of_a_later_one(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = start()
    answers = iter(["refused: Operation not permitted", "sent", "sent", "sent"])
    monkeypatch.setattr(Audit, "signal", lambda *_: next(answers))
    [found] = outcomes(tmp_path, verdict(one), lambda: verdict(one)).values()
    assert (found.action, found.outcome) == ("kill", "unkillable")
    assert found.note.startswith("it outlives KILL")


def test_where_there_is_no_hold_on_one_the_others_have_their_turn(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = start(), start()
    hold, tried = identity.hold, []

    def short(who: identity.Identity) -> identity.Handle | None:
        if who.pid == first.seen.process.pid:
            tried.append(who)
            raise OSError(errno.EMFILE, "Too many open files")
        return hold(who)

    monkeypatch.setattr(identity, "hold", short)
    both = verdict(first, second)
    found = outcomes(tmp_path, both, lambda: both)
    assert (found[first.seen.key].outcome, found[second.seen.key].outcome) == ("alive", "gone")
    assert found[first.seen.key].note == "no hold on it: Too many open files"
    assert len(tried) == len(act.ROUNDS)


def test_a_look_that_fails_loses_nothing_of_what_was_done(tmp_path: Path, start: Start) -> None:
    one = start()
    looks = iter([verdict(one)])

    def again() -> Verdict:
        for found in looks:
            return found
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    [found] = outcomes(tmp_path, verdict(one), again).values()
    assert (found.action, found.outcome) == ("term", "alive")
    assert found.note == "it could not be gone on with: Cannot allocate memory"
