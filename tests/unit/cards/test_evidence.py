"""Findings of counters, sources and driver, and what findings come to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from klops.cards.evidence import driver, readings, sources
from klops.cards.evidence.findings import Finding
from klops.cards.evidence.standings import standings
from klops.cards.identity import Card
from klops.cards.smi.listing import Listed
from klops.cards.smi.machine import MachineRow
from klops.cards.smi.query import Errors, Limit, QueryCard

CARDS = tuple(Card(i, 7 - i, f"/dev/xpu{7 - i}", f"0000:0{i}:00", f"GPU-{i}") for i in range(4))
GOOD = QueryCard(
    "",
    firmware=(("SBL", "1.54"), ("ALL", "1.0.2.14.1.54")),
    part="B1",
    product="P800 OAM",
    generation=Limit(4, 4),
    width=Limit(16, 16),
    ecc_mode="Enabled",
    correctable=Errors(0, 0),
    uncorrectable=Errors(0, 0),
    temperature=46,
    power=92,
    power_limit=400,
)
QUERIED = [replace(GOOD, bdf=card.bdf) for card in CARDS]


def one_odd(**values: object) -> list[QueryCard]:
    return [*QUERIED[:3], replace(QUERIED[3], **values)]  # type: ignore[arg-type]  # named by each test


def of(queried: list[QueryCard]) -> list[tuple[int | None, str, str]]:
    return [(one.card, one.kind, one.severity) for one in readings.findings(CARDS, [], queried)]


def test_counters_in_order_are_no_finding() -> None:
    assert of(QUERIED) == []


@pytest.mark.parametrize(
    ("values", "kind", "severity"),
    [
        ({"uncorrectable": Errors(1, 1)}, "ecc", "degraded"),
        ({"uncorrectable": Errors(0, 2)}, "ecc", "degraded"),
        ({"correctable": Errors(9, 9)}, "ecc", "note"),
        ({"ecc_mode": "Disabled"}, "ecc", "note"),
        ({"width": Limit(8, 16)}, "pcie", "degraded"),
        ({"generation": Limit(3, 4)}, "pcie", "note"),
        ({"temperature": 92}, "temperature", "note"),
        ({"firmware": (("ALL", "1.0.2.14.1.48"),)}, "firmware", "note"),
        ({"part": "B2"}, "firmware", "note"),
        ({"product": "P800 PCIe"}, "firmware", "note"),
    ],
)
def test_a_counter_out_of_order(values: dict[str, object], kind: str, severity: str) -> None:
    assert of(one_odd(**values)) == [(3, kind, severity)]


def test_values_that_nobody_said_are_no_finding() -> None:
    assert of([QueryCard(card.bdf) for card in CARDS]) == []
    assert readings.findings(CARDS, [MachineRow(card.bdf, card.index) for card in CARDS], []) == []


def test_versions_without_a_majority_blame_no_card() -> None:
    halves = [replace(one, part="B1" if place % 2 else "B2") for place, one in enumerate(QUERIED)]
    ((card, kind, _),) = of(halves)
    assert (card, kind) == (None, "firmware")


def test_the_reading_of_a_card_is_one_line() -> None:
    card = replace(CARDS[0], memory_used_mib=4, memory_total_mib=98304, utilisation=0)
    said = readings.reading(card, None, QUERIED[0])
    assert said == "46 C, 92 W of 400 W, 4 of 98304 MiB in use, 0 % busy, firmware 1.0.2.14.1.54"
    row = MachineRow(card.bdf, 0, temperature=40, power=80, firmware="1.0:2")
    assert readings.reading(CARDS[0], row, None) == "40 C, 80 W, firmware 1.0:2"
    assert readings.reading(CARDS[0], None, None) == ""


def test_the_driver_is_that_of_the_host() -> None:
    line = "KUNLUN driver module a b c d e f 5.0.21.47 more"
    assert driver.parse(f"something else 1.2\n{line}\n") == "5.0.21.47"
    assert driver.parse("KLRM KUNLUN module version: 5.19.0.0") == "5.19.0.0"
    assert driver.parse("") == ""


@pytest.mark.parametrize(
    ("version", "than", "older"),
    [
        ("5.0.21.8", "5.0.21.26", True),
        ("5.0.21.26", "5.0.21.26", False),
        ("5.19.0.0", "5.0.21.26", False),
        ("5.0.21", "5.0.21.26", True),
        ("unknown", "5.0", False),
    ],
)
def test_versions_are_compared_by_their_numbers(version: str, than: str, *, older: bool) -> None:
    assert driver.older(version, than) is older


def test_the_shims_number_is_no_drivers() -> None:
    found = driver.findings("5.0.21.47", "515.58", "container")
    assert {one.kind for one in found} == {"driver"}
    assert "number of the shim" in found[0].text
    assert found[-1].text == "driver 5.0.21.47"
    assert [one.severity for one in driver.findings("", "515.58", "container")] == ["note", "unknown"]


def test_two_versions_are_told_with_their_sources() -> None:
    (one, *_) = driver.findings("5.0.21.47", "5.0.21.26", "host")
    assert one.kind == "sources"
    assert "5.0.21.47 in /proc/kunlun/version and 5.0.21.26 in xpu-smi on the host" in one.text


def test_an_old_driver_is_told_with_who_documents_the_floor() -> None:
    assert "5.0.21.26 (FastDeploy)" in driver.findings("5.0.21.21", "", "")[-1].text
    assert "ERNIE" in driver.findings("5.0.21.8", "", "")[-1].text
    assert len(driver.findings("5.0.21.47", "", "")) == 1


LSPCI = """\
00:00.0 1200: 1d22:3686 (rev 01)
0000:01:00.0 1200: 2057:3686
02:00.0 1200: 1d22:3684
04:00.0 1200: 2057:3689
05:00.0 0604: 1d22:9999
06:00.0 0300: 10de:3686
pcilib: sysfs_read_vpd: read failed
"""


def test_cards_on_the_bus_and_in_xpu_smi() -> None:
    bus = sources.parse_lspci(LSPCI)
    assert [one.bdf for one in bus] == ["0000:00:00", "0000:01:00", "0000:02:00", "0000:04:00"]
    found = {(one.card, one.severity): one.text for one in sources.on_the_bus(CARDS, bus)}
    assert set(found) == {(None, "fail"), (2, "note"), (3, "unknown")}
    assert "on the PCI bus at 0000:04:00 (2057:3689), but xpu-smi doesn't know it" in found[None, "fail"]
    assert "no P800 (1d22:3684)" in found[2, "note"]


def test_the_list_is_held_against_the_cards_by_what_its_format_has() -> None:
    same = [Listed(0, "GPU-0"), Listed(1, bdf="0000:01:00"), Listed(2), Listed(3)]
    assert sources.listed(CARDS, same) == []
    other = [Listed(0, "GPU-1"), Listed(1, bdf="0000:02:00"), Listed(2), Listed(9)]
    found = [(one.card, one.text) for one in sources.listed(CARDS, other)]
    assert found == [
        (0, "card 0 is GPU-0 in xpu-smi -m and -q, and GPU-1 in -L"),
        (1, "card 1 is 0000:01:00 in xpu-smi -m and -q, and 0000:02:00 in -L"),
        (None, "card 9 is in xpu-smi -L only"),
        (3, "card 3 is not in xpu-smi -L"),
    ]


def test_counts_and_nodes_of_other_places() -> None:
    assert sources.parse_proc("dev0\nversion\ndev1\ndevice\ndev10\n") == [0, 1, 10]
    assert sources.counted(CARDS, 4, "x") == []
    assert [one.severity for one in sources.counted(CARDS, 5, "x")] == ["degraded"]
    assert [one.severity for one in sources.counted(CARDS, 3, "x")] == ["note"]
    assert [(one.card, one.severity) for one in sources.in_topology(CARDS, (0, 1, 2, 8))] == [
        (3, "unknown"),
        (None, "degraded"),
    ]
    (one,) = sources.nodes_without_card(CARDS, [card.node for card in CARDS] + ["/dev/xpu1"])
    assert one.text == "/dev/xpu1 is there, but xpu-smi knows no card of that minor"


def finding(card: int | None, kind: str, severity: str, action: str = "none") -> Finding:
    return Finding(kind, card, severity, f"{kind} {severity}", action)


def test_what_nothing_speaks_against_is_usable_and_not_called_tested() -> None:
    (one,) = standings([0], [finding(0, "reading", "note"), finding(1, "ecc", "degraded")]).values()
    assert (one.state, one.verdict, one.action) == ("usable", "pass", "none")
    assert "not tested" in one.reason
    assert one.evidence == ("reading note",)


@pytest.mark.parametrize(
    ("kind", "severity", "state", "verdict"),
    [
        ("node-missing", "fail", "untestable", "fail"),
        ("absent", "fail", "untestable", "fail"),
        ("driver-refuses", "fail", "untestable", "fail"),
        ("access-lost", "unknown", "untestable", "unknown"),
        ("in-use", "unknown", "untestable", "unknown"),
        ("held", "unknown", "untestable", "unknown"),
        ("ecc", "degraded", "suspicious", "degraded"),
        ("kernel-log", "degraded", "suspicious", "degraded"),
        ("sources", "unknown", "suspicious", "unknown"),
    ],
)
def test_what_a_finding_comes_to(kind: str, severity: str, state: str, verdict: str) -> None:
    one = standings([3], [finding(3, "reading", "note"), finding(3, kind, severity, "inspect")])[3]
    assert (one.state, one.verdict, one.action) == (state, verdict, "inspect")
    assert one.evidence == (f"{kind} {severity}", "reading note")


def test_a_card_in_use_is_not_called_broken_for_what_its_user_does() -> None:
    one = standings([0], [finding(0, "ecc", "degraded", "reset"), finding(0, "in-use", "unknown")])[0]
    assert (one.state, one.verdict, one.reason, one.action) == (
        "untestable",
        "unknown",
        "in-use unknown",
        "none",
    )
    assert one.evidence == ("ecc degraded", "in-use unknown")


def test_row_C17_findings_about_the_host_blame_no_card() -> None:
    found = [finding(None, "access-lost", "unknown"), finding(None, "sources", "fail")]
    assert standings([0], found)[0].state == "usable"
