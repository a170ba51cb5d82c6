"""Batches on real rank processes with a stand-in torch that sees no card: which processes run what."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from klops.agent import store
from klops.agent.audit import Audit
from klops.agent.errors import VerbError
from klops.agent.processes import procs
from klops.agent.trouble import Troubles
from klops.agent.units.lineage import Lineage
from klops.agent.xccl.ranks.pool import Pool, Setting
from klops.agent.xccl.runner import Limits, Runner
from klops.cards.xccl import results
from klops.cards.xccl.results import Batch
from klops.remote import agentpackage
from klops.sim import rankside
from tests.waiting import until

CARDS = (6, 4, 5)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    """Ranks of which nothing is left afterwards."""
    paths = store.Paths(str(tmp_path / "root"))
    paths.make()
    folder = Path(paths.ranks_folder)
    folder.mkdir()
    package = tmp_path / "agent.pyz"
    package.write_bytes(agentpackage.build().data)
    rankside.write(tmp_path / "python", real=False)
    devices = str(tmp_path / "none")
    env = {"PATH": os.defpath, "PYTHONPATH": str(tmp_path / "python"), "KLOPS_SIM_DEVICE_DIR": devices}
    setting = Setting(str(package), env, str(folder), devices, "auto")
    made = Pool(setting, Lineage(paths.ranks), Audit(paths.audit, "a-test", Troubles()))
    yield made
    assert made.close() == []
    assert not Path(paths.ranks).exists()


def runner(pool: Pool, seconds: float = 60.0, absent: tuple[int, ...] = ()) -> Runner:
    """With its ranks up."""
    made = Runner(pool, CARDS, Limits(2, 20.0, 5.0), time.monotonic() + seconds, absent=absent)
    made.sizes = (4096, 8192)
    made.start(lambda numbers: None)
    return made


def pids(pool: Pool) -> dict[int, int]:
    """Of the ranks, by card."""
    return {CARDS[place]: rank.pid for place, rank in pool.ranks.items()}


def ended(pid: int) -> None:
    """Wait until it has ended with all its threads: only then it can be reaped."""

    def over() -> bool:
        process = procs.read(pid)
        return process is None or not process.alive

    until(over, what="it is gone")


def batch(*tests: tuple[int, ...], fresh: bool = False, sizes: tuple[int, ...] = ()) -> Batch:
    """These tests at the same time."""
    return Batch(tuple(map(results.Test, tests)), fresh=fresh, sizes=sizes)


def test_groups_are_formed_and_dissolved_in_the_same_processes(pool: Pool) -> None:
    run = runner(pool)
    before = pids(pool)
    for _ in range(3):
        outcomes = [*run.batch(batch((4, 5), (6,))), *run.batch(batch((6, 4, 5)))]
        assert [(one.cards, one.status) for one in outcomes] == [
            ((4, 5), "ok"),
            ((6,), "ok"),
            ((6, 4, 5), "ok"),
        ]
        assert all([sample.bytes for sample in one.samples] == [4096, 8192] for one in outcomes)
    assert pids(pool) == before
    assert (pool.started, run.collectives, run.rounds) == (3, 6, 6)
    assert run.facts["backend"] == "gloo"


def test_a_fresh_batch_has_processes_that_nothing_ran_in(pool: Pool) -> None:
    run = runner(pool)
    first = pids(pool)
    run.batch(batch((4, 5)))
    (outcome,) = run.batch(batch((6, 4), fresh=True, sizes=(8192,)))
    assert (outcome.status, [sample.bytes for sample in outcome.samples]) == ("ok", [8192])
    now = pids(pool)
    # that of card 6 had done nothing yet
    assert {card: now[card] == first[card] for card in CARDS} == {6: True, 4: False, 5: True}
    assert (pool.started, pool.killed, run.renewed) == (4, [], 1)


def test_a_rank_that_does_not_leave_is_killed_and_not_renewed(pool: Pool) -> None:
    run = runner(pool)
    run.batch(batch((4, 5)))
    stat = Path(f"/proc/{pids(pool)[4]}/stat")
    os.kill(pids(pool)[4], signal.SIGSTOP)
    # one that is just at work on the other core takes the signal a moment later
    until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", what="it has stopped")
    assert [one.status for one in run.batch(batch((4, 5), fresh=True))] == ["ok"]
    assert [one["why"] for one in pool.killed] == ["it was asked to leave and did not"]
    assert (pool.started, run.renewed) == (5, 1)


def test_a_rank_that_ended_between_two_tests_is_replaced(pool: Pool) -> None:
    run = runner(pool)
    first = pids(pool)
    os.kill(first[4], signal.SIGKILL)
    ended(first[4])
    assert [one.status for one in run.batch(batch((5,)))] == ["ok"]
    assert [one.status for one in run.batch(batch((4, 6)))] == ["ok"]
    assert pids(pool)[4] != first[4]
    assert (pool.started, pool.killed, run.renewed) == (4, [], 0)


def test_a_rank_that_ends_while_another_one_still_begins_is_what_its_test_fails_of(pool: Pool) -> None:
    dead: list[int] = []

    def end() -> None:
        """The first look of a batch is one for ranks that aren't ready yet."""
        if armed and not dead:
            dead.append(pids(pool)[5])
            os.kill(dead[0], signal.SIGKILL)
            ended(dead[0])

    armed = False
    made = Runner(pool, CARDS, Limits(2, 20.0, 5.0), time.monotonic() + 30.0, check=end)
    made.sizes = (4096,)
    made.start(lambda numbers: None)
    assert [one.status for one in made.batch(batch((4,)))] == ["ok"]
    armed = True
    (failed,) = made.batch(batch((4, 5), fresh=True))
    assert (failed.status, failed.stage, failed.told) == ("error", "start", (5,))
    assert failed.error.startswith("its rank was killed by signal 9")
    assert [one.status for one in made.batch(batch((4, 5)))] == ["ok"]
    assert pids(pool)[5] != dead[0]


