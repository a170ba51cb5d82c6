from __future__ import annotations

import io
from typing import Any

import pytest

from klops.errors import HostUnreachable
from klops.secret import Redactor
from klops.ui.processes import processes_view
from klops.ui.status import (
    fallback_line,
    fleet_view,
    health_note,
    health_text,
    inside_line,
    kept_out_lines,
    ranges,
)
from klops.ui.terminal import make_console

STATUS: dict[str, Any] = {
    "services": {
        "chat": {
            "state": "ready",
            "pid": 4711,
            "cpid": 14,
            "since": 1000.0,
            "restarts": 1,
            "cards": [0, 1, 2, 3],
            "tp": 4,
            "port": 8000,
            "health": {"ok": True, "checked": 1100.0, "message": ""},
            "model": "qwen",
        },
        "other": {"state": "failed", "restarts": 5, "error": "exited with 1: out of memory"},
    },
    "container": {
        "name": "klops",
        "id": "0123456789abcdef",
        "state": "running",
        "image": "vllm:1",
        "adopted": False,
        "drift": [{"key": "shm", "want": "32g", "have": "64m"}],
    },
    "orphans": 2,
    "lock": {"who": "ann", "from": "desk", "expires": 1.0},
}


def text_of(renderable: object) -> str:
    stream = io.StringIO()
    make_console(stream).print(renderable)
    return stream.getvalue()


def test_status_shows_services_container_drift_orphans_lock_and_errors() -> None:
    text = text_of(
        fleet_view(
            {"h1": STATUS, "h2": HostUnreachable("h2: refused", hint="is it up?")}, Redactor(), now=1125.0
        )
    )
    lines = [x.rstrip() for x in text.splitlines() if x.strip()]
    assert lines[0] == "h1"
    assert lines[1] == "  container: klops running (0123456789ab, image vllm:1)"
    assert lines[2] == "    drift: shm: have 64m, want 32g"
    assert lines[3] == "  lock: held by ann from desk"
    assert lines[4] == "  orphans: 2 processes of units that run no more"
    assert lines[7].split() == ["chat", "ready", "4711", "2m05s", "1", "0-3", "4", "8000", "ok", "qwen"]
    assert lines[8].split() == ["other", "failed", "-", "-", "5", "-", "-", "-", "-", "-"]
    assert lines[9] == "  other: exited with 1: out of memory"
    assert lines[10:] == ["h2", "  error: h2: refused", "  fix: is it up?"]


def test_an_adopted_container_is_called_so_with_what_is_weaker_and_what_is_wrong() -> None:
    container = {
        **STATUS["container"],
        "adopted": True,
        "weaker": ["no init", "small /dev/shm"],
        "faults": ["access is lost"],
    }
    text = text_of(fleet_view({"h1": {**STATUS, "container": container}}, Redactor(), now=1125.0))
    lines = [x.rstrip() for x in text.splitlines() if x.strip()]
    assert lines[1:5] == [
        "  container: klops running (0123456789ab, image vllm:1, adopted)",
        "    drift: shm: have 64m, want 32g",
        "    weaker: no init",
        "    weaker: small /dev/shm",
    ]
    assert "  container: access is lost" in lines
    note = {**STATUS["container"], "drift": [], "note": "klops did not make it"}
    text = text_of(fleet_view({"h1": {**STATUS, "container": note}}, Redactor(), now=1125.0))
    assert text.splitlines()[2].rstrip() == "    klops did not make it"


@pytest.mark.parametrize(
    ("node", "index", "told"),
    [
        ("/dev/xpu5", 6, ""),
        ("/dev/xpu1", 6, "in the container: host 6 = container 6 = /dev/xpu5 (xpu1 there) = b6:00"),
        ("/dev/xpu5", 2, "in the container: host 6 = container 2 = /dev/xpu5 = b6:00"),
        (None, None, ""),
    ],
)
def test_row_C16_both_numbers_of_a_card_stand_side_by_side(
    node: str | None, index: int | None, told: str
) -> None:
    card = {
        "index": 6,
        "node": "/dev/xpu5",
        "bdf": "0000:b6:00",
        "container_node": node,
        "container_index": index,
    }
    assert inside_line([card]) == told


def test_a_bare_host() -> None:
    assert text_of(fleet_view({"h": {"services": {}, "container": None}}, Redactor())).split() == [
        "h", "container:", "none", "services:", "none",
    ]  # fmt: skip


