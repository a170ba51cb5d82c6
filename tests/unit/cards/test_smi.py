"""Samples are those of the tool as seen in the field, with serials and UUIDs replaced."""

from __future__ import annotations

from dataclasses import replace

import pytest

from klops.cards import smi
from klops.cards.smi.listing import Listed, parse_list
from klops.cards.smi.machine import parse_machine
from klops.cards.smi.query import Errors, Limit, parse_query

ROW0 = (
    "00000000:03:00.0 0 0 SN0 36 0 0 0 86 1450 1450 1450 1450 1450 1450 2 96 90440 98304 0 1.0:2.6:1.39.1.7 "
    '"P800 OAM" 0 0 0 0 0 0 0 0 0 0'
)
ROW1 = ROW0.replace(":03:", ":05:").replace(" 0 0 SN0 36", " 1 1 SN1 39")
#: a line as a test of the field's own parser has it: too short
SHORT = '00000000:16:00.0 1 1 SERIAL 37 0 0 0 93 1450 1450 1450 1450 1450 1450 0 96 0 98304 0 FW "P800 OAM" 0'

QUERY = """\
==============XPUSMI LOG==============

Timestamp                                 : Tue Feb  3 18:20:01 2026
Driver Version                            : 5.0.21.26
XPU-RT Version                            : 10.2

Attached XPUs                             : 2
XPU 00000000:01:00.0
    Product Name                          : P800 PCIe
    Product Brand                         : KUNLUNXIN
    Product Architecture                  : KL3
    Serial Number                         : SN7
    XPU UUID                              : GPU-7777
    Minor Number                          : 0
    PCIe Id                               : 3
    XPU Part Number                       : B00100300110211
    Firmware Version
        PBL Version                       : 1.0
        PCIE Version                      : 2.14
    PCI
        Bus                               : 0x01
        Domain                            : 0x0000
        Device Id                         : 0x36862057
        Bus Id                            : 00000000:01:00.0
        XPU Link Info
            PCIe Generation
                Max                       : 4
                Current                   : 3
            Link Width
                Max                       : 16x
    Memory Usage
        Total                             : 98304 MiB
        Reserved                          : 0 MiB
        Used                              : 4 MiB
        Free                              : 98300 MiB
    L3 Usage
        Total                             : 96 MiB
        Used                              : 1 MiB
    Utilization
        Xpu                               : 7 %
    Ecc Mode
        Current                           : Enabled
    Temperature
        XPU Current Temp                  : 46 C
    Power Readings
        Enforced Power Limit              : 350.00 W
    Processes                             : None
"""


def second(**values: str) -> str:
    block = QUERY[QUERY.index("XPU 00000000") :]
    for old, new in (("01:00.0", "9A:00.0"), ("SN7", "SN8"), ("GPU-7777", "GPU-8888")):
        block = block.replace(old, new)
    for key, value in values.items():
        name = key.replace("_", " ")
        block = "".join(
            f"{line.split(':')[0]}: {value}\n" if line.strip().startswith(name) else f"{line}\n"
            for line in block.splitlines()
        )
    return block


def test_a_whole_line_has_32_fields_and_the_model_is_one_of_them() -> None:
    row = parse_machine(ROW0)[0]
    assert (row.bdf, row.index, row.serial) == ("0000:03:00", 0, "SN0")
    assert (row.memory_used, row.memory_total, row.utilisation) == (90440, 98304, 0)
    assert row.model == "P800 OAM"
    assert row.whole


def test_a_short_line_costs_what_it_lacks_only() -> None:
    row = parse_machine(SHORT)[0]
    assert (row.index, row.memory_used, row.memory_total, row.model) == (1, 0, 98304, "P800 OAM")
    assert not row.whole
    cut = parse_machine(SHORT[: SHORT.index(" 93")])[0]
    assert (cut.serial, cut.memory_used, cut.memory_total) == ("SERIAL", None, None)


def test_a_line_cut_within_the_quotes_is_read() -> None:
    row = parse_machine(SHORT[: SHORT.index(" OAM")])[0]
    assert (row.bdf, row.memory_total) == ("0000:16:00", 98304)


