"""``klops doctor xccl`` on a host: ranks with a stand-in torch, faults outside klops' code, nothing is left.

With a real torch: test_xccl_gloo.py.
"""

from __future__ import annotations

import json
import signal
import time

import pytest

from tests.host.diagnosing import Bench, bench_of, failing_pairs, verdicts
from tests.rehearsals import MakeRehearsal
from tests.waiting import until

pytestmark = [pytest.mark.host, pytest.mark.timeout(300)]

ALL = list(range(8))


@pytest.fixture(scope="module")
def bench(make_rehearsal: MakeRehearsal) -> Bench:
    """One host for all of them, each with faults of its own."""
    return bench_of(make_rehearsal(transports=["local"]))


@pytest.mark.long
def test_a_card_that_hangs_in_the_collective_and_ignores_term(bench: Bench) -> None:
    bench.break_("card=5:hang-collective")
    found = bench.doctor("--card", "4,5,6,7")
    assert (found["scope"], found["excluded"], found["healthy"]) == ("card", [5], [4, 6, 7])
    assert set(failing_pairs(found).values()) == {"timeout"}
    assert all(5 in pair for pair in failing_pairs(found))
    assert 5 in {one["index"] for one in found["killed"]}
    assert "no answer in the collective" in found["summary"]
    audit = [json.loads(line) for line in (bench.host.root / "audit.jsonl").read_text().splitlines()]
    ended = {line["pid"] for line in audit if line.get("signal") == "SIGKILL" and line["outcome"] == "sent"}
    assert ended >= {one["pid"] for one in found["killed"]}


@pytest.mark.long
def test_a_wrong_sum_at_one_size_in_3_of_10_rounds(bench: Bench) -> None:
    bench.break_("card=2:wrong:3/10@1MiB")
    found = bench.doctor()
    assert (found["scope"], found["excluded"]) == ("card", [2])
    assert all(2 in pair and status == "wrong" for pair, status in failing_pairs(found).items())
    (whole,) = [one for one in found["outcomes"] if len(one["cards"]) == 8]
    assert [sample["wrong"] > 0 for sample in whole["samples"]] == [False, True]
    assert (found["recommended_cards"], found["verified"]) == ([4, 5, 6, 7], True)


@pytest.mark.long
def test_row_F38_one_pair_is_a_link_and_its_ends_are_kept_apart(bench: Bench) -> None:
    bench.break_("pair=2,6:error")
    found = bench.doctor()
    assert (found["scope"], found["excluded"], found["healthy"]) == ("link", [], ALL)
    assert failing_pairs(found) == {(2, 6): "error"}
    assert not {2, 6} <= set(found["recommended_cards"])
    assert (found["recommended_tp"], found["verified"]) == (4, True)


@pytest.mark.long
def test_row_F38_all_pairs_alike_are_the_set_up_and_no_card(bench: Bench) -> None:
    bench.break_("all-pairs:addr_window")
    found = bench.doctor()
    assert (found["scope"], found["excluded"]) == ("stack", [])
    assert set(verdicts(found).values()) == {"unknown"}
    assert found["recommended"] is None
    assert "[INVALID PARAMETER]: error code= 1" in found["summary"]
    # both are named, and nobody sets them
    hints = "\n".join(found["hints"])
    assert "BKCL_CHECK_AW" in hints
    assert "BKCL_NONUNIFORM_VISIBLE_DEVICES" in hints
    listed = bench.object("cards", "list", bench.host.name)
    assert [card["quarantine"] for card in listed["cards"]] == [None] * 8


@pytest.mark.long
def test_row_F40_the_time_is_kept_though_everything_hangs(bench: Bench) -> None:
    bench.break_(*(f"card={card}:hang-collective" for card in ALL))
    began = time.monotonic()
    found = bench.doctor(budget=6)
    # reading the host and starting klops come on top
    assert time.monotonic() - began < 60
    assert found["scope"] in ("inconclusive", "stack")
    assert found["excluded"] == []
    assert found["recommended"] is None


def test_row_F41_ended_by_ctrl_c_killed_and_two_at_once(bench: Bench) -> None:
    bench.break_("card=0:hang-collective")
    doctor = ("doctor", "xccl", bench.host.name)
    with bench.begun(*doctor, ranks=8) as running:
        second = bench.object(*doctor, rc=1, alone=False)
        assert second["error"]["code"] == "lock-held"
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130
        # on a busy machine ranks outlive the two seconds that a command has to end, by a moment
        until(lambda: not bench.ranks(), timeout=20, what="no rank is left")
    with bench.begun(*doctor, ranks=8) as running:
        running.send_signal(signal.SIGKILL)
        running.wait(60)
        until(lambda: not bench.ranks(), timeout=20, what="no rank outlives whoever asked")
    # whoever was killed could not give the host back; its lock would be dead after a minute
    bench.command("lock", "break", bench.host.name, "--yes")
    bench.break_("card=0:node-missing")
    with bench.patient():
        again = bench.doctor()
    assert (again["scope"], again["excluded"]) == ("card", [0])
    assert (again["rank_processes"], again["killed"]) == (7, [])
    # nor of what one left that was killed
    bench.nothing_left()


@pytest.mark.long
def test_a_good_host_is_one_collective_once_it_was_learned(bench: Bench) -> None:
    bench.break_()
    learned = bench.object("cards", "learn", bench.host.name)
    assert learned["rank_processes"] == 8
    assert sorted(learned["baseline"]) == ["2", "4", "8"]
    file = bench.host.root / "baseline.json"
    kept = json.loads(file.read_text())
    assert [card["uuid"] for card in kept["cards"]] == [card["uuid"] for card in learned["cards"]]
    bench.slower_baseline()
    found = bench.doctor(rc=0)
    assert (found["scope"], found["healthy"]) == ("none", ALL)
    assert (found["collectives_run"], found["rank_processes"], found["killed"]) == (1, 8, [])
    (only,) = found["outcomes"]
    assert all(sample["rounds"] >= 10 for sample in only["samples"])
