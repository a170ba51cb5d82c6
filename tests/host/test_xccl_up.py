"""``klops up`` on hosts whose cards don't all work: which it serves on, and when it takes them back.

Index, minor and number in the container are three different numbers of these cards.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from klops.sim.layout import SERVED_NAME, SERVICE
from tests.host.diagnosing import Bench, bench_of, verdicts
from tests.host.support import models
from tests.host.test_up import docker
from tests.host.watch import holders
from tests.rehearsals import MakeRehearsal
from tests.waiting import until

pytestmark = [pytest.mark.host, pytest.mark.timeout(400)]

FOUR = [0, 1, 2, 3]
REST = [4, 5, 6, 7]


@pytest.fixture(scope="module")
def bench(make_rehearsal: MakeRehearsal) -> Bench:
    """A host whose container was made when all was well, and whose cards are tested before a start."""
    return bench_of(make_rehearsal(transports=["local"]), diagnose="auto")


def up(bench: Bench, rc: int = 0) -> dict[str, Any]:
    """The service after ``klops up``; with another ``rc`` the error."""
    found = bench.object("up", bench.host.name, rc=rc)
    answer: dict[str, Any] = found["error"] if rc else found["services"][SERVICE]
    return answer


def held(bench: Bench) -> set[int]:
    """Indexes of the cards that anybody has open, by the numbers of the nodes on the host."""
    cards = bench.status()["cards"]
    index = {Path(card["node"]).stat().st_rdev: card["index"] for card in cards if card["node"]}
    return {index[number] for one in holders(index) for number in one.rdevs}


@pytest.fixture
def begun(bench: Bench) -> Bench:
    """The same with card 1 set apart and a service on four, also where the beginning isn't run."""
    if bench.status()["services"].get(SERVICE, {}).get("cards") != REST:
        bench.settings({"confirm": 1})
        bench.break_("card=1:wrong:1/1@1MiB")
        bench.doctor()
        assert up(bench)["cards"] == REST
    return bench


# One story, in this order.


def test_on_a_host_with_four_dead_cards_it_serves_on_the_other_four(bench: Bench) -> None:
    bench.break_(*(f"card={card}:dead" for card in FOUR))
    service = up(bench)
    assert (service["state"], service["tp"], service["cards"]) == ("ready", 4, REST)
    assert models(bench.host.port, bench.host.api_key) == [SERVED_NAME]
    status = bench.status()
    fallback = status["services"][SERVICE]["fallback"]
    assert (fallback["tp"], fallback["asked"]) == (4, 8)
    assert [one["index"] for one in fallback["out"]] == FOUR
    assert all(one["reason"] for one in fallback["out"])
    assert verdicts(status) == {**dict.fromkeys(FOUR, "fail"), **dict.fromkeys(REST, "pass")}
    assert held(bench) == set(REST)
    # three numbers of one card, and the container's counts the nodes of dead cards as well
    mixed = {c["index"]: (c["minor"], c["container_index"]) for c in status["cards"] if c["index"] in REST}
    assert mixed == {4: (4, 4), 5: (7, 7), 6: (5, 5), 7: (6, 6)}


def test_repaired_cards_are_taken_back(bench: Bench) -> None:
    bench.break_()
    bench.object("cards", "restore", bench.host.name, "0", "1", "2", "3")
    service = up(bench)
    assert (service["state"], service["tp"], service["cards"]) == ("ready", 8, FOUR + REST)
    assert service["fallback"] is None
    again = bench.command("up", bench.host.name)
    tasks = {t["name"]: t["hosts"][bench.host.name] for t in again.json["plays"][0]["tasks"]}
    assert {name: task["changes"] for name, task in tasks.items() if task["status"] == "changed"} == {}


def test_row_F37_without_a_whole_group_nothing_is_served_and_it_is_said_why(bench: Bench) -> None:
    host = bench.host.name
    uuids = {card["index"]: card["uuid"] for card in bench.object("down", host)["cards"]}
    bench.command("cards", "exclude", host, uuids[1], "6", "--reason", "link errors")
    error = up(bench, rc=1)
    assert error["code"] == "cards-unfit"
    for part in ("group 0, 1, 2, 3 has bad card 1", "group 4, 5, 6, 7 has bad card 6", "link errors"):
        assert part in error["message"]
    forced = bench.object("cards", "restore", host, "1,6", "--force")
    assert forced["quarantine"] == []


