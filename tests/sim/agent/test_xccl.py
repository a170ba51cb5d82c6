"""The verb ``xccl`` with real rank processes and a stand-in torch: what it finds, and what is left of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from klops.agent import store
from klops.agent.processes import procs, sysv
from klops.agent.units.lineage import Lineage
from tests.frozen import Frozen, freezer
from tests.sim.agent.cards import Cards
from tests.sim.agent.diagnoses import SIZES, Diagnoses
from tests.sim.agent.site import Site, alive
from tests.sim.agent.test_cards_memory import on_cards
from tests.waiting import until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="making device nodes needs root")


@pytest.fixture
def xccl(site: Site) -> Diagnoses:
    """Diagnoses on a site with eight cards."""
    return Diagnoses(site, Cards(site))


@pytest.fixture
def frozen() -> Iterator[Frozen]:
    """What freezes processes."""
    with freezer() as made:
        yield made


def test_cards_that_work_need_a_process_each(xccl: Diagnoses) -> None:
    result = xccl.ask(xccl.request(4, 1, 6))
    assert result["diagnosis"]["verdict"]["scope"] == "none"
    assert (result["rank_processes"], result["killed"], result["left"]) == (3, [], [])
    assert (result["backend"], result["device"], result["sizes"]) == ("nccl", "cuda", SIZES)
    # index, minor and place are three numbers; each rank has the card that was meant
    assert [(one["index"], one["rank"], one["read_back"]) for one in result["order"]] == [
        (4, 0, 4),
        (1, 1, 1),
        (6, 2, 6),
    ]
    assert [one["node"] for one in result["order"]] != [f"/dev/xpu{index}" for index in (4, 1, 6)]
    groups = [one for one in result["diagnosis"]["outcomes"] if len(one["cards"]) > 1]
    assert result["collectives_run"] == len(groups) == 4
    assert all(len(one["samples"]) == len(SIZES) and one["samples"][0]["rounds"] == 3 for one in groups)


def test_results_are_those_of_the_cards_that_ranks_really_have(xccl: Diagnoses) -> None:
    by_node = sorted(range(8), key=lambda index: int(xccl.cards.identity(index)["minor"]))
    xccl.break_(f"card={by_node[1]}:dead")
    # with exactly this list the runtime goes by the order of the boards
    request = xccl.request(*by_node, visible_env="CUDA_VISIBLE_DEVICES", aim={"tries": 1, "needed": 1})
    result = xccl.ask(request)
    assert [one["rank"] for one in result["order"]] == list(range(8))
    read = [one["read_back"] for one in result["order"]]
    assert read == [by_node[number] if number != 1 else None for number in (2, 3, 0, 1, 4, 5, 6, 7)]
    verdicts = result["diagnosis"]["verdict"]["cards"]
    assert [index for index in by_node if verdicts[str(index)]["verdict"] == "fail"] == [by_node[1]]
    (note,) = result["notes"]
    assert note.startswith("the runtime's order is another than the list's: place 0 has card")


def test_a_group_connects_over_its_own_cards_and_a_dead_one_is_only_its_own_fault(xccl: Diagnoses) -> None:
    # the first of the visible ones: where a first rank's barrier goes if nothing says which card it has
    xccl.break_("card=0:dead")
    result = xccl.ask(xccl.request(0, 1, 2, 3, 4, aim={"tries": 1, "needed": 1}))
    verdict = result["diagnosis"]["verdict"]
    assert {index: one["verdict"] for index, one in verdict["cards"].items()} == {
        **{str(index): "pass" for index in (1, 2, 3, 4)},
        "0": "fail",
    }
    pairs = {(one["a"], one["b"]): one["status"] for one in verdict["pairs"] if one["a"]}
    assert pairs == {(a, b): "ok" for a in (1, 2, 3) for b in range(a + 1, 5)}
    assert (verdict["scope"], result["diagnosis"]["recommended"]) == ("card", {"": [1, 2, 3, 4]})
    assert result["diagnosis"]["verified"]


@pytest.mark.long
def test_where_nothing_shows_which_card_a_rank_has_no_card_is_set_apart(xccl: Diagnoses) -> None:
    xccl.open_all()
    # the runtime was asked for another order than that of the list
    order = {"CUDA_DEVICE_ORDER": "OAM_ID"}
    request = xccl.request(0, 1, 2, aim={"tries": 1, "needed": 1}, env=order)
    well = xccl.ask(request)
    assert (well["sure"], well["diagnosis"]["verdict"]["scope"]) == (False, "none")
    xccl.break_("card=1:hang-collective")
    result = xccl.ask(request)
    assert (result["sure"], [one["read_back"] for one in result["order"]]) == (False, [None] * 3)
    verdict = result["diagnosis"]["verdict"]
    assert verdict["scope"] == "inconclusive"
    assert {one["verdict"] for one in verdict["cards"].values()} == {"unknown"}
    assert (verdict["pairs"], result["diagnosis"]["recommended"]) == ([], None)


def test_a_scan_has_a_row_for_each_size_of_group_and_message(xccl: Diagnoses) -> None:
    result = xccl.ask(xccl.request(0, 1, 2, 3, scan=True))
    assert [(one["world"], one["bytes"]) for one in result["scan"]] == [(w, b) for w in (2, 4) for b in SIZES]
    row = result["scan"][-1]
    assert row["algbw"] == pytest.approx(row["bytes"] / row["us"] / 1000, rel=0.01)
    assert row["busbw"] == pytest.approx(row["algbw"] * 1.5, rel=0.01)
    assert (result["failed"], result["untested"]) == ([], [])
    assert "diagnosis" not in result


def test_a_group_of_a_scan_counts_as_failed_once_it_failed_in_fresh_processes(xccl: Diagnoses) -> None:
    xccl.break_("group=4:error")
    result = xccl.ask(xccl.request(0, 1, 2, 3, scan=True))
    assert {one["world"] for one in result["scan"]} == {2}
    (failed,) = result["failed"]
    assert (failed["world"], failed["status"], failed["stage"]) == (4, "error", "init")
    assert (failed["failures"], failed["runs"], result["rank_processes"]) == (2, 2, 8)


def test_a_rank_that_hangs_is_killed_by_identity_and_another_one_started(xccl: Diagnoses) -> None:
    xccl.break_("card=1:hang-collective")
    result = xccl.ask(xccl.request(0, 1, 2, aim={"tries": 1, "needed": 1}))
    verdicts = result["diagnosis"]["verdict"]["cards"]
    assert verdicts["1"]["verdict"] == "fail"
    assert {verdicts[card]["verdict"] for card in "02"} == {"pass"}
    first = next(one for one in result["killed"] if one["index"] == 1)
    assert first["why"] == "no answer within 3 s (stage collective)"
    lines = [line for line in xccl.site.audit("signal") if line["pid"] == first["pid"]]
    assert [(line["signal"], line["outcome"], line["name"]) for line in lines] == [
        ("SIGKILL", "sent", "rank of card 1")
    ]
    # no more processes than cards and those that were ended
    assert result["rank_processes"] <= 3 + len(result["killed"])
    (together,) = [one for one in result["diagnosis"]["outcomes"] if len(one["cards"]) == 3]
    assert (together["status"], together["stage"], together["silent"]) == ("timeout", "collective", [1])
    assert sorted(together["told"]) == [0, 2]


def test_a_wrong_sum_is_seen_at_its_size(xccl: Diagnoses) -> None:
    xccl.break_("card=0:wrong:1/2@1MiB")
    result = xccl.ask(xccl.request(0, 1, aim={"tries": 1, "needed": 1}))
    found = result["diagnosis"]["outcomes"][0]
    assert (found["status"], found["stage"]) == ("wrong", "check")
    assert [bool(sample["wrong"]) for sample in found["samples"]] == [False, True]
    assert result["killed"] == []


def test_row_F41_a_worker_that_dies_at_its_start_is_the_first_error_with_its_log(xccl: Diagnoses) -> None:
    xccl.torch("import os\nprint('driver: no context for dev -1', flush=True)\nos._exit(3)\n")
    result = xccl.ask(xccl.request(0, 1))
    (first, *_) = result["diagnosis"]["outcomes"]
    assert (first["status"], first["stage"], sorted(first["told"])) == ("error", "start", [0, 1])
    assert first["error"] == ("its rank ended by itself with status 3; log: driver: no context for dev -1")
    # that there was nobody left to end is no error, and nobody was sent anything
    assert (result["killed"], result["left"]) == ([], [])
    assert not (xccl.site.root / "audit.jsonl").exists()


def test_row_F41_two_diagnoses_at_once_do_not_mix(xccl: Diagnoses) -> None:
    xccl.break_("card=0:hang-init")
    with xccl.begun(xccl.request(0, 1, timeout=60.0), ranks=2) as verb:
        error = xccl.refused(xccl.request(2, 3))
        assert error["code"] == "xccl-busy"
        assert f"pid {verb.pid} (of its container), run a-test, since 20" in error["message"]
        assert len(xccl.ranks()) == 2


def test_row_F41_a_leftover_rank_of_a_killed_diagnosis_is_cleaned_by_the_next(xccl: Diagnoses) -> None:
    paths = store.Paths(str(xccl.site.root))
    paths.make()
    # one that neither the death of its parent nor its pipe has ended
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as left:
        process = procs.read(left.pid)
        assert process is not None
        Lineage(paths.ranks).record(process, 1)
        (xccl.run / "xccl").mkdir()
        (xccl.run / "xccl" / "group-1").write_text("of that one")
        result = xccl.ask(xccl.request(0, 1))
        assert left.wait(10) == -signal.SIGKILL
    assert result["diagnosis"]["verdict"]["scope"] == "none"
    (line,) = xccl.site.audit("signal")
    assert (line["pid"], line["why"]) == (left.pid, "left by a diagnosis that was killed")


def test_the_clean_up_ends_a_leftover_rank_and_no_rank_at_work(xccl: Diagnoses) -> None:
    xccl.break_("card=0:hang-init")
    with xccl.begun(xccl.request(0, 1, timeout=60.0), ranks=2) as verb:
        look = ("--kind", "made", "--grace", "0", "--device-dir", str(xccl.site.devices))
        told = xccl.site.verb("reap", *look)
        assert told["processes"] == []
        assert sorted(one["cpid"] for one in told["observers"]) == sorted(xccl.ranks().values())
        os.kill(verb.pid, signal.SIGKILL)
        until(lambda: not xccl.ranks(), what="no rank outlives it")
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as left:
        process = procs.read(left.pid)
        assert process is not None
        Lineage(store.Paths(str(xccl.site.root)).ranks).record(process, 1)
        (one,) = xccl.site.verb("reap", *look)["processes"]
        assert (one["cpid"], one["outcome"], one["unit"]) == (left.pid, "gone", None)
        assert "a rank of a diagnosis of cards that is over" in one["reason"]


@pytest.mark.parametrize("how", ["TERM", "HUP", "INT", "stdin", "stdout"])
def test_nothing_survives_its_end(xccl: Diagnoses, how: str) -> None:
    xccl.break_("card=0:hang-init")
    with xccl.begun(xccl.request(0, 1, timeout=60.0), ranks=2) as verb:
        assert verb.stdin is not None
        assert verb.stdout is not None
        if how == "stdin":
            verb.stdin.close()
        elif how == "stdout":
            verb.stdout.close()
        else:
            verb.send_signal(getattr(signal, f"SIG{how}"))
        assert verb.wait(20) == (4 if how in ("stdin", "stdout") else 1)
        xccl.nothing_left()
        if how not in ("stdin", "stdout"):
            last = json.loads(verb.stdout.read().splitlines()[-1])
            assert last["error"]["code"] == "interrupted"


def test_no_rank_survives_that_it_is_killed(xccl: Diagnoses) -> None:
    xccl.break_("card=0:hang-init")
    with xccl.begun(xccl.request(0, 1, timeout=60.0), ranks=2) as verb:
        ranks = list(xccl.ranks().values())
        verb.kill()
        until(lambda: not any(map(alive, ranks)), timeout=10, what="the ranks are gone")
    xccl.break_()
    xccl.ask(xccl.request(0, 1))


def test_the_budget_holds_though_everything_hangs(xccl: Diagnoses) -> None:
    xccl.torch("import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)\n")
    began = time.monotonic()
    result = xccl.ask(xccl.request(0, 1, 2, budget=4.0))
    assert result["seconds"] < 4.0
    assert time.monotonic() - began < 10
    assert result["diagnosis"]["verdict"]["scope"] == "inconclusive"
    assert {one["status"] for one in result["diagnosis"]["outcomes"]} <= {"untested"}


def test_shared_memory_of_a_killed_rank_is_removed(xccl: Diagnoses, tmp_path: Path) -> None:
    name = f"/dev/shm/klops-{tmp_path.parent.name}"
    xccl.torch(
        "import ctypes, os, time\n"
        f"file = open({name!r} + '-' + os.environ['KLOPS_RANK_PLACE'], 'w')\n"
        f"print(ctypes.CDLL(None).shmget(0, 4096, 0o1666), file=open({str(tmp_path / 'ids')!r}, 'a'))\n"
        "time.sleep(600)\n"
    )
    xccl.ask(xccl.request(0, 1, budget=4.0))
    made = {int(line) for line in (tmp_path / "ids").read_text().split()}
    assert len(made) == 2
    assert not made & {one.id for one in sysv.segments()}
    assert not [path for path in Path("/dev/shm").iterdir() if str(path).startswith(name)]
    assert [line["outcome"] for line in xccl.site.audit("remove")] == ["removed"] * 4


def test_a_segment_of_a_rank_that_died_is_removed(xccl: Diagnoses, tmp_path: Path) -> None:
    xccl.torch(
        "import ctypes, os\n"
        f"ids = open({str(tmp_path / 'ids')!r}, 'a')\n"
        "print(ctypes.CDLL(None).shmget(0, 4096, 0o1666), file=ids, flush=True)\n"
        "os._exit(1)\n"
    )
    xccl.ask(xccl.request(0, 1))
    made = {int(line) for line in (tmp_path / "ids").read_text().split()}
    assert len(made) >= 2
    assert not made & {one.id for one in sysv.segments()}


def test_there_is_no_torch(xccl: Diagnoses) -> None:
    xccl.torch("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n")
    error = xccl.refused(xccl.request(0, 1))
    assert error["code"] == "no-torch"
    assert xccl.site.python in error["message"]
    xccl.nothing_left()


def test_the_choice_of_cards_comes_after_the_script(xccl: Diagnoses, tmp_path: Path) -> None:
    script = tmp_path / "env.sh"
    script.write_text("XPU_VISIBLE_DEVICES=0\nCUDA_VISIBLE_DEVICES=0\nXPU_EVENT_KL3_ENABLE=1\n")
    result = xccl.ask(xccl.request(5, 2, env_script=str(script)))
    assert [one["read_back"] for one in result["order"]] == [5, 2]
    (note,) = result["notes"]
    assert note.startswith("XPU_EVENT_KL3_ENABLE=1 is set")
    script.write_text("return 1\n")
    assert xccl.ask(xccl.request(5, 2, env_script=str(script)))["notes"] == []
    assert xccl.refused(xccl.request(5, 2, env_script=str(script) + ".none"))["code"] == "env-script"
    xccl.nothing_left()


def test_it_is_refused_while_somebody_has_a_card_open(xccl: Diagnoses) -> None:
    node = xccl.site.devices / f"xpu{xccl.cards.identity(3)['minor']}"
    held = os.open(node, os.O_RDWR | os.O_NOCTTY)
    holder = subprocess.Popen(["sleep", "300"], stdin=held)
    os.close(held)
    error = xccl.refused(xccl.request(0, 3))
    assert error["code"] == "cards-busy"
    assert error["message"] == f"pid {holder.pid} (sleep) has card 3 open"
    assert xccl.ask(xccl.request(0, 1))["diagnosis"]["verdict"]["scope"] == "none"
    holder.kill()
    holder.wait()


def test_it_is_refused_while_a_unit_has_a_card(held: Site, cards: Cards) -> None:
    xccl = Diagnoses(held, cards)
    held.start(on_cards(held, cards, 2, 3))
    held.reaches("ready")
    error = xccl.refused(xccl.request(1, 2, 3))
    assert (error["code"], error["message"]) == ("cards-busy", "in use: llm has card 2, 3")
    assert xccl.ask(xccl.request(4, 5))["diagnosis"]["verdict"]["scope"] == "none"
    assert held.unit()["state"] == "ready"


@pytest.mark.long
def test_a_rank_that_kill_does_not_end(xccl: Diagnoses, frozen: Frozen) -> None:
    xccl.break_("card=1:hang-init")
    with xccl.begun(xccl.request(0, 1, 2, timeout=2.0, aim={"tries": 1, "needed": 1}), ranks=3) as verb:
        stuck = xccl.holding()[1]
        frozen.freeze(stuck)
        assert verb.stdout is not None
        result = json.loads(verb.stdout.read().splitlines()[-1])["result"]
    ((left),) = result["left"]
    assert (left["index"], left["pid"], left["state"]) == (1, stuck, "D")
    verdict = result["diagnosis"]["verdict"]["cards"]
    assert verdict["1"]["verdict"] == "fail"
    assert {verdict[card]["verdict"] for card in "02"} == {"pass"}
    errors = [one["error"] for one in result["diagnosis"]["outcomes"] if 1 in one["cards"]]
    assert any(text.startswith(f"unkillable: pid {stuck} (rank of card 1) in state D") for text in errors)
    (note,) = xccl.site.verb("status")["quarantine"]
    assert (note["kind"], note["card"]["index"], note["process"]["pid"]) == ("unkillable", 1, stuck)
    assert xccl.refused(xccl.request(0, 1))["code"] == "cards-busy"
    frozen.thaw()
    until(lambda: not alive(stuck), what="the driver lets it go")
    assert xccl.site.verb("status")["quarantine"] == []