@pytest.mark.parametrize("nothing", ["N/A", "None", '"Invalid Argument"', "Invalid Argument"])
def test_what_stands_for_no_value_is_no_serial_and_costs_nothing_else(nothing: str) -> None:
    (row,) = parse_machine(ROW0.replace("SN0", nothing))
    (whole,) = parse_machine(ROW0)
    assert row.serial == ""
    assert replace(row, serial="SN0") == whole


def test_noise_is_passed_over() -> None:
    text = f"hello from .bashrc\n\x1b[31mWARN driver is old\x1b[0m\n{ROW0}\r\n'unbalanced\n{ROW1}\n12 34\n"
    assert [row.index for row in parse_machine(text)] == [0, 1]


def test_the_report_is_read_by_sections() -> None:
    report = parse_query("libxpuml: a warning: with colons\n" + QUERY)
    assert (report.driver, report.runtime, report.attached) == ("5.0.21.26", "10.2", 2)
    (card,) = report.cards
    assert (card.bdf, card.minor, card.uuid, card.serial) == ("0000:01:00", 0, "GPU-7777", "SN7")
    assert (card.memory_used, card.memory_total, card.utilisation) == (4, 98304, 7)
    assert card.product == "P800 PCIe"
    assert card.pids == ()


def test_processes_of_a_card() -> None:
    text = QUERY.replace(
        "    Processes                             : None",
        "    Processes\n        Process ID                        : 4711\n            Name : x\n"
        "        Process ID                        : 4712",
    )
    assert parse_query(text).cards[0].pids == (4711, 4712)


def test_values_that_say_nothing() -> None:
    card = parse_query(second(Minor_Number="N/A", Xpu="Invalid Argument", XPU_UUID="N/A")).cards[0]
    assert (card.minor, card.utilisation, card.uuid) == (None, None, "")


def test_no_output_is_no_cards() -> None:
    assert smi.read_cards("", "").cards == ()
    assert parse_query("xpu-smi: command not found").cards == ()


def test_join_keeps_index_and_minor_apart() -> None:
    rows = (
        ROW0.replace(":03:", ":9A:").replace("SN0", "SN8")
        + "\n"
        + ROW1.replace(":05:", ":01:").replace("SN1", "SN7")
    )
    cards = smi.read_cards(rows, QUERY + second(Minor_Number="5"), "/srv/cards/")
    assert [(c.index, c.minor, c.node, c.bdf, c.uuid) for c in cards.cards] == [
        (0, 5, "/srv/cards/xpu5", "0000:9a:00", "GPU-8888"),
        (1, 0, "/srv/cards/xpu0", "0000:01:00", "GPU-7777"),
    ]
    assert cards.findings == ()


def test_machine_lines_alone_assume_the_minor_and_say_so() -> None:
    cards = smi.read_cards(ROW1 + "\n" + ROW0, "")
    assert [(c.index, c.minor) for c in cards.cards] == [(0, 0), (1, 1)]
    assert cards.findings == ("no minor number for card 0, 1: its index was taken for it",)


def test_the_report_alone_counts_cards_in_its_order() -> None:
    cards = smi.read_cards("", QUERY + second(Minor_Number="3"))
    assert [(c.index, c.minor, c.memory_used_mib) for c in cards.cards] == [(0, 0, 4), (1, 3, 4)]
    assert cards.findings == ()


def test_disagreement_is_a_finding() -> None:
    findings = smi.read_cards(ROW0.replace(":03:", ":01:") + "\n" + ROW1, QUERY + second()).findings
    assert "card 0000:05:00 is in xpu-smi -m only" in findings
    assert "card 0000:9a:00 is in xpu-smi -q only" in findings
    assert "card 0000:01:00 has serial SN0 in xpu-smi -m and SN7 in -q" in findings


def test_two_cards_of_one_minor_are_a_finding() -> None:
    rows = (
        ROW0.replace(":03:", ":01:").replace("SN0", "SN7")
        + "\n"
        + ROW1.replace(":05:", ":9A:").replace("SN1", "SN8")
    )
    assert smi.read_cards(rows, QUERY + second()).findings == ("two cards have minor number 0",)


