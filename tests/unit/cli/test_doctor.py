"""``klops doctor`` as it is typed."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from klops.cli.cardwork import document, told
from klops.cli.outfile import OutFile
from klops.errors import HostUnreachable, Interrupted, KlopsError, TaskFailed
from klops.playbook.load.plays import load_playbook
from klops.playbook.shipped import find
from tests.unit.cli import cardruns
from tests.unit.cli.cardruns import Ran
from tests.unit.cli.conftest import KEY, LocalHost
from tests.unit.ui.diagnoses import card_3_is_bad, diagnosis

BAD = TaskFailed("card 3 is bad", hint="it is kept out", code="cards-bad")


@pytest.fixture
def ran(host: LocalHost, monkeypatch: pytest.MonkeyPatch) -> Ran:
    found = cardruns.stand_in(monkeypatch)
    found.found = {"here": diagnosis()}
    return found


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["xcl", "here"], "did you mean xccl?"),
        (["here"], "does not look at 'here'"),
        (["cards", "here", "--scan"], "only with klops doctor xccl: --scan"),
        (["cards", "here", "--card", "3", "--html", "x"], "only with klops doctor xccl: --card, --html"),
        (["xccl", "here", "--check", "--html", "x"], "not with --check: --html"),
        (["xccl", "here", "--csv", "-"], "standard output takes one thing: --csv, -o json"),
        (["xccl", "here", "--html", "none/x"], "--html: there is no folder"),
        (["xccl", "here", "--csv", "."], "--csv: . is no file"),
        (["xccl", "here", "--csv", "/dev/null"], "--csv: /dev/null is no file"),
        (["xccl", "here", "--budget", "0"], "budget"),
        (["xccl", "here", "--budget", "inf"], "budget"),
        (["xccl", "nobody"], "nobody"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage_and_nothing_runs(
    host: LocalHost, ran: Ran, argv: list[str], told: str
) -> None:
    rc, document = host.json("doctor", *argv)
    assert (rc, document["error"]["code"]) == (2, "usage"), document
    assert told in document["error"]["message"]
    assert ran.playbooks == []


@pytest.mark.parametrize("what", ["host", "stack", "memory", "ops", "logs", "all"])
def test_what_is_not_looked_at_yet_is_refused_with_what_is(host: LocalHost, ran: Ran, what: str) -> None:
    rc, _, err = host.klops("doctor", what, "here")
    assert rc == 2
    assert "what it looks at: xccl, cards" in err
    assert ran.playbooks == []


def test_standard_output_is_for_one_file(host: LocalHost, ran: Ran) -> None:
    rc, _, err = host.klops("doctor", "xccl", "here", "--html", "-", "--csv", "-")
    assert rc == 2
    assert "standard output takes one thing: --html, --csv" in err


@pytest.mark.parametrize(("what", "playbook"), [("xccl", "doctor-xccl.yml"), ("cards", "doctor-cards.yml")])
def test_without_a_host_it_is_the_whole_inventory(
    host: LocalHost, ran: Ran, what: str, playbook: str
) -> None:
    inventory = json.loads((host.home / "hosts.yml").read_text("utf-8"))
    inventory["all"]["hosts"]["there"] = {"ansible_connection": "local"}
    (host.home / "hosts.yml").write_text(json.dumps(inventory), "utf-8")
    assert host.klops("doctor", what)[0] == 0
    assert host.klops("doctor", what, "there")[0] == 0
    assert ran.limits == [["here", "there"], ["there"]]
    assert ran.playbooks == [playbook] * 2


def test_only_what_was_typed_goes_to_the_playbook(host: LocalHost, ran: Ran) -> None:
    host.klops("doctor", "xccl", "here")
    host.klops("doctor", "xccl", "here", "--serial", "--full", "--budget", "90", "--card", "3,0000:55:00")
    host.klops("doctor", "xccl", "here", "--scan")
    assert ran.extra == [
        {},
        {"serial": True, "full": True, "budget": 90.0, "cards": ["3", "0000:55:00"]},
        {"scan": True},
    ]


def test_each_option_is_a_variable_of_the_shipped_playbook() -> None:
    from klops.actions.catalog import catalog

    path, origin = find("doctor-xccl.yml", working_directory=Path("/nowhere"))
    assert origin == "shipped"
    (play,) = load_playbook(path, catalog()).plays
    assert {"scan", "serial", "full", "budget", "cards"} <= set(play.vars)


def test_a_host_that_does_well(host: LocalHost, ran: Ran) -> None:
    rc, document = host.json("doctor", "xccl", "here")
    assert (rc, document["ok"], set(document)) == (0, True, {"ok", "hosts"})
    assert document["hosts"]["here"] == json.loads(
        json.dumps({key: value for key, value in diagnosis().items() if key != "error"})
    )


def test_a_check_that_did_not_pass_keeps_what_was_found_beside_its_error(host: LocalHost, ran: Ran) -> None:
    ran.found, ran.errors = {"here": card_3_is_bad()}, {"here": BAD}
    rc, document = host.json("doctor", "xccl", "here")
    found = document["hosts"]["here"]
    assert (rc, document["ok"]) == (1, False)
    assert found["error"] == {"code": "cards-bad", "message": "card 3 is bad", "hint": "it is kept out"}
    assert (found["excluded"], found["recommended_cards"]) == ([3], [4, 5, 6, 7])
    rc, out, _ = host.klops("doctor", "xccl", "here")
    assert rc == 1
    assert out.splitlines()[1].startswith("here: card 3 is bad: it hangs with every other card")


def test_a_host_that_can_t_be_reached_is_4_and_the_others_are_told(host: LocalHost, ran: Ran) -> None:
    ran.found = {"here": card_3_is_bad()}
    ran.errors = {"here": BAD, "there": HostUnreachable("there: refused")}
    rc, document = host.json("doctor", "xccl", "here")
    assert rc == 4
    assert document["hosts"]["there"] == {
        "error": {"code": "unreachable", "message": "there: refused", "hint": ""}
    }
    assert document["hosts"]["here"]["excluded"] == [3]


def test_files_are_written_whole_and_replace_what_was_there(host: LocalHost, ran: Ran) -> None:
    ran.found["here"] = {**diagnosis(), "summary": "all well, \ud800 or not"}
    page, rows = host.home / "page.html", host.home / "rows.csv"
    page.write_text("old")
    (host.home / "link.csv").symlink_to(rows)
    rc, out, _ = host.klops("doctor", "xccl", "here", "--html", "page.html", "--csv", "link.csv")
    assert rc == 0
    assert "all well" in out
    text = page.read_text("utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert text.endswith("</html>\n")
    assert "all well, ? or not" in text
    assert (host.home / "link.csv").is_symlink()
    assert rows.read_text("utf-8").startswith("host,kind,cards,")
    assert not list(host.home.glob(".*.csv.*"))


def test_on_standard_output_a_file_is_alone(host: LocalHost, ran: Ran) -> None:
    rc, out, err = host.klops("doctor", "xccl", "here", "--csv", "-")
    assert rc == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert {row["host"] for row in rows} == {"here"}
    assert "here: all 8 cards work" in err


def test_a_file_that_can_t_be_written_in_the_end_hides_nothing(
    host: LocalHost, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    (host.home / "page.html").write_text("old")
    monkeypatch.setattr(Path, "write_bytes", full)
    rc, document = host.json("doctor", "xccl", "here", "--html", "page.html")
    assert (rc, document["ok"]) == (1, False)
    assert document["error"]["message"] == "--html: page.html can't be written: No space left on device"
    assert document["hosts"]["here"]["scope"] == "none"
    rc, out, _ = host.klops("doctor", "xccl", "here", "--html", "page.html", "--csv", "-")
    assert rc == 1
    assert out.startswith("host,kind,")
    assert (host.home / "page.html").read_text() == "old"


def test_no_secret_is_in_what_is_written_or_shown(host: LocalHost, ran: Ran) -> None:
    ran.secret = KEY
    ran.found["here"] = {
        **card_3_is_bad(),
        "summary": f"said {KEY}",
        "notes": [KEY],
        "error": KEY,
        "hints": [KEY],
    }
    ran.errors["here"] = TaskFailed(f"said {KEY}", code="cards-bad")
    rc, out, err = host.klops("doctor", "xccl", "here", "--html", "page.html", "--csv", "-")
    assert rc == 1
    page = (host.home / "page.html").read_text("utf-8")
    for text in (out, err, page):
        assert "********" in text
        assert "S3cr3t" not in text


def test_what_a_file_is_checked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(KlopsError, match="may not be written"):
        OutFile("--html", str(tmp_path / "page.html")).check()
    OutFile("--html", "-").check()


def test_what_is_seen_without_load(host: LocalHost, ran: Ran) -> None:
    from tests.unit.ui.diagnoses import card

    lost = "device access lost inside the container, host ok"
    cards: list[Any] = [card(0, "unknown", lost, action="restart"), card(1)]
    ran.found = {
        "here": {"cards": cards, "findings": [{"code": "smi", "message": "two lists", "hint": "reboot"}]}
    }
    ran.errors = {"here": TaskFailed("card 0: unknown", code="cards-unknown")}
    rc, out, _ = host.klops("doctor", "cards", "here")
    assert rc == 1
    assert "here: card 0: unknown; card 1: pass" in out
    assert lost in out
    assert "  two lists; reboot\n" in out
    assert "    klops up here --recreate\n" in out


def test_after_ctrl_c_each_host_that_is_not_done_has_an_error(host: LocalHost, ran: Ran) -> None:
    ran.found = {"here": diagnosis()}
    ran.errors = {"there": Interrupted("the diagnosis was interrupted", hint="klops doctor xccl there")}
    result = ran.result(check=False)
    result.errors.clear()
    result.interrupted, result.hosts = True, (*result.hosts, "later")
    shown = document(result, told(result))
    assert shown["ok"] is False
    assert "error" not in shown["hosts"]["here"]
    assert shown["hosts"]["there"]["error"] == {
        "code": "interrupted",
        "message": "the diagnosis was interrupted",
        "hint": "klops doctor xccl there",
    }
    assert shown["hosts"]["later"]["error"]["code"] == "interrupted"
    assert all(shown["hosts"]["later"]["error"].values())
    assert result.exit_status() == 130