def test_not_checked_is_never_healthy() -> None:
    assert health_text(None) == "-"
    assert health_text({"ok": None, "message": "not checked yet"}) == "not checked yet"
    assert health_text({"ok": False, "message": "401"}) == "401"


@pytest.mark.parametrize(
    ("health", "note"),
    [
        ({"ok": True, "message": "fine"}, ""),
        ({"ok": True, "message": "fine", "live": True, "progress": "idle", "problem": None}, ""),
        ({"ok": True, "message": "no /metrics", "live": None, "progress": "unknown"}, "no /metrics"),
        ({"ok": True, "message": "4.9 s", "live": True, "progress": "moving", "problem": "P1"}, "4.9 s"),
        ({"ok": False, "message": "stalled", "live": False, "progress": "stalled"}, ""),
        (None, ""),
    ],
)
def test_what_is_not_known_of_a_service_that_answers_is_said(health: Any, note: str) -> None:
    assert health_note(health) == note
    service = {**STATUS["services"]["chat"], "health": health}
    text = text_of(fleet_view({"h": {**STATUS, "services": {"chat": service}}}, Redactor(), now=1125.0))
    assert (f"chat: health: {note}" in text) is bool(note)


def test_ranges_keep_the_order_of_ranks() -> None:
    assert ranges([4, 5, 6, 7, 0]) == "4-7,0"
    assert ranges([]) == ""


def test_processes_show_host_pid_cards_and_padded_titles() -> None:
    process = {
        "pid": 900, "cpid": 14, "ppid": 6, "unit": "chat", "state": "S", "rss_mib": 1703.4,
        "cards": ["/dev/xpu0", "/dev/xpu3"], "user": "root", "title": "VLLM::Worker_TP0   ",
    }  # fmt: skip
    text = text_of(
        processes_view({"h": {"processes": [process]}, "dead": HostUnreachable("gone")}, Redactor())
    )
    row = next(x for x in text.splitlines() if "Worker" in x)
    assert row.split() == ["900", "14", "6", "chat", "S", "1703", "xpu0,3", "root", "VLLM::Worker_TP0"]
    assert "error: gone" in text


