"""Diagnoses with a real torch: ranks over gloo in a real container, faults by a layer around it.

Each ends with the right verdict, within its budget, with no process left (``Bench`` sees to the latter two).
Most of the faults are tried on a host of which four cards are used, too: ``make test`` has time for those.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from klops.sim.layout import SERVED_NAME, SERVICE
from tests.host.diagnosing import SIZES, Bench, bench_of, failing_pairs, verdicts
from tests.host.support import get, models
from tests.rehearsals import MakeRehearsal

pytestmark = [pytest.mark.host, pytest.mark.real_vllm, pytest.mark.timeout(900)]

#: Seconds: eight real ranks take their time to start on two cores, and that often where all of them hang.
BUDGET = 400.0
#: Seconds that a rank may take to answer.
TIMEOUT = 5.0


@dataclass(frozen=True)
class Cut:
    """Cards that are used, in two wings; bytes of messages, None for what klops takes without a card."""

    wings: tuple[list[int], list[int]]
    sizes: Sequence[int] | None = None

    @property
    def cards(self) -> list[int]:
        """All of them."""
        return [*self.wings[0], *self.wings[1]]


#: Those that faults of cards and of a pair in these tests are about.
FOUR = Cut(([2, 3], [5, 6]), SIZES)
#: Up to 4 MiB, with the 2.6 MB of a decode step.
EIGHT = Cut(([0, 1, 2, 3], [4, 5, 6, 7]))


@dataclass(frozen=True)
class RealBench(Bench):
    """A host with a real torch."""

    cut: Cut

    def diagnosed(self, *faults: str, words: Sequence[str] = (), rc: int = 1) -> dict[str, Any]:
        """What a diagnosis says with these faults."""
        self.break_(*faults)
        found = self.doctor(*words, rc=rc, budget=BUDGET)
        assert (found["backend"], found["device"]) == ("gloo", "cpu")
        assert not found["torch"].endswith("standin")
        return found

    def on_the_other_wing(self, found: Mapping[str, Any], card: int) -> None:
        """The one bad card is told, and a wing of proven ones is left."""
        assert (found["scope"], found["excluded"]) == ("card", [card])
        assert found["healthy"] == [one for one in self.cut.cards if one != card]
        assert all(card in pair for pair in failing_pairs(found))
        (wing,) = (wing for wing in self.cut.wings if card not in wing)
        assert (found["recommended_cards"], found["recommended_tp"]) == (wing, len(wing))
        assert found["verified"] is True


@pytest.fixture(scope="module")
def bench(request: pytest.FixtureRequest, make_rehearsal: MakeRehearsal, real_vllm: None) -> RealBench:
    """A host with a real torch, of which a cut is used; its service may have any number of cards."""
    cut: Cut = request.param
    use = {"expected": 8, "use": cut.cards, "groups": [*cut.wings, cut.cards]}
    service = {"tp": "auto", "cards": None}
    rehearsal = make_rehearsal(transports=["local"], vllm="real")
    made = bench_of(rehearsal, timeout=TIMEOUT, own=use, service=service)
    probe = {"timeout": TIMEOUT, "start_timeout": 120}
    made.settings({"probe": probe if cut.sizes is None else {**probe, "sizes": list(cut.sizes)}})
    return RealBench(made.rehearsal, made.host, cut)


_eight = pytest.param(EIGHT, id="eight", marks=pytest.mark.long)
#: Quick on four cards, and on all of them where there is time.
both = pytest.mark.parametrize("bench", [pytest.param(FOUR, id="four"), _eight], indirect=True)
eight = pytest.mark.parametrize("bench", [_eight], indirect=True)


@both
def test_row_F41_a_good_host_is_one_collective_whoever_has_the_usual_port(bench: RealBench) -> None:
    bench.break_()
    with socket.socket() as stranger:
        with suppress(OSError):  # somebody else has it already, which is as good
            stranger.bind(("0.0.0.0", 29500))
            stranger.listen()
        learned = bench.object("cards", "learn", bench.host.name)
        assert (learned["backend"], learned["rank_processes"]) == ("gloo", len(bench.cut.cards))
        bench.slower_baseline()
        found = bench.diagnosed(rc=0)
    (bench.host.root / "baseline.json").unlink()
    assert (found["scope"], found["healthy"], found["verified"]) == ("none", bench.cut.cards, True)
    assert (found["collectives_run"], found["rank_processes"], found["killed"]) == (
        1,
        len(bench.cut.cards),
        [],
    )
    assert [one["read_back"] for one in found["order"]] == bench.cut.cards


@eight
def test_a_card_that_hangs_while_the_group_is_formed(bench: RealBench) -> None:
    found = bench.diagnosed("card=3:hang-init")
    bench.on_the_other_wing(found, 3)
    assert set(failing_pairs(found).values()) == {"timeout"}
    assert {one["index"] for one in found["killed"]} >= {3}


@eight
def test_a_card_that_hangs_in_the_collective_and_ignores_term(bench: RealBench) -> None:
    found = bench.diagnosed("card=5:hang-collective")
    bench.on_the_other_wing(found, 5)
    assert set(failing_pairs(found).values()) == {"timeout"}
    assert {one["index"] for one in found["killed"]} >= {5}


@both
def test_a_wrong_sum_at_one_size_in_3_of_10_rounds(bench: RealBench) -> None:
    found = bench.diagnosed("card=2:wrong:3/10@1MiB")
    bench.on_the_other_wing(found, 2)
    assert set(failing_pairs(found).values()) == {"wrong"}
    (whole,) = [one for one in found["outcomes"] if one["cards"] == bench.cut.cards]
    assert {sample["bytes"] for sample in whole["samples"] if sample["wrong"]} == {
        sample["bytes"] for sample in whole["samples"] if sample["bytes"] >= 1 << 20
    }


@both
def test_row_F38_one_pair_is_a_link(bench: RealBench) -> None:
    found = bench.diagnosed("pair=2,6:error")
    assert (found["scope"], found["excluded"], found["healthy"]) == ("link", [], bench.cut.cards)
    assert failing_pairs(found) == {(2, 6): "error"}
    assert found["recommended_cards"] in bench.cut.wings
    assert found["verified"] is True


@eight
def test_row_F40_one_pair_hangs_and_the_others_are_all_tested(bench: RealBench) -> None:
    found = bench.diagnosed("pair=2,3:hang")
    assert (found["scope"], found["excluded"], found["healthy"]) == ("link", [], EIGHT.cards)
    assert failing_pairs(found) == {(2, 3): "timeout"}
    assert len(found["pairs"]) == 28
    assert {one["index"] for one in found["killed"]} >= {2, 3}
    assert (found["recommended_cards"], found["verified"]) == (EIGHT.wings[1], True)


@eight
def test_four_cards_that_hang(bench: RealBench) -> None:
    found = bench.diagnosed(*(f"card={card}:hang-collective" for card in EIGHT.wings[0]))
    assert (found["scope"], found["excluded"], found["healthy"]) == ("card", *EIGHT.wings)
    assert (found["recommended_cards"], found["verified"]) == (EIGHT.wings[1], True)


@eight
def test_row_F37_one_card_of_each_wing_leaves_no_group(bench: RealBench) -> None:
    found = bench.diagnosed("card=1:hang-init", "card=6:hang-init")
    assert (found["scope"], found["excluded"]) == ("card", [1, 6])
    assert found["recommended"] is None
    assert "group 0, 1, 2, 3 has bad card 1" in found["why"]
    assert "group 4, 5, 6, 7 has bad card 6" in found["why"]


@both
def test_row_F38_all_pairs_alike_are_the_set_up(bench: RealBench) -> None:
    found = bench.diagnosed("all-pairs:addr_window")
    assert (found["scope"], found["excluded"], found["recommended"]) == ("stack", [], None)
    assert set(verdicts(found).values()) == {"unknown"}
    assert "[INVALID PARAMETER]: error code= 1" in found["summary"]


@eight
def test_a_card_that_is_slow(bench: RealBench) -> None:
    # pairs in turn: on two cores four pairs at the same time are slow by themselves
    found = bench.diagnosed("card=4:slow:0.7", words=["--serial"])
    assert (found["scope"], found["excluded"]) == ("card", [])
    assert verdicts(found) == {**dict.fromkeys(EIGHT.cards, "pass"), 4: "degraded"}
    assert (found["recommended_tp"], found["verified"]) == (8, True)


@both
def test_row_F38_only_all_together_fail(bench: RealBench) -> None:
    found = bench.diagnosed(f"group={len(bench.cut.cards)}:error")
    assert (found["scope"], found["excluded"], found["healthy"]) == ("group", [], bench.cut.cards)
    assert failing_pairs(found) == {}
    assert found["recommended_cards"] in bench.cut.wings
    assert found["verified"] is True


@eight
def test_four_dead_cards_and_a_real_vllm_serves_on_the_others(bench: RealBench) -> None:
    host = bench.host
    bench.settings({"diagnose": "auto"})
    bench.break_(*(f"card={card}:dead" for card in EIGHT.wings[0]))
    found = bench.object("up", host.name)
    service = found["services"][SERVICE]
    assert (service["state"], service["tp"], service["cards"]) == ("ready", 4, EIGHT.wings[1])
    assert [one["index"] for one in service["fallback"]["out"]] == EIGHT.wings[0]
    assert models(host.port, host.api_key) == [SERVED_NAME]
    asked = {"model": SERVED_NAME, "prompt": "hello", "max_tokens": 4}
    status, answer = get(host.port, "/v1/completions", host.api_key, asked)
    assert (status, answer["usage"]["completion_tokens"]) == (200, 4)
    bench.break_()  # with the cards back, their memory tells that nobody has them
    bench.command("down", host.name)
    assert bench.holding() == []
