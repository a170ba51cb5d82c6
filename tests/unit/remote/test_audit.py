"""Lines of the audit logs: one shape, and never longer than a shell writes at once."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from klops.remote import audit

WHO = {"who": "ada", "from": "desk", "run": "0123456789abcdef"}


def test_a_line_lacks_only_its_time() -> None:
    line = audit.body("run-begun", WHO, {"playbook": "up.yml"})
    assert json.loads('{"at": 7, ' + line) == {
        "at": 7,
        "by": "klops",
        "event": "run-begun",
        **WHO,
        "playbook": "up.yml",
    }


def test_what_there_is_no_room_for_is_counted() -> None:
    task = audit.task("t", "changed", [f"write /file/{n}" for n in range(500)], 1.23456)
    told = task["changes"]
    assert told[0] == "write /file/0"
    assert told[-1] == f"and {500 - (len(told) - 1)} more"
    assert task["seconds"] == 1.235


@given(st.lists(st.tuples(st.text(), st.lists(st.text()), st.text())))
def test_a_line_is_written_in_one_go_whatever_the_run_did(tasks: list[tuple[str, list[str], str]]) -> None:
    entries = [audit.task(name, "failed", changes, 1.0, error) for name, changes, error in tasks]
    line = audit.body("run-ended", WHO, {"outcome": "failed", "tasks": audit.fitting(entries, audit.ROOM)})
    assert len('{"at": 1796013552, ' + line + "\n") < 4096
    assert "\n" not in line


def test_values_that_their_names_call_secret_are_not_kept() -> None:
    words = ["env", "MY_KEY=a", "--password", "b", "-n", "3", "--hf-token=c d", "--api-key", "--secret", "e"]
    shown = audit.masked(words)
    assert shown == [
        "env",
        "MY_KEY=********",
        "--password",
        "********",
        "-n",
        "3",
        "--hf-token=********",
        "--api-key",
        "--secret",
        "********",
    ]
    assert audit.masked(["sh", "-c", 'A=1 PASSWD="x y" run']) == ["sh", "-c", "A=1 PASSWD=******** run"]
