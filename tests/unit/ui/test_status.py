from __future__ import annotations

import io
from typing import Any

import pytest

from klops.errors import HostUnreachable
from klops.secret import Redactor
from klops.ui.processes import processes_view
from klops.ui.status import fleet_view, health_text, inside_line, ranges
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
        ("/dev/xpu1", 6, "in the container: host 6 = container 6 (xpu1)"),
        ("/dev/xpu5", 2, "in the container: host 6 = container 2 (xpu5)"),
        (None, None, ""),
    ],
)
def test_row_C16_both_numbers_of_a_card_stand_side_by_side(
    node: str | None, index: int | None, told: str
) -> None:
    card = {"index": 6, "node": "/dev/xpu5", "container_node": node, "container_index": index}
    assert inside_line([card]) == told


def test_a_bare_host() -> None:
    assert text_of(fleet_view({"h": {"services": {}, "container": None}}, Redactor())).split() == [
        "h", "container:", "none", "services:", "none",
    ]  # fmt: skip


def test_not_checked_is_never_healthy() -> None:
    assert health_text(None) == "-"
    assert health_text({"ok": None, "message": "not checked yet"}) == "not checked yet"
    assert health_text({"ok": False, "message": "401"}) == "401"


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
