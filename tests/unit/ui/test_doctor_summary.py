"""What people read of a diagnosis on a terminal."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from klops.errors import KlopsError, TaskFailed
from klops.ui.doctor.advice import Step, steps
from klops.ui.doctor.heatmap import HeatMap
from klops.ui.doctor.measured import measured, size_text
from klops.ui.doctor.pairs import matrix
from klops.ui.doctor.summary import doctor_view, sentence, worst
from tests.unit.ui.diagnoses import card, card_3_is_bad, diagnosis


def shown(
    found: dict[str, Any],
    errors: dict[str, KlopsError] | None = None,
    *,
    width: int = 80,
    colour: bool = False,
) -> str:
    console = Console(
        file=io.StringIO(),
        width=width,
        color_system="truecolor" if colour else None,
        force_terminal=True,
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    console.print(
        doctor_view({"h1": found}, lambda text: text.replace("s3cret", "********"), errors=errors or {})
    )
    output: io.StringIO = console.file  # type: ignore[assignment]  # the one it was made with
    return output.getvalue()


def test_the_verdict_comes_first_and_commands_to_copy_last() -> None:
    lines = shown(card_3_is_bad()).splitlines()
    assert lines[0] == "h1: card 3 is bad: it hangs with every other card; 7 cards work"
    assert lines[1] == "  TP=8 needs card 3"
    assert lines[2].split() == ["card", "container", "node", "bdf", "verdict", "reason"]
    assert "   3         3 xpu4 0000:55:00 fail    hangs in 7 of 7 pairs" in lines
    assert "  card 3: 12 Xid lines since boot" in lines
    assert [line.strip() for line in lines if line.startswith("    klops")] == [
        "klops up h1",
        "klops down h1",
        "klops exec --host h1 -- xpu-smi -r -i 3",
        "klops doctor xccl h1",
        "klops cards restore h1 3",
    ]
    assert not [line for line in lines if cell_len(line) > 80]


def test_pairs_that_fail_alike_are_one_line() -> None:
    text = shown(card_3_is_bad())
    assert "  pair 0-1: slow: 0.31 of its peers\n" in text
    told = "pairs 0-3 1-3 2-3 3-4 3-5 3-6 3-7: timeout (2 of 2 runs failed): card 3 did not answer in 20 s"
    assert told in re.sub(r"\n +", " ", text)


def test_the_map_has_each_pair_twice_and_explains_its_words() -> None:
    lines = shown(card_3_is_bad()).splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("  pairs, GB/s"))
    rows = [line.split() for line in lines[at + 1 : at + 10]]
    assert rows[0] == list("01234567")
    assert rows[1] == ["0", ".", "9.1~", "28.9", "hangs", "28.9", "28.9", "28.9", "28.9"]
    assert rows[4] == ["3", "hangs", "hangs", "hangs", ".", "hangs", "hangs", "hangs", "hangs"]
    assert lines[at + 10] == "  hangs: does not end in time, ~: slow beside its peers"


@pytest.mark.parametrize(("count", "width"), [(8, 80), (8, 40), (16, 80), (2, 30)])
def test_the_map_fits_and_stays_in_columns(count: int, width: int) -> None:
    found = matrix(diagnosis(count, {(0, 1): {"status": "wrong", "gbps": None}}))
    assert found is not None
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(HeatMap(found))
    output: io.StringIO = console.file  # type: ignore[assignment]  # the one it was made with
    title, heading, *rows, legend = output.getvalue().splitlines()
    assert len(rows) == count
    assert max(map(cell_len, (title, heading, *rows))) <= width
    assert {len(row) for row in (heading, *rows)} == {len(heading)}
    assert len(heading.split()) == count
    word = "wrong" if 6 + 7 * count <= width else "W"
    assert rows[0].split()[2] == word
    assert legend.strip() == f"{word}: a wrong sum"


def test_with_colours_it_is_a_heat_map_with_the_same_words() -> None:
    plain, coloured = shown(card_3_is_bad()), shown(card_3_is_bad(), colour=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    row = next(line for line in coloured.splitlines() if "9.1~" in line)
    assert len(set(re.findall(r"48;2;[0-9;]+", row))) == 3, "slow, usual and failing look different"


def test_bandwidth_below_the_usual_is_seen_though_it_passes() -> None:
    found = matrix(diagnosis(4, {(0, 1): {"gbps": 26.0}, (0, 2): {"gbps": 20.0}}))
    assert found is not None
    looks = [field.look for field in found.fields.values()]
    assert looks == ["fair", "poor", "good", "good", "good", "good"]


def test_what_was_not_tested_is_no_zero() -> None:
    seen = diagnosis(3)
    found = matrix({**seen, "pairs": seen["pairs"][1:]})
    assert found is not None
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(HeatMap(found))
    output: io.StringIO = console.file  # type: ignore[assignment]  # the one it was made with
    rows = [line.split() for line in output.getvalue().splitlines()[2:5]]
    assert rows == [["0", ".", "-", "28.9"], ["1", "-", ".", "28.9"], ["2", "28.9", "28.9", "."]]


def test_a_host_that_does_well_is_short() -> None:
    text = shown(diagnosis(pairs=None) | {"pairs": []})
    assert text.startswith("h1: all 8 cards work, alone and together\n")
    assert "pairs" not in text
    assert "29 groups formed in 10 rounds by 8 rank processes in 42 s, nccl on cuda" in text
    assert "next: to serve on cards 0-7 with TP=8:" in text


def test_a_fault_that_is_no_cards_is_no_pass() -> None:
    found = diagnosis(
        scope="stack",
        summary="every pair fails alike",
        error="[XCCL][util.cpp:346] dev 0 addr_window not properly set",
        hints=["look at BKCL_CHECK_AW and BKCL_NONUNIFORM_VISIBLE_DEVICES; klops never sets them"],
        recommended_tp=None,
        recommended_cards=[],
        verified=False,
    )
    assert (worst(found), worst(diagnosis())) == ("fail", "pass")
    # some are kept out of service by hand, and work
    assert worst(diagnosis(scope="card")) == "pass"
    found["cards"] = [card(n, "unknown", "works alone", action="inspect") for n in range(8)]
    text = shown(found)
    assert "  error: [XCCL][util.cpp:346] dev 0 addr_window not properly set\n" in text
    assert "  look at BKCL_CHECK_AW and" in text
    assert "next:" not in text, "nothing is to be done about each card, and no variable to be set"
    assert "klops up" not in text, "no service is proposed where none can be had"


def test_nothing_is_said_twice() -> None:
    found = diagnosis(
        summary="all pairs fail: addr_window", error="addr_window", why="all pairs fail: addr_window"
    )
    assert shown(found).count("addr_window") == 1
    cards = [card(n, "fail", f"reason {n}", evidence=["no answer alone"]) for n in range(4)] + [card(4)]
    assert "  cards 0-3: no answer alone\n" in shown(diagnosis(cards=cards))


def test_without_a_summary_the_verdicts_are_counted_worst_first() -> None:
    cards = [card(0), card(1, "unknown"), card(2, "fail"), card(3)]
    assert sentence({"cards": cards}) == "card 2: fail; card 1: unknown; cards 0,3: pass"
    assert sentence({"cards": []}) == "nothing is known of its cards"


def test_a_host_of_which_only_the_cards_are_known_says_why() -> None:
    found = {"cards": [{"index": 0, "node": "/dev/xpu0"}]}
    text = shown(found, {"h1": TaskFailed("python3 has no torch", code="no-torch")})
    assert text == "h1: python3 has no torch\n"


SCAN: list[dict[str, Any]] = [
    {"world": 2, "bytes": 2600000, "us": 130.0, "algbw": 20.0, "busbw": 20.0, "wrong": 0},
    {"world": 8, "bytes": 2600000, "us": 130.0, "algbw": 20.0, "busbw": 35.0, "wrong": 1},
]


def test_a_scan_is_a_table_of_ranks_and_sizes() -> None:
    found = diagnosis(
        scope=None,
        scan=SCAN,
        scan_failed=[{"world": 4, "status": "timeout", "error": "no answer within 20 s"}],
        summary="4 ranks fail",
    )
    lines = [line.split() for line in shown(found).splitlines()]
    assert lines[1] == "4 ranks: timeout: no answer within 20 s".split()  # noqa: SIM905 - as it is read
    assert lines[2] == "ranks size bytes time us algbw GB/s busbw GB/s wrong".split()  # noqa: SIM905
    assert lines[3] == ["2", "2.5M", "2600000", "130.0", "20.00", "20.00", "0"]
    assert lines[4] == ["8", "2.5M", "2600000", "130.0", "20.00", "35.00", "1"]
    assert len(lines) == 5, "nothing is said of cards that were not judged"


def test_bandwidths_are_those_of_nccl_tests() -> None:
    sample = {"bytes": 2_600_000, "rounds": 10, "wrong": 0, "nan": 0, "us": 130.0, "spread_us": 1.0}
    (one,) = measured({"outcomes": [{"cards": [0, 1, 2, 3], "status": "ok", "samples": [sample]}]})
    assert (one.algbw, one.busbw) == (20.0, 30.0)
    assert measured({"outcomes": [{"cards": [0], "status": "ok", "samples": [sample]}]}) == []


@pytest.mark.parametrize(
    ("size", "text"), [(512, "512"), (65536, "64K"), (2_600_000, "2.5M"), (1 << 20, "1M"), (3 << 30, "3G")]
)
def test_sizes_for_people(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("action", "commands"),
    [
        ("retry", ["klops doctor xccl h1"]),
        ("restart", ["klops up h1 --recreate", "klops doctor xccl h1"]),
        ("exclude", ["klops cards exclude h1 2 3"]),
        ("reset", ["klops down h1", "klops exec --host h1 -- xpu-smi -r -i 2,3", "klops doctor xccl h1"]),
        ("reboot", ["klops doctor xccl h1"]),
        ("inspect", []),
        ("something new", []),
    ],
)
def test_each_action_says_what_to_do_for_all_its_cards_at_once(action: str, commands: list[str]) -> None:
    cards = [card(2, "fail", action=action), card(3, "fail", action=action), card(4)]
    (step,) = steps("h1", {"cards": cards})
    assert list(step.commands) == commands
    assert "cards 2-3" in step.text


def test_where_no_group_is_left_it_says_so_and_proposes_no_start() -> None:
    found = {"cards": [], "excluded": [1, 6], "recommended_cards": [], "why": "no group of 4 is whole"}
    assert steps("h1", found) == [
        Step("no service can be had of the other cards"),
        Step("to test cards 1,6 after a repair and take back what works", ("klops cards restore h1 1 6",)),
    ]


def test_after_a_test_of_some_cards_no_start_is_proposed() -> None:
    found = {"cards": [], "excluded": [3], "recommended_cards": None, "recommended_tp": None}
    assert [step.commands for step in steps("h1", found)] == [("klops cards restore h1 3",)]


def test_what_was_not_tested_together_is_not_called_proven() -> None:
    found = {"cards": [], "recommended_cards": [4, 5], "recommended_tp": 2, "verified": False}
    (step,) = steps("h1", found)
    assert step.text == "to serve on cards 4-5 with TP=2, which were not tested together"


def test_secrets_are_masked() -> None:
    found = card_3_is_bad() | {"summary": "s3cret", "notes": ["s3cret"], "hints": ["s3cret"]}
    assert "s3cret" not in shown(found)
    assert shown(found).count("********") == 3


@settings(deadline=None)
@given(st.text(max_size=30))
def test_whatever_a_host_says_moves_no_cursor(text: str) -> None:
    said = f"\x1b]0;{text}\x07{text}\x1b[2J"
    found = card_3_is_bad() | {"summary": said, "error": said, "why": said, "notes": [said], "hints": [said]}
    found["cards"][2] |= {"reason": said, "bdf": said, "node": said, "verdict": said, "evidence": [said, "x"]}
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown(found).replace("\t", " "))