def on_terminal(renderable: object, width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for name, value in {"NO_COLOR": "1", "TERM": "xterm", "COLUMNS": str(width)}.items():
        monkeypatch.setenv(name, value)
    stream = Terminal()
    make_console(stream).print(renderable)
    return stream.getvalue().splitlines()


PROCESS: dict[str, Any] = {
    "pid": 900, "cpid": 14, "ppid": 6, "unit": "chat", "state": "S", "rss_mib": 1703.4,
    "cards": [*(f"/dev/xpu{n}" for n in range(8)), "/dev/xpuctrl"], "user": "root",
    "title": "/usr/bin/python3 -m vllm serve " + "--flag value " * 20 + "end",
}  # fmt: skip


def test_on_a_terminal_a_process_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = {"h": {"processes": [PROCESS]}}
    lines = on_terminal(processes_view(hosts, Redactor()), 80, monkeypatch)
    assert len(lines) == 3
    assert len(lines[2]) <= 80
    assert "xpu0-7,xpuctrl" in lines[2]
    assert lines[2].endswith("…")
    whole = on_terminal(processes_view(hosts, Redactor(), full=True), 80, monkeypatch)
    assert "end" in whole[-1]


def test_in_a_pipe_it_is_one_whole_line_without_blanks_at_the_end() -> None:
    short = {**PROCESS, "title": "sh"}
    lines = text_of(processes_view({"h": {"processes": [PROCESS, short]}}, Redactor())).splitlines()
    assert len(lines) == 4
    assert lines[2].endswith("end")
    assert lines[3].endswith("sh")
    assert lines[1].endswith("title")


def test_long_health_stands_below_the_row_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    message = "not ready after 60 s (start_timeout); the agent keeps trying, 2 of 5 times so far, with pauses"
    service = {**STATUS["services"]["chat"], "state": "starting", "health": {"ok": None, "message": message}}
    cards = [{"index": n, "node": f"/dev/xpu{7 - n}"} for n in range(8)]
    status = {**STATUS, "services": {"chat": service}, "cards": cards}
    lines = on_terminal(fleet_view({"h": status}, Redactor(), now=1125.0), 80, monkeypatch)
    row = next(n for n, line in enumerate(lines) if line.startswith("chat"))
    assert "not known" in lines[row]
    assert lines[row + 1 :] == [
        "  chat: health: not ready after 60 s (start_timeout); the agent keeps trying, 2",
        "    of 5 times so far, with pauses",
    ]
    assert "  cards: 0=xpu7 1=xpu6 2=xpu5 3=xpu4 4=xpu3 5=xpu2 6=xpu1 7=xpu0" in lines


def test_no_color_leaves_no_escape_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in "".join(on_terminal(fleet_view({"h": STATUS}, Redactor()), 80, monkeypatch))


def test_drift_speaks_no_python() -> None:
    drift = [{"key": "image", "want": "b:1", "have": None}]
    text = text_of(
        fleet_view({"h": {**STATUS, "container": {**STATUS["container"], "drift": drift}}}, Redactor())
    )
    assert "drift: image: have nothing, want b:1" in text


def test_a_card_that_is_kept_out_of_service_is_told() -> None:
    note = {"reason": "pid 22 can't be ended", "by": "supervisor, unit main", "at": 5.0, "kind": "unkillable"}
    cards: list[dict[str, Any]] = [
        {"index": 0, "quarantine": None},
        {"index": 3, "quarantine": note},
        {"index": 4},
    ]
    assert kept_out_lines(cards) == ["card 3 is kept out of service: pid 22 can't be ended"]


def test_cards_that_fail_and_services_on_fewer_of_them_are_said_with_the_reason() -> None:
    cards: list[dict[str, Any]] = [
        {"index": 0, "node": "/dev/xpu0", "verdict": "pass", "age": 60.0, "stale": False},
        {"index": 1, "node": "/dev/xpu1", "verdict": "fail", "reason": "hangs", "age": 7200.0, "stale": True},
        {"index": 2, "node": "/dev/xpu2", "verdict": "unknown", "reason": "never tested", "age": None},
        {"index": 3, "node": None, "verdict": "unknown", "reason": "not seen", "age": None, "missing": True},
        {
            "index": 4,
            "node": "/dev/xpu4",
            "verdict": "fail",
            "reason": "said already",
            "quarantine": {"kind": "hand", "reason": "ticket 4711"},
        },
    ]
    text = "chat runs with TP=4 on cards 4, 5, 6, 7 instead of TP=8: card 1: hangs"
    chat = {**STATUS["services"]["chat"], "fallback": {"tp": 4, "asked": 8, "text": text}, "note": "renamed"}
    shown = text_of(
        fleet_view({"h": {**STATUS, "cards": cards, "services": {"chat": chat}}}, Redactor(), now=1125.0)
    )
    lines = [line.strip() for line in shown.splitlines()]
    assert "card 1: fail: hangs (2h00m ago, stale)" in lines
    assert "card 3: unknown: not seen" in lines
    assert "card 4 is kept out of service: ticket 4711" in lines
    assert text in lines
    assert "chat: renamed" in lines
    assert not [line for line in lines if line.startswith(("card 0", "card 2", "card 4: "))]
    assert not [line for line in lines if "counts no more" in line]


def test_a_diagnosis_that_counts_no_more_is_said_once() -> None:
    cards = [
        {"index": n, "node": f"/dev/xpu{n}", "verdict": "pass", "age": 90000.0, "stale": True} for n in (0, 1)
    ]
    shown = text_of(fleet_view({"h": {**STATUS, "cards": cards}}, Redactor(), now=1125.0))
    assert shown.count("the last diagnosis of these cards counts no more (25h00m ago, stale)") == 1


def test_a_reason_that_stands_in_the_line_of_a_card_is_not_said_again() -> None:
    cards: list[dict[str, Any]] = [
        {"index": 0, "verdict": "fail", "reason": "hangs"},
        {"index": 1, "verdict": "fail", "reason": "hangs", "quarantine": {"kind": "hand", "reason": "fan"}},
        {"index": 2, "verdict": "pass"},
    ]
    text = "chat runs with TP=4 on cards 4, 5, 6, 7 instead of TP=8: card 0: hangs; card 1: fan"
    out = [{"index": 0, "reason": "hangs"}, {"index": 1, "reason": "fan"}]
    less: dict[str, Any] = {"tp": 4, "asked": 8, "out": out, "text": text}
    unit: dict[str, Any] = {"cards": [4, 5, 6, 7], "fallback": less}
    assert fallback_line("chat", unit, cards) == (
        "chat runs with TP=4 on cards 4-7 instead of TP=8: without cards 0-1"
    )
    unsaid = {**unit, "fallback": {**less, "out": [*out, {"index": 2, "reason": "not in the container"}]}}
    assert fallback_line("chat", unsaid, cards) == text
    assert fallback_line("chat", {**unit, "fallback": {**less, "out": []}}, cards) == text
