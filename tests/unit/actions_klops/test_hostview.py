"""What the shared reads say."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from klops.actions.own import records
from klops.actions.own.hostview import look
from klops.inventory.settings import Settings
from klops.remote.base import Reply
from klops.remote.containerreads import RecordedRead
from klops.remote.reads import ABSENT

ID = "ad" * 32
OTHER = "be" * 32


@pytest.mark.parametrize(
    ("state", "at_rest"),
    [
        ("created", True),
        ("exited", True),
        ("dead", True),
        ("running", False),
        ("paused", False),
        ("restarting", False),
        ("removing", False),
    ],
)
def test_states_in_which_surely_no_process_lives(state: str, at_rest: bool) -> None:
    text = f'[{{"Id": "c0ffee", "Name": "/klops", "State": {{"Status": "{state}"}}}}]'
    replies = {
        "docker.version": Reply(0, b'{"Server": {"Version": "24"}}'),
        "container": Reply(0, text.encode()),
    }
    assert look(replies, Settings()).at_rest is at_rest


def host(
    found: dict[str, Any] | None, recorded: dict[str, Any] | None = None, record: str = ""
) -> dict[str, Reply]:
    """Replies of a host: what docker shows for the name, and for the id on record."""
    gone = Reply(1, b"[]", b"Error: No such container: x")
    status = {"supervisor": {}, "units": {"main": {"state": "ready"}}}
    return {
        "docker.version": Reply(0, b'{"Server": {"Version": "24"}}'),
        "container": Reply(0, json.dumps([found]).encode()) if found else gone,
        "adopted": Reply(0, record.encode()) if record else Reply(ABSENT),
        "adopted.container": Reply(0, json.dumps([recorded]).encode()) if recorded else gone,
        "agent.status": Reply(0, json.dumps(status).encode()),
    }


def box(identity: str, name: str) -> dict[str, Any]:
    return {"Id": identity, "Name": f"/{name}", "State": {"Status": "running"}}


def record(**values: Any) -> str:
    return json.dumps({"schema": 1, "id": ID, "name": "klops", "who": "ann", "at": 1.0} | values)


def test_what_only_has_an_id_that_begins_like_the_name_is_none() -> None:
    view = look(host(box("klops0", "stranger")), Settings())
    assert view.trouble() is None
    assert view.container is None
    assert view.units == {}, "its agent is none of ours either"


@pytest.mark.parametrize("named", [None, box(OTHER, "klops")])
def test_an_adopted_container_under_another_name_is_found_by_its_id(named: dict[str, Any] | None) -> None:
    error = look(host(named, box(ID, "work"), record()), Settings()).trouble()
    assert error is not None
    assert error.code == "container-renamed"
    assert "is called work now, not klops" in error.message
    assert "klops.container.name: work" in error.hint
    assert ("docker rename work klops" in error.hint) == (named is None)


@pytest.mark.parametrize(
    ("named", "recorded"),
    [
        (None, None),
        (box(ID, "klops"), box(ID, "klops")),
        (box(OTHER, "klops"), box(ID, f"klops.before-{ID[:12]}")),
        (None, box(ID, f"klops.before-{ID[:12]}")),
    ],
    ids=["gone", "itself", "put aside", "put aside, and no new one"],
)
def test_what_is_gone_or_put_aside_is_not_renamed(
    named: dict[str, Any] | None, recorded: dict[str, Any] | None
) -> None:
    assert look(host(named, recorded, record()), Settings()).trouble() is None


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply(0, b'{"schema": 1}'), "damaged"),
        (Reply(0, record(id="").encode()), "damaged"),
        (Reply(0, b"[]"), "damaged"),
        (Reply(0, b""), "damaged"),
        (Reply(0, record(schema=2).encode()), "schema"),
        (Reply(1, b"", b"head: Permission denied"), "unreadable"),
    ],
)
def test_a_record_that_can_not_be_read_is_not_none(reply: Reply, code: str) -> None:
    error = look({**host(box(ID, "klops")), "adopted": reply}, Settings()).trouble()
    assert error is not None
    assert error.code == code


def test_the_record_is_followed_to_its_container(tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\necho "$@"\n')
    docker.chmod(0o755)
    path = tmp_path / "adopted.json"
    script = RecordedRead("x", (str(docker),), str(path)).script
    assert subprocess.run(["sh", "-c", script], check=False).returncode == ABSENT
    path.write_bytes(records.text(records.Adoption(ID, "klops", "ann", 1.0)))
    done = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == f"inspect --type container {ID}\n"


def test_only_nodes_that_the_settings_use_count_as_lost() -> None:
    access = [{"node": f"/dev/{n}", "error": "refused", "fault": "container"} for n in ("xpu1", "xpu6")]
    replies = host(box(ID, "klops"))
    known = {"supervisor": {}, "units": {}, "access": access}
    replies["agent.status"] = Reply(0, json.dumps(known).encode())
    view = look(replies, Settings.model_validate({"cards": {"use": [0, 1]}}))
    assert view.lost_access == (("/dev/xpu1", "refused"),)
    assert view.lost_spares == (("/dev/xpu6", "refused"),)
    other = look(replies, Settings.model_validate({"cards": {"use": [0, 2]}}))
    assert other.lost_access_error("h") is None