def test_a_card_without_a_node_fails_what_it_is_in_and_nothing_else(pool: Pool) -> None:
    run = runner(pool, absent=(5, 3))
    without, beside, unknown = run.batch(batch((4, 5), (6,), (3,)))
    assert (without.status, without.stage, without.told) == ("error", "start", (5,))
    assert without.error == "card 5 has no node in this container"
    assert unknown.error == "card 3 has no node in this container"
    assert beside.status == "ok"
    assert run.collectives == 0


def test_once_the_time_is_over_nothing_more_is_tested(pool: Pool) -> None:
    run = runner(pool)
    run._end = time.monotonic()
    assert [(one.status, one.runs) for one in run.batch(batch((4, 5), (6,)))] == [("untested", 0)] * 2
    assert (run.collectives, run.rounds) == (0, 0)


def test_a_rank_that_can_not_be_put_on_record_does_not_run(pool: Pool, tmp_path: Path) -> None:
    record = Path(store.Paths(str(tmp_path / "root")).ranks)
    record.symlink_to("/dev/full")
    made = Runner(pool, CARDS, Limits(2, 20.0, 5.0), time.monotonic() + 60.0)
    made.sizes = (4096,)
    assert made.start(lambda numbers: None) == {}
    assert (pool.started, pool.ranks) == (3, {})
    assert [one["why"] for one in pool.killed] == ["it can't be put on record"] * 3
    record.unlink()
    outcomes = made.batch(batch((4, 5), (6,)))
    assert {one.error for one in outcomes} == {"no rank can be started: No space left on device"}
    # each start fails one test: the next one begins anew
    assert [one.status for one in made.batch(batch((4, 5), (6,)))] == ["ok", "ok"]


def test_a_rank_with_another_card_than_its_place_had_ends_it_all(pool: Pool) -> None:
    made = Runner(pool, CARDS, Limits(2, 20.0, 5.0), time.monotonic() + 60.0)
    made.sizes = (4096,)
    # as each is asked in the order of places, and only who was not used is asked
    asked = iter([*CARDS, *CARDS, 4])
    made.start(lambda numbers: next(asked))
    assert made.seats.sure
    assert [one.status for one in made.batch(batch(CARDS))] == ["ok"]
    with pytest.raises(VerbError) as caught:
        made.batch(batch((6,), fresh=True))
    assert caught.value.code == "order-changed"
    assert "at place 0 has card 4, where card 6 was" in caught.value.message


def test_once_a_collective_went_well_one_that_hangs_is_not_waited_for_as_long(
    pool: Pool,
) -> None:
    made = Runner(pool, CARDS, Limits(2, 60.0, 8.0), time.monotonic() + 60.0)
    made.sizes = (4096,)
    made.start(lambda numbers: None)
    assert [one.status for one in made.batch(batch(CARDS))] == ["ok"]
    os.kill(pids(pool)[5], signal.SIGSTOP)
    (hung,) = made.batch(batch((4, 5)))
    assert (hung.status, 5 in hung.silent) == ("timeout", True)
    assert hung.error.startswith("no answer within 5 s")
    assert [one["why"][:22] for one in pool.killed if one["place"] == 2] == ["no answer within 7 s ("]
