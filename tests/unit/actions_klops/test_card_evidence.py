"""What is found out about cards without load: from what a host answers to findings and standings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from klops.actions.own import hostreads, hostview
from klops.actions.own.cards.look import evidence
from klops.cards.evidence.findings import Finding
from klops.cards.evidence.standings import standings
from klops.inventory.settings import Settings
from klops.remote.base import Reply
from klops.remote.bounded import LATE, BoundedRead
from klops.remote.fake import reply
from tests.unit.actions_klops.enginehost import base

#: those of the base's host, whose smi indexes have the minors 0, 2, 1, 3, 4, 6, 5, 7
BUSES = ("52", "55", "63", "66", "9a", "9b", "aa", "ab")
TOPOLOGY = "host\n     " + " ".join(f"XPU{i}" for i in range(8)) + " CPU Affinity NUMA Affinity\n"
for a in range(8):
    row = ["X" if a == b else "XL" if a // 4 == b // 4 else "SYS" for b in range(8)]
    TOPOLOGY += f"XPU{a} {' '.join(row)} 0-51 0\n"
LIST = "host\n" + "".join(f"XPU {i}: P800 OAM (UUID: GPU-0000000{i})\n" for i in range(8))
BUS = "".join(f"{bus}:00.0 1200: 1d22:3686\n" for bus in BUSES)
VERSION = "KUNLUN driver module a b c d e f 5.0.21.26\n"
DEVS = "version\n" + "".join(f"dev{i}\n" for i in range(8))
XID = "KLRM: Xid (PCI:0000:aa:00): 0, pid=7, name=python, KL_XID_KERNEL_EXCEPTION, ch=0"


def settings(**cards: Any) -> Settings:
    given = dict(base()["settings"])
    return Settings.model_validate({**given, "cards": cards})


class Host:
    """An idle host on which everything agrees, and what a test makes of it."""

    def __init__(self, answers: Mapping[str, Reply] | None = None, wanted: Settings | None = None) -> None:
        self.settings = wanted or settings()
        given: dict[str, Any] = {key: _as_reply(value) for key, value in base()["replies"].items()}
        for key in (hostreads.SMI_MACHINE, hostreads.SMI_QUERY):
            given[key] = reply(given[key].text.replace("90440", "0"))
        self.status: dict[str, Any] = json.loads(given[hostreads.STATUS].text)
        self.status["units"]["main"] |= {"state": "stopped", "lineage": []}
        self.status["access"] = []
        self.inspected: dict[str, Any] = json.loads(given[hostreads.CONTAINER].text)[0]
        given |= {
            evidence.SMI_LIST: reply(LIST),
            evidence.SMI_TOPOLOGY: reply(TOPOLOGY),
            evidence.KERNEL_LOG: reply("clock\n[Wed Sep 23 10:49:41 2026] usb 1-1: new device\n"),
            hostreads.DRIVER: reply(VERSION),
            evidence.DRIVER_CARDS: reply(DEVS),
            evidence.BUS[0]: reply(BUS),
            evidence.BUS[1]: reply(""),
        }
        self.replies: dict[str, Reply] = {**given, **(answers or {})}

    @property
    def all(self) -> dict[str, Reply]:
        return {
            **self.replies,
            hostreads.STATUS: reply(json.dumps(self.status)),
            hostreads.CONTAINER: reply(json.dumps([self.inspected])),
        }

    @property
    def view(self) -> hostview.HostView:
        return hostview.look(self.all, self.settings)

    def findings(self, **more: Any) -> tuple[Finding, ...]:
        return evidence.findings(self.all, self.settings, self.view, **more)

    def serious(self, **more: Any) -> list[Finding]:
        return [one for one in self.findings(**more) if one.severity != "note"]

    def change(self, key: str, old: str, new: str) -> None:
        text = self.replies[key].text
        assert old in text
        self.replies[key] = reply(text.replace(old, new), rc=self.replies[key].rc)

    def devices(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.inspected["HostConfig"]["Devices"] = [
            {"PathOnHost": there, "PathInContainer": inside, "CgroupPermissions": "rwm"}
            for there, inside in pairs
        ]


def _as_reply(value: Any) -> Reply:
    return reply(**value) if isinstance(value, Mapping) else reply(value)


def kinds(found: Sequence[Finding]) -> set[tuple[str, int | None, str]]:
    return {(one.kind, one.card, one.severity) for one in found}


# -- what is read --------------------------------------------------------------------------------------------


def test_what_asks_the_driver_has_a_deadline_of_its_own_and_nothing_is_asked_twice() -> None:
    reads = evidence.reads(settings())
    keys = [read.key for read in reads]
    assert len(keys) == len(set(keys))
    bounded = {read.key for read in reads if isinstance(read, BoundedRead)}
    assert bounded == {
        *(hostreads.SMI_MACHINE, hostreads.SMI_QUERY, evidence.SMI_LIST, evidence.SMI_TOPOLOGY),
        *(evidence.KERNEL_LOG, hostreads.DRIVER, evidence.DRIVER_CARDS, *evidence.BUS),
    }
    # where all of them hang, each costs its own deadline and the others go on
    assert evidence.deadline(reads) >= 60 + len(bounded) * (evidence.DEADLINE + 2)
    (status,) = [read for read in reads if read.key == hostreads.STATUS]
    assert "--access-age" in status.script


def test_a_converged_run_asks_nothing_more_than_before() -> None:
    more = {evidence.SMI_LIST, evidence.SMI_TOPOLOGY, evidence.KERNEL_LOG, hostreads.DRIVER, *evidence.BUS}
    asked = {read.key for read in (*hostreads.host(settings()), *hostreads.cards(settings()))}
    assert not asked & more


def test_a_program_that_is_not_known_to_be_xpu_smi_is_not_asked() -> None:
    keys = {read.key for read in evidence.reads(settings(smi={"path": "/opt/reset-all"}))}
    assert not keys & {evidence.SMI_LIST, evidence.SMI_TOPOLOGY, hostreads.SMI_MACHINE}
    assert evidence.KERNEL_LOG in keys


# -- a host in order -----------------------------------------------------------------------------------------


def test_a_host_in_order_has_notes_only_and_every_card_is_usable() -> None:
    host = Host()
    assert host.serious() == []
    assert {one.state for one in standings(range(8), host.findings()).values()} == {"usable"}
    assert ("driver", None, "note") in kinds(host.findings())
    assert evidence.links(host.all).links[0, 1] == "XL"


@pytest.mark.parametrize(
    ("key", "what"),
    [
        (evidence.SMI_LIST, "xpu-smi -L"),
        (evidence.SMI_TOPOLOGY, "xpu-smi topo -m"),
        (evidence.KERNEL_LOG, "the kernel log"),
        (evidence.BUS[0], "lspci"),
        (hostreads.DRIVER, "/proc/kunlun/version"),
    ],
)
def test_what_hangs_costs_its_own_evidence_only(key: str, what: str) -> None:
    host = Host({key: reply(rc=LATE, stderr="no answer within 8 s\n")})
    (one,) = host.serious()
    assert (one.kind, one.card, one.severity) == ("not-read", None, "unknown")
    assert one.text == f"{what} could not be read: no answer within 8 s"
    assert {one.state for one in standings(range(8), host.findings()).values()} == {"usable"}


def test_a_kernel_log_that_is_refused_is_said_to_be() -> None:
    host = Host({evidence.KERNEL_LOG: reply(rc=1, stderr="dmesg: Operation not permitted\n")})
    assert [one.text for one in host.serious()] == [
        "the kernel log could not be read: dmesg: Operation not permitted"
    ]


def test_without_xpu_smi_nothing_is_said_of_cards_that_are_only_assumed() -> None:
    none = reply(rc=1, stderr="xpu-smi: not found")
    host = Host({hostreads.SMI_MACHINE: none, hostreads.SMI_QUERY: none})
    assert {one.kind for one in host.serious()} == {"not-read", "unidentified"}
    told = standings(range(8), host.findings())
    # what could not be looked at is never called healthy
    assert {one.verdict for one in told.values()} == {"unknown"}
    assert all("only assumed" in one.reason for one in told.values())


# -- row C16: numbers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inside", "line"),
    [
        # named as on the host: counted by the numbers in the names, so index 6 (node xpu5) is the second
        ({4: 4, 5: 5, 6: 6, 7: 7}, "host 6 = container 1 = /dev/xpu5 = 0000:aa:00"),
        # renamed in the order of the indexes: what is xpu5 on the host is xpu2 there
        ({4: 0, 6: 1, 5: 2, 7: 3}, "host 6 = container 2 = /dev/xpu5 = 0000:aa:00"),
    ],
)
def test_row_C16_host_6_is_the_same_card_under_whatever_name_it_has_inside(
    inside: dict[int, int], line: str
) -> None:
    host = Host(wanted=settings(use=[4, 5, 6, 7]))
    nodes = [(f"/dev/xpu{minor}", f"/dev/xpu{name}") for minor, name in inside.items()]
    host.devices([*nodes, ("/dev/xpuctrl", "/dev/xpuctrl")])
    told = {one.card: one.text for one in host.findings() if one.kind == "numbers"}
    assert told[6] == line
    assert told[0] == "host 0 = not in the container = /dev/xpu0 = 0000:52:00"
    assert host.serious() == []  # of cards that the settings leave out nothing is wanted in the container


def test_row_C16_what_is_denied_inside_is_told_of_the_card_that_has_that_name_there() -> None:
    host = Host(wanted=settings(use=[4, 5, 6, 7]))
    renamed = {4: 0, 6: 1, 5: 2, 7: 3}
    nodes = [(f"/dev/xpu{minor}", f"/dev/xpu{name}") for minor, name in renamed.items()]
    host.devices([*nodes, ("/dev/xpuctrl", "/dev/xpuctrl")])
    host.status["access"] = [{"node": "/dev/xpu2", "error": "Operation not permitted", "fault": "container"}]
    assert {one.card for one in host.serious() if one.card is not None} == {6}


def test_row_C16_the_kernel_log_is_about_an_address_not_a_number() -> None:
    host = Host({evidence.KERNEL_LOG: reply(f"clock\n[Wed Sep 23 10:49:41 2026] {XID}\n")})
    (one,) = host.serious()
    assert (one.kind, one.card, one.severity) == ("kernel-log", 6, "degraded")
    assert "Wed Sep 23 10:49:41 2026" in one.text
    assert standings([6], [one])[6].state == "suspicious"


def test_a_card_that_the_container_was_not_given_can_not_be_tested() -> None:
    host = Host()
    host.devices([(f"/dev/xpu{n}", f"/dev/xpu{n}") for n in range(7)] + [("/dev/xpuctrl", "/dev/xpuctrl")])
    (one,) = host.serious()
    assert (one.kind, one.card) == ("not-inside", 7)
    assert standings([7], [one])[7].state == "untestable"


# -- row C17: access -----------------------------------------------------------------------------------------


def denied(
    *nodes: str, fault: str = "container", error: str = "Operation not permitted"
) -> list[dict[str, str]]:
    return [{"node": node, "error": error, "fault": fault} for node in nodes]


def test_row_C17_access_lost_inside_is_a_fault_of_the_container_and_no_card_fails() -> None:
    host = Host()
    host.status["access"] = denied("/dev/xpu0", "/dev/xpu5")
    found = host.serious()
    assert kinds(found) == {
        ("access-lost", 0, "unknown"),
        ("access-lost", 6, "unknown"),
        ("access-lost", None, "unknown"),
    }
    told = standings(range(8), found)
    assert [index for index, one in told.items() if one.state == "untestable"] == [0, 6]
    assert told[6].verdict == "unknown"
    assert told[6].reason == (
        "device access lost inside the container, host ok: /dev/xpu5 can't be opened there: "
        "Operation not permitted"
    )
    assert told[6].action == "restart"
    assert "no card is at fault" in next(one.text for one in found if one.card is None)


def test_row_C17_without_the_control_node_no_card_can_be_used_and_none_is_blamed() -> None:
    host = Host()
    host.status["access"] = denied("/dev/xpuctrl")
    told = standings(range(8), host.findings())
    assert {(one.state, one.verdict) for one in told.values()} == {("untestable", "unknown")}


def test_row_C17_the_host_is_called_ok_only_where_it_shows_the_card() -> None:
    host = Host()
    host.status["access"] = denied("/dev/xpu3")
    host.change(hostreads.NODES, "195,   3 Nov 29 10:00 /dev/xpu3", "195,   3 Nov 29 10:00 /dev/xpu30")
    told = standings([3], host.findings())[3]
    assert "its node /dev/xpu3 is not on the host" in told.evidence
    assert not any("host ok" in text for text in told.evidence)
    assert told.verdict == "fail"


def test_a_node_that_the_driver_refuses_is_a_fault_of_the_card() -> None:
    host = Host()
    host.status["access"] = denied("/dev/xpu5", fault="driver", error="the open doesn't return")
    (one,) = host.serious()
    assert (one.kind, one.card, one.severity, one.action) == ("driver-refuses", 6, "fail", "reset")


def test_access_that_nobody_tested_is_unknown() -> None:
    host = Host()
    host.status["access"] = None
    assert kinds(host.serious()) == {("not-read", None, "unknown")}


def test_what_the_container_is_denied_of_cards_that_are_not_used_is_nobodys_concern() -> None:
    host = Host(wanted=settings(use=[0, 1]))
    host.status["access"] = denied("/dev/xpu7")
    assert host.serious() == []


# -- nodes ---------------------------------------------------------------------------------------------------


def test_a_missing_node_is_the_cards_failure_and_all_of_them_missing_the_drivers() -> None:
    host = Host()
    host.change(hostreads.NODES, "10:00 /dev/xpu5\n", "10:00 /dev/other\n")
    assert ("node-missing", 6, "fail") in kinds(host.serious())
    gone = Host({hostreads.NODES: reply(rc=2, stderr="ls: cannot access")})
    told = standings(range(8), gone.findings())
    assert {(one.state, one.verdict) for one in told.values()} == {("untestable", "unknown")}
    assert any("the driver is not loaded" in one.text for one in gone.findings())


def test_a_file_in_place_of_a_node() -> None:
    host = Host()
    host.change(hostreads.NODES, "crw-rw-rw- 1 0 0 195,   5 Nov", "-rw-r--r-- 1 0 0 12 Nov")
    (one,) = host.serious()
    assert (one.kind, one.card) == ("node-type", 6)
    assert "is a file on the host" in one.text


def test_a_node_of_a_card_that_xpu_smi_does_not_know() -> None:
    host = Host()
    for key, start in ((hostreads.SMI_MACHINE, "00000000:AB"), (hostreads.SMI_QUERY, "XPU 00000000:AB")):
        text = host.replies[key].text
        cut = text[text.index(start) :]
        host.change(key, cut, "")
    host.change(hostreads.SMI_QUERY, ": 8\n", ": 7\n")
    found = host.serious()
    assert ("count", None, "fail") in kinds(found)
    texts = " | ".join(one.text for one in found)
    assert "/dev/xpu7 is there, but xpu-smi knows no card of that minor" in texts
    assert "a card is on the PCI bus at 0000:ab:00" in texts
    assert "card 7 is in xpu-smi -L only" in texts
    assert "card 7 is in xpu-smi topo -m only" in texts
    assert "/proc/kunlun has 8" in texts
    assert {one.card for one in found} == {None}


# -- who uses them -------------------------------------------------------------------------------------------


def test_a_card_of_a_running_unit_is_in_use_by_it() -> None:
    host = Host()
    host.status["units"]["main"] |= {"state": "ready", "cards": [0, 6]}
    told = standings(range(8), host.findings())
    assert told[6].reason == "in use by main"
    assert [index for index, one in told.items() if one.state == "untestable"] == [0, 6]


def test_a_holder_in_the_container_by_the_name_that_the_node_has_there() -> None:
    holder = {"cpid": 21, "start": 210, "name": "python", "cards": ["/dev/xpu5"], "unit": None}
    host = Host({hostreads.HOLDERS: reply(json.dumps({"holders": [holder], "unknown": []}))})
    (one,) = host.serious()
    assert (one.kind, one.card, one.text) == ("held", 6, "held by python (pid 4021)")


def test_a_look_at_the_whole_host_counts_in_place_of_that_at_the_container() -> None:
    host = Host({hostreads.HOLDERS: reply(rc=1)})
    held = {2: [{"pid": 77, "name": "stranger", "cards": [2]}]}
    (one,) = host.serious(held=held)
    assert (one.kind, one.card, one.text) == ("held", 2, "held by stranger (pid 77)")
    assert ("not-read", None, "unknown") in kinds(host.serious())


def test_a_process_that_only_xpu_smi_sees() -> None:
    host = Host()
    before, mark, after = host.replies[hostreads.SMI_QUERY].text.partition("GPU-00000006")
    none = "Processes                             : None"
    assert none in after
    after = after.replace(none, "Processes\n        Process ID : 99", 1)
    host.replies[hostreads.SMI_QUERY] = reply(before + mark + after)
    (one,) = host.serious()
    assert (one.kind, one.card) == ("held", 6)
    assert "pid 99" in one.text


def test_memory_that_nobody_accounts_for_keeps_a_card_from_being_tested() -> None:
    host = Host()
    before = "SN06 36 0 0 0 86 1450 1450 1450 1450 1450 1450 2 96 "
    host.change(hostreads.SMI_MACHINE, f"{before}0", f"{before}6500")
    (one,) = host.serious()
    assert (one.kind, one.card, one.severity) == ("memory-unexplained", 6, "unknown")


def test_a_process_that_can_not_be_looked_into() -> None:
    unseen = {"cpid": 30, "start": 1, "name": "other"}
    host = Host({hostreads.HOLDERS: reply(json.dumps({"holders": [], "unknown": [unseen]}))})
    (one,) = host.serious()
    assert (one.card, one.severity) == (None, "unknown")
    assert "other (pid 30 in the container)" in one.text


# -- the rest ------------------------------------------------------------------------------------------------


def test_sources_that_disagree_are_named() -> None:
    host = Host()
    host.change(evidence.SMI_LIST, "GPU-00000006", "GPU-99999999")
    host.change(hostreads.DRIVER, "5.0.21.26", "5.0.21.47")
    texts = {one.text for one in host.findings() if one.kind == "sources"}
    assert "card 6 is GPU-00000006 in xpu-smi -m and -q, and GPU-99999999 in -L" in texts
    assert "the driver is 5.0.21.47 in /proc/kunlun/version and 5.0.21.26 in xpu-smi on the host" in texts


def test_settings_and_learned_identities_are_held_against_the_cards() -> None:
    host = Host()
    learned = [{**card.identity(), "index": 7 - card.index} for card in host.view.cards.cards]
    assert {one.kind for one in host.findings(learned=learned)} >= {"moved"}
    (one,) = host.serious(wanted={6: "GPU-gone"})
    assert (one.kind, one.card, one.severity) == ("absent", None, "fail")