def test_what_two_cards_share_identifies_neither() -> None:
    query = QUERY.partition("XPU 00000000:01")[0] + "".join(
        f"XPU 00000000:0{place}:00.0\n"
        f"    Serial Number : {serial}\n    XPU UUID : GPU-0\n    Minor Number : {i}\n"
        for i, (place, serial) in enumerate(((3, "SN0"), (5, "SN0"), (7, "SN7")))
    )
    cards = smi.read_cards("", query)
    assert [(card.uuid, card.serial, card.bdf) for card in cards.cards] == [
        ("", "", "0000:03:00"),
        ("", "", "0000:05:00"),
        ("", "SN7", "0000:07:00"),
    ]
    assert {"two cards have UUID GPU-0", "two cards have serial SN0"} <= {*cards.findings}


def test_assumed_cards() -> None:
    assert [(c.index, c.node) for c in smi.assumed_cards(2).cards] == [(0, "/dev/xpu0"), (1, "/dev/xpu1")]


#: What the one published report of the tool has between its sections that are read for identity.
DETAILS = """\
    Firmware Version
        PBL Version                       : 1.0
        SBL Version                       : 1.54
        ALL Version                       : 1.0.2.14.1.54
    PCI
        Bus Id                            : 00000000:01:00.0
        XPU Link Info
            PCIe Generation
                Max                       : 4
                Current                   : 3
            Link Width
                Max                       : 16x
                Current                   : 8x
    Ecc Mode
        Current                           : Enabled
        Pending                           : Disabled
    ECC Errors
        Volatile
            DRAM Correctable              : 3
            DRAM Uncorrectable            : 0
        Aggregate
            DRAM Correctable              : 5
            DRAM Uncorrectable            : N/A
    Temperature
        XPU Current Temp                  : 46 C
    Power Readings
        Enforced Power Limit              : 350.00 W
        Power Draw                        : 76.00 W
"""


def test_details_of_a_card_are_read_by_their_sections() -> None:
    (card,) = parse_query(f"XPU 00000000:01:00.0\n    XPU Part Number : B001\n{DETAILS}").cards
    assert card.part == "B001"
    assert card.firmware == (("PBL", "1.0"), ("SBL", "1.54"), ("ALL", "1.0.2.14.1.54"))
    assert (card.generation, card.width) == (Limit(3, 4), Limit(8, 16))
    assert card.ecc_mode == "Enabled"
    assert (card.correctable, card.uncorrectable) == (Errors(3, 5), Errors(0, None))
    assert (card.temperature, card.power, card.power_limit) == (46, 76, 350)


def test_a_report_without_details_leaves_them_open() -> None:
    (card,) = parse_query("XPU 00000000:01:00.0\n    Serial Number : SN7\n").cards
    assert (card.generation, card.width, card.correctable) == (Limit(), Limit(), Errors())
    assert not Limit(None, 16).below
    assert Limit(8, 16).below


def test_both_number_columns_of_a_line_are_read_and_told_apart() -> None:
    row = parse_machine(ROW0.replace(" 0 0 SN0", " 0 3 SN0"))[0]
    assert (row.index, row.device, row.temperature, row.power, row.firmware) == (
        0,
        3,
        36,
        86,
        "1.0:2.6:1.39.1.7",
    )
    assert "card 0000:03:00 is 0 as a board and 3 as a device in xpu-smi -m: 0 was taken for its index" in (
        smi.read_cards(ROW0.replace(" 0 0 SN0", " 0 3 SN0"), "").findings
    )


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("XPU 0: P800 OAM  GPU-12-ab", Listed(0, "GPU-12-ab")),
        ("XPU 3: P800 OAM (UUID: GPU-12-ab)", Listed(3, "GPU-12-ab")),
        ("XPU 10: 00000000:21:00.0", Listed(10, bdf="0000:21:00")),
        ("XPU 1:", Listed(1)),
    ],
)
def test_the_three_formats_of_the_list(line: str, found: Listed) -> None:
    assert parse_list(f"a warning\n{line}\nXPU-RT Version: 5\n") == [found]
