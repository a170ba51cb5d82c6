from __future__ import annotations

import io
from typing import Any

from klops.errors import HostUnreachable
from klops.secret import Redactor
from klops.ui.processes import processes_view
from klops.ui.status import fleet_view, health_text, ranges
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
    assert row.split() == ["900", "14", "6", "chat", "S", "1703", "xpu0,xpu3", "root", "VLLM::Worker_TP0"]
    assert "error: gone" in text