def test_row_C16_the_card_that_failed_stays_out_under_another_number(bench: Bench) -> None:
    host = bench.host.name
    bench.settings({"confirm": 1})
    bench.break_("card=1:wrong:1/1@1MiB")
    found = bench.doctor()
    (bad,) = [card for card in found["cards"] if card["verdict"] == "fail"]
    assert (bad["index"], bad["minor"], bad["container_index"]) == (1, 2, 2)
    (note,) = found["quarantine"]
    assert (note["card"], note["kind"]) == (1, "verdict")
    # another BIOS counts the nodes anew: what had been card 1's is another card's now
    bench.break_("card=1:wrong:1/1@1MiB", "renumber")
    listed = {card["index"]: card for card in bench.object("cards", "list", host)["cards"]}
    assert [index for index, card in listed.items() if card["quarantine"]] == [1]
    assert (listed[1]["uuid"], listed[1]["minor"]) == (bad["uuid"], 0)
    assert listed[0]["minor"] == 1
    service = up(bench)
    assert (service["tp"], service["cards"]) == (4, REST)


@pytest.mark.long
def test_cards_of_a_service_that_runs_are_left_alone(begun: Bench) -> None:
    before = begun.status()["services"][SERVICE]
    found = begun.object("doctor", "xccl", begun.host.name, rc=1)
    assert verdicts(found) == {0: "pass", 1: "fail", 2: "pass", 3: "pass", **dict.fromkeys(REST, "unknown")}
    assert {c["reason"] for c in found["cards"] if c["index"] in REST} == {f"in use by {SERVICE}"}
    # four, and as many again for what was tested twice
    assert found["rank_processes"] <= 8
    after = begun.status()["services"][SERVICE]
    same = ("pid", "restarts", "state")
    assert [after[key] for key in same] == [before[key] for key in same]


@pytest.mark.long
def test_four_cards_that_hang_are_found_and_taken_back_only_when_they_work(begun: Bench) -> None:
    host = begun.host.name
    begun.settings({"confirm": 2})
    begun.break_()
    faults = [f"card={card}:hang-collective" for card in FOUR]
    begun.command("down", host)
    begun.command("cards", "restore", host, "0,1,2,3", "--force")
    begun.break_(*faults)
    service = up(begun)
    assert (service["tp"], service["cards"]) == (4, REST)
    assert "no answer in the collective" in service["fallback"]["text"]
    refused = begun.object("cards", "restore", host, "0,1,2,3", rc=1)
    assert refused["restored"] == []
    # the service that is ready isn't ended for what is no better than before
    again = up(begun)
    assert (again["pid"], again["cards"]) == (service["pid"], REST)
    begun.break_()
    assert begun.object("cards", "restore", host, "0,1,2,3")["restored"] == FOUR
    assert up(begun)["cards"] == FOUR + REST


@pytest.mark.long
def test_a_host_that_never_had_more_than_four_good_cards(make_rehearsal: MakeRehearsal) -> None:
    rehearsal = make_rehearsal(
        transports=["local"], faults=[f"card={card}:dead" for card in FOUR], diagnose="auto"
    )
    bench = Bench(rehearsal, rehearsal.hosts[0])
    service = up(bench)
    assert (service["state"], service["tp"], service["cards"]) == ("ready", 4, REST)
    bench.break_()
    # the nodes that the container has were made while no driver stood behind them
    refused = bench.object("cards", "restore", bench.host.name, "0,1,2,3", rc=1)["error"]
    assert f"docker restart {bench.host.container}" in refused["message"]
    again = up(bench)
    assert (again["pid"], again["tp"]) == (service["pid"], 4)
    docker(rehearsal, "restart", "--time", "5", bench.host.container)
    until(lambda: bench.status()["services"][SERVICE]["state"] == "ready", what="it serves again")
    bench.command("cards", "restore", bench.host.name, "0,1,2,3")
    service = up(bench)
    assert (service["state"], service["tp"], service["cards"]) == ("ready", 8, FOUR + REST)
