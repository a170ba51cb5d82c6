"""``klops cards`` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from klops.actions.catalog import catalog
from klops.errors import HostUnreachable, TaskFailed
from klops.playbook.load.plays import load_playbook
from klops.playbook.shipped import find
from tests.unit.cli import cardruns
from tests.unit.cli.cardruns import Ran
from tests.unit.cli.conftest import LocalHost
from tests.unit.ui.diagnoses import card, diagnosis

NOTE: dict[str, Any] = {
    "card": 3,
    "kind": "hand",
    "reason": "ticket 4711",
    "by": "ada",
    "at": 1796013600.0,
    "expires": None,
}


@pytest.fixture
def ran(host: LocalHost, monkeypatch: pytest.MonkeyPatch) -> Ran:
    found = cardruns.stand_in(monkeypatch)
    found.found = {"here": {"cards": [3], "quarantine": [NOTE], "in_use": []}}
    return found


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["exclude", "here"], "CARD"),
        (["exclude", "here", ","], "no card is named"),
        (["exclude", "here", "3", "--for", "soon"], "'soon' is not a span of time"),
        (["exclude", "here", "3", "--for", "0"], "--for 0 keeps no card out"),
        (["exclude", "here", "3", "--for", "99999999999d"], "--for 99999999999d keeps no card out"),
        (["exclude", "all", "3"], "all names 2 hosts; this command takes one"),
        (["restore", "all", "3"], "this command takes one"),
        (["restore", "nobody", "3"], "nobody"),
        (["list"], "HOST"),
        (["exclude", "here", "3", "--for", "inf"], "'inf' is not a span of time"),
        (["learn", "here", "--budget", "0"], "budget"),
        (["learn", "here", "--budget", "nan"], "budget"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage_and_nothing_runs(
    host: LocalHost, ran: Ran, argv: list[str], told: str
) -> None:
    inventory = json.loads((host.home / "hosts.yml").read_text("utf-8"))
    inventory["all"]["hosts"]["there"] = {"ansible_connection": "local"}
    (host.home / "hosts.yml").write_text(json.dumps(inventory), "utf-8")
    rc, document = host.json("cards", *argv)
    assert (rc, document["error"]["code"]) == (2, "usage"), document
    assert told in document["error"]["message"]
    assert ran.playbooks == []


def test_only_what_was_typed_goes_to_the_playbooks(host: LocalHost, ran: Ran) -> None:
    host.klops("cards", "exclude", "here", "3", "0000:55:00,3")
    host.klops("cards", "exclude", "here", "3", "--reason", "ticket 4711", "--for", "12h")
    host.klops("cards", "restore", "here", "3")
    host.klops("cards", "restore", "here", "3", "--force")
    host.klops("cards", "learn", "here")
    host.klops("cards", "learn", "here", "--force", "--budget", "60")
    assert list(zip(ran.playbooks, ran.extra, strict=True)) == [
        ("cards-exclude.yml", {"cards": ["3", "0000:55:00"]}),
        ("cards-exclude.yml", {"cards": ["3"], "reason": "ticket 4711", "for_seconds": 43200.0}),
        ("cards-restore.yml", {"cards": ["3"]}),
        ("cards-restore.yml", {"cards": ["3"], "force": True}),
        ("cards-learn.yml", {}),
        ("cards-learn.yml", {"force": True, "budget": 60.0}),
    ]


@pytest.mark.parametrize("reason", ["port {# 3 #} down", "see {{ ticket }}", "err {%d} \\n {", "{{ 1 + 1 }}"])
def test_a_reason_is_no_template(host: LocalHost, reason: str) -> None:
    (host.home / "playbooks").mkdir()
    task = {"copy": {"content": "{{ reason }}", "dest": f"{host.home}/written"}}
    play = [{"hosts": "all", "tasks": [task]}]
    (host.home / "playbooks" / "cards-exclude.yml").write_text(json.dumps(play), "utf-8")
    host.klops("cards", "exclude", "here", "3", "--reason", reason)
    assert (host.home / "written").read_text("utf-8") == reason


@pytest.mark.parametrize(
    ("playbook", "variables"),
    [
        ("cards-exclude.yml", {"cards", "reason", "for_seconds"}),
        ("cards-restore.yml", {"cards", "force"}),
        ("cards-learn.yml", {"force", "budget"}),
        ("cards-list.yml", set[str]()),
    ],
)
def test_each_option_is_a_variable_of_the_shipped_playbook(playbook: str, variables: set[str]) -> None:
    path, origin = find(playbook, working_directory=Path("/nowhere"))
    assert origin == "shipped"
    (play,) = load_playbook(path, catalog()).plays
    assert variables <= set(play.vars)


def test_the_notes_in_force_are_shown_with_who_wrote_them(host: LocalHost, ran: Ran) -> None:
    ran.found["here"] = {
        "cards": [3],
        "quarantine": [NOTE, {**NOTE, "card": None, "expires": 1796020000.0}],
        "in_use": [{"card": 3, "unit": "qwen"}],
    }
    rc, out, _ = host.klops("cards", "exclude", "here", "3")
    assert rc == 0
    assert "card 3 is kept out of service: ticket 4711 (ada, 2026-11-30 04:40:00 UTC)\n" in out
    assert "a card that is not seen here is kept out of service" in out
    assert "until 2026-11-30 06:26:40 UTC" in out
    assert "card 3 is in use by qwen until that starts anew: klops restart here --service qwen" in out


def test_in_json_there_is_what_was_found_and_no_play(host: LocalHost, ran: Ran) -> None:
    rc, document = host.json("cards", "exclude", "here", "3")
    assert (rc, document) == (0, {"ok": True, "hosts": {"here": ran.found["here"]}})
    ran.errors = {"here": TaskFailed("card 3 hangs", code="card-still-bad")}
    rc, document = host.json("cards", "restore", "here", "3")
    assert (rc, document["ok"]) == (1, False)
    assert document["hosts"]["here"]["error"]["code"] == "card-still-bad"
    assert document["hosts"]["here"]["quarantine"] == [NOTE]


def test_a_card_that_is_back_is_not_called_out_of_service(host: LocalHost, ran: Ran) -> None:
    ran.found["here"] = {"cards": [3], "quarantine": [], "in_use": [{"card": 3, "unit": "qwen"}]}
    out = host.klops("cards", "restore", "here", "3")[1]
    assert "no card is kept out of service" in out
    assert "card 3 is in use by qwen\n" in out, "nothing has to move"
    ran.errors = {"here": TaskFailed("the notes can't be read", code="agent")}
    assert "no card is kept out" not in host.klops("cards", "restore", "here", "3")[1]


def test_what_was_learned_is_shown(host: LocalHost, ran: Ran) -> None:
    ran.found["here"] = diagnosis(baseline={"8": {"65536": 1.2, "2600000": 19.34}, "2": {"2600000": 28.9}})
    rc, out, _ = host.klops("cards", "learn", "here")
    assert rc == 0
    assert "learned of this host: 2 cards 28.9 GB/s, 8 cards 19.3 GB/s" in out


LISTED: dict[str, Any] = {
    "cards": [
        card(0, age=7200.0, stale=True, quarantine=None),
        card(3, "fail", "hangs", age=7200.0, stale=True, quarantine=NOTE),
        card(5, age=None, in_use_by="qwen", quarantine={**NOTE, "kind": "unkillable", "reason": "stuck"}),
        card(6, "unknown", "not seen", missing=True, node=None),
    ],
    "verdict": {
        "at": 1796013600.0,
        "stale": True,
        "why_stale": "another boot",
        "summary": "card 3 is bad",
        "by": "ada",
    },
    "baseline": None,
}


def test_the_list_says_what_counts_how_old_it_is_and_what_keeps_a_card_out(host: LocalHost, ran: Ran) -> None:
    ran.found = {"here": LISTED}
    rc, out, _ = host.klops("cards", "list", "here")
    assert rc == 0
    assert (ran.playbooks, ran.checks) == (["cards-list.yml"], [True])
    lines = [line.strip() for line in out.splitlines()]
    assert lines[0] == "here"
    assert lines[1].split() == ["card", "container", "node", "bdf", "verdict", "age", "reason"]
    assert lines[3].split() == ["3", "3", "xpu4", "0000:55:00", "fail", "2h00m,", "stale", "hangs"]
    assert "card 3 is kept out of service: ticket 4711 (ada, 2026-11-30 04:40:00 UTC)" in lines
    assert "to have it back: klops cards restore here 3" in lines
    assert "card 5 is kept out of service: stuck (ada, 2026-11-30 04:40:00 UTC)" in lines
    assert not [line for line in lines if "restore here 5" in line], "a stuck process is not to be waved away"
    assert "qwen runs on card 5" in lines
    assert "card 6 (bdf 0000:58:00) is not there" in lines
    assert "last diagnosis (ada, 2026-11-30 04:40:00 UTC): card 3 is bad" in lines
    assert "it counts no more: another boot; a new one: klops doctor xccl here" in lines
    assert lines[-1].endswith("klops cards learn here")


def test_a_list_of_hosts_of_which_one_is_away(host: LocalHost, ran: Ran) -> None:
    ran.found = {}
    ran.errors = {"here": HostUnreachable("refused", hint="is it up?")}
    rc, out, _ = host.klops("cards", "list", "here")
    assert rc == 4
    assert "error: refused\n  fix: is it up?" in out
    ran.errors, ran.found = {}, {"here": {"cards": [], "verdict": None, "baseline": {"at": None}}}
    rc, out, _ = host.klops("cards", "list", "here")
    assert "cards: none" in out
    assert "nothing was diagnosed yet: klops doctor xccl here" in out
    assert "learned at a time that is not known" in out


def test_cards_that_are_back_are_followed_by_what_takes_them_into_use(host: LocalHost, ran: Ran) -> None:
    ran.found["here"] = {"cards": [3], "quarantine": [], "in_use": [], "restored": [3]}
    assert "next: klops up here" in host.klops("cards", "restore", "here", "3")[1]
    ran.errors["here"] = TaskFailed("card 3: fail")
    assert "next:" not in host.klops("cards", "restore", "here", "3")[1]
    ran.errors.clear()
    ran.found["here"] = {"cards": [3], "quarantine": [NOTE], "in_use": []}
    assert "next:" not in host.klops("cards", "exclude", "here", "3")[1]


def test_the_list_says_what_could_not_be_asked(host: LocalHost, ran: Ran) -> None:
    ran.found["here"] = {"cards": [], "verdict": None, "baseline": None, "notes": ["the engine is away"]}
    assert "the engine is away" in host.klops("cards", "list", "here")[1]
