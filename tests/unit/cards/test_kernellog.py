"""Lines of the kernel log as published, with process numbers made up."""

from __future__ import annotations

import pytest

from klops.cards.evidence import kernellog
from klops.cards.identity import Card

EVENT = """\
KLRM: (PCI:0000:16:00): [INFO] vstream[0] sess[1] tainted
KLRM: (PCI:0000:16:00): [XPUW] kl3_wait_for_noc_idle() timeout, val= 00000007 mask= 00000008 reg0228= 007ff000
KLRM: (PCI:0000:16:00): [INFO] mark sess error(errno= XPUERR_KEXCEPTION), sess= 1, pid= 7, comm= python ...
KLRM: (PCI:0000:16:00): [INFO] mark sess error(errno= XPUERR_EVENTWAIT), sess= 2, pid= 7, comm= python ...
KLRM: (PCI:0000:16:00): [XPUW] ------------[ cut here  ]------------
KLRM: (PCI:0000:16:00): [XPUW] cluster[0]: cl_excp_st= 20000000
KLRM: (PCI:0000:16:00): [XPUW] cluster[0]: ..reason[29] task timeout
KLRM: (PCI:0000:16:00): [XPUW] cluster[1]: ..reason[29] task timeout
KLRM: Xid (PCI:0000:16:00): 0, pid=7, name=python, KL_XID_KERNEL_EXCEPTION, ch=0
usb 1-1: new high-speed USB device number 2 using xhci_hcd
"""
CARDS = (Card(1, 2, "/dev/xpu2", "0000:16:00"), Card(6, 5, "/dev/xpu5", "0000:b6:00"))


def kinds(text: str) -> dict[str, int]:
    return {one.kind.name: one.count for one in kernellog.parse(text)}


def test_lines_are_counted_by_kind_and_card() -> None:
    assert kinds(EVENT) == {
        "session tainted": 1,
        "noc_idle timeout": 1,
        "session error": 2,
        "task timeout": 2,
        "KL_XID_KERNEL_EXCEPTION": 1,
    }
    assert {one.bdf for one in kernellog.parse(EVENT)} == {"0000:16:00"}
    both = kernellog.parse(EVENT + EVENT.replace(":16:", ":B6:"))
    assert {one.bdf for one in both} == {"0000:16:00", "0000:b6:00"}
    assert [one.count for one in both[:5]] == [again.count for again in both[5:]]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("KLRM: Xid (PCI:0000:16:00): 64, KL_XID64_AXI_ADDR_ERROR", "KL_XID64_AXI_ADDR_ERROR"),
        ("KLRM: Xid (PCI:0000:16:00): KL_XID 299", "KL_XID 299"),
        ("KLRM: Xid (PCI:0000:16:00): 12, something new", "Xid"),
        ("cluster[0]: ..reason[4] load/store operation exceed memory size", "access beyond memory"),
        ("KLRM: (PCI:0000:16:00): m3 mode1 reset", "driver reset"),
        ("KLRM: c2c port1 AM out of lock!, reg_val: 0x0", "link out of lock"),
        ("dev 0 port 3 xpulink not active", "link not active"),
        ("XDR disabled", "XDR disabled"),
    ],
)
def test_every_kind(line: str, kind: str) -> None:
    assert kinds(line) == {kind: 1}


def test_first_and_last_time_by_the_hosts_clock_or_after_the_boot() -> None:
    line = "KLRM: Xid (PCI:0000:16:00): 0, pid=7, name=python, KL_XID_KERNEL_EXCEPTION, ch=0"
    (clock,) = kernellog.parse(
        f"[Wed Sep 23 10:49:41 2026] {line}\n[Wed Sep 23 10:49:42 2026] x\n[Thu Sep 24 01:00:00 2026] {line}"
    )
    assert (clock.first, clock.last, clock.count) == (
        "Wed Sep 23 10:49:41 2026",
        "Thu Sep 24 01:00:00 2026",
        2,
    )
    assert "2 lines from Wed Sep 23 10:49:41 2026 to Thu Sep 24 01:00:00 2026" in clock.told
    (boot,) = kernellog.parse(f"<4>[  123.456789] {line}")
    assert boot.first == "123.456789 s after the boot"
    assert "1 line at 123.456789 s after the boot" in boot.told
    assert boot.text == line
    assert kernellog.parse(line)[0].first == ""


def test_no_kind_of_line_makes_a_card_fail() -> None:
    # one and the same Xid comes of a broken card and of a broken program
    assert {kind.severity for kind in kernellog.KINDS} == {"degraded", "note"}


def test_row_C16_a_line_is_about_the_card_at_its_address_whatever_its_numbers() -> None:
    found = kernellog.findings(kernellog.parse(EVENT.replace(":16:", ":b6:")), CARDS)
    assert {one.card for one in found} == {6}
    assert {one.severity for one in found} == {"note", "degraded"}


def test_the_older_prefix_names_a_card_by_the_number_of_its_node() -> None:
    (one,) = kernellog.findings(kernellog.parse("kl3_dev5: kl3_wait_for_noc_idle() timeout"), CARDS)
    assert one.card == 6  # and not the card with index 5


def test_a_line_without_a_known_card_blames_none() -> None:
    text = "KLRM: Xid (PCI:0000:99:00): 0, KL_XID_KERNEL_EXCEPTION\ndev 1 port 3 xpulink not active"
    away, link = kernellog.findings(kernellog.parse(text), CARDS)
    assert (away.card, away.severity) == (None, "note")
    assert "xpu-smi knows no card 0000:99:00" in away.text
    # the number is the runtime's own, which is not an index
    assert (link.card, link.severity) == (None, "note")
