"""Handlers that a run which did not finish left undone are found by the next one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from klops.playbook.events import Warned
from klops.playbook.options import RunOptions
from klops.playbook.plays.notified import LEFT_OVER, Record, parse
from klops.playbook.plays.run import run
from klops.remote.factory import open_remote
from klops.remote.fake import reply
from tests.unit.playbook.support import Files, Lab

SITE = ("play.yml", "site")
PATH = "/var/lib/klops/notified.json"
PLAY = """\
- name: site
  hosts: all
  tasks:
    - {name: write, copy: {content: new, dest: /a}, notify: [restart, topic]}
    - {name: boom, fail: , when: boom is defined}
    - {name: look, copy: {content: there, dest: /there}}
  handlers:
    - {name: restart, command: restart it}
    - {name: reload, debug: , listen: topic}
"""


def host(lab: Lab, **files: str) -> Files:
    """A host that really keeps its files."""
    found = Files(lab.host(), **{"/there": "there", **files})
    lab.host().on("chown").on("restart it").on("rm -f", lambda call: found.content.pop(PATH, "") and "")
    return found


def record(files: Files) -> Any:
    return json.loads(files.content[PATH])["playbooks"]["play.yml"] if PATH in files.content else None


def test_what_a_failed_run_left_is_done_by_the_next_one(lab: Lab) -> None:
    files = host(lab)
    ran = lab.play(PLAY, extra_vars={"boom": 1})
    assert ran.statuses() == ["changed", "failed"]
    entry = record(files)["site"]
    assert set(entry) == {"restart", "reload"}
    assert entry["restart"]["task"] == "write"
    assert entry["restart"]["time"] > 1_700_000_000

    ran = lab.play(PLAY)
    assert ran.statuses() == ["ok", "skipped", "ok", "changed", "ok"]
    assert ran.task(3).message == LEFT_OVER
    assert ran.task(4).message.startswith(LEFT_OVER + ": ")
    assert record(files) is None

    before = lab.host().commands_run
    ran = lab.play(PLAY)
    assert ran.statuses() == ["ok", "skipped", "ok"]
    assert lab.host().commands_run == before + 1


def test_it_is_put_down_under_the_lock_before_the_change(lab: Lab) -> None:
    files = host(lab)
    seen: list[tuple[Any, list[str]]] = []
    lab.host().on(lambda call: call.kind == "put" and call.text == "/a", lambda _: watched())

    def watched() -> str:
        files.content["/a"] = "new"
        seen.append((record(files), list(lab.lock.log)))
        return ""

    lab.play(PLAY)
    (noted, locks), *more = seen
    assert set(noted["site"]) == {"restart", "reload"}
    assert locks == ["acquire"]
    assert not more
    assert record(files) is None


def test_a_handler_that_fails_stays_noted_and_those_that_ran_do_not(lab: Lab) -> None:
    files = host(lab)
    lab.host().on("restart it", reply(rc=1))
    swapped = PLAY.replace("{name: restart, command: restart it}", "{name: first, debug: , listen: topic}")
    lab.play(
        swapped.replace("{name: reload, debug: , listen: topic}", "{name: restart, command: restart it}")
    )
    assert list(record(files)["site"]) == ["restart"]


def test_check_mode_shows_them_and_writes_nothing(lab: Lab) -> None:
    left = Record().noted(SITE, ["restart"], "write", 1.0).text()
    files = host(lab, **{"/a": "new", PATH: left})
    ran = lab.play(PLAY, check=True)
    assert ran.statuses() == ["ok", "skipped", "ok", "unknown"]
    assert ran.task(3).message.startswith(LEFT_OVER)
    assert files.content[PATH] == left
    assert [call.kind for call in lab.host().log] == ["read"] * len(lab.host().log)


def test_only_the_play_of_that_name_takes_them_up(lab: Lab) -> None:
    left = Record().noted(("play.yml", "site 2"), ["restart"], "write", 1.0).text()
    files = host(lab, **{"/a": "old", PATH: left})
    ran = lab.play(PLAY)
    assert ran.statuses() == ["changed", "skipped", "ok", "changed", "ok"]
    assert ran.task(3).message == ""
    assert files.content[PATH] == left


def test_whoever_reads_first_reads_the_record_too(lab: Lab) -> None:
    left = Record().noted(SITE, ["reload"], "write", 1.0).text()
    files = host(lab, **{"/a": "new", PATH: left})
    ran = lab.play(
        PLAY.replace("notify:", "become: true, notify:").replace("/there}", "/there}, become: true")
    )
    assert ran.statuses() == ["ok", "skipped", "ok", "ok"]
    assert record(files) is None


def test_a_play_without_handlers_reads_nothing_of_it(lab: Lab) -> None:
    host(lab)
    lab.play(PLAY[: PLAY.index("  handlers")].replace(", notify: [restart, topic]", ""))
    assert not [call for call in lab.host().log if "notified" in call.text]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("no json", "it is damaged; look at it"),
        ('{"schema": 1, "plays": [1]}', "it is damaged"),
        ('{"schema": 3, "plays": {}}', "it has schema 3"),
    ],
)
def test_a_record_that_cannot_be_understood_is_told_and_left_alone(lab: Lab, content: str, why: str) -> None:
    files = host(lab, **{PATH: content})
    ran = lab.play(PLAY)
    assert ran.statuses() == ["changed", "skipped", "ok", "changed", "ok"]
    warned = [event.message for event in ran.sink.events if isinstance(event, Warned)]
    assert len([text for text in warned if text.startswith(f"{PATH} is left as it is") and why in text]) == 1
    assert files.content[PATH] == content


def test_a_handler_that_is_gone_from_the_play_is_told(lab: Lab) -> None:
    left = Record().noted(SITE, ["gone"], "write", 1.0).text()
    host(lab, **{"/a": "new", PATH: left})
    ran = lab.play(PLAY)
    assert ran.result.ok
    assert any(isinstance(event, Warned) and "'gone'" in event.message for event in ran.sink.events)


def warnings(ran: Any) -> list[str]:
    return [event.message for event in ran.sink.events if isinstance(event, Warned)]


def test_another_playbooks_handler_of_the_same_name_is_left_alone(lab: Lab) -> None:
    left = Record().noted(("other.yml", "site"), ["restart"], "write", 1.0).text()
    files = host(lab, **{"/a": "new", PATH: left})
    ran = lab.play(PLAY)
    assert ran.statuses() == ["ok", "skipped", "ok"]
    assert not warnings(ran)
    assert files.content[PATH] == left


def test_a_play_that_is_called_otherwise_now_is_told_once(lab: Lab) -> None:
    left = Record().noted(("play.yml", "old name"), ["restart"], "write", 1.0).text()
    files = host(lab, **{"/a": "new", PATH: left})
    ran = lab.play(PLAY + PLAY.replace("name: site", "name: second"))
    (text,) = warnings(ran)
    for part in ("'restart'", "'old name'", "play.yml", LEFT_OVER, PATH, "delete its entry"):
        assert part in text
    assert files.content[PATH] == left


def test_what_is_left_over_is_told_before_it_runs_whatever_tags_are_asked_for(lab: Lab) -> None:
    left = Record().noted(SITE, ["restart"], "write", 1.0).text()
    host(lab, **{"/a": "new", PATH: left})
    ran = lab.play(PLAY.replace("{name: look,", "{name: look, tags: look,"), tags=["look"])
    assert ran.statuses() == ["ok", "changed"]
    (text,) = warnings(ran)
    assert LEFT_OVER in text
    assert "'restart'" in text
    told = next(n for n, event in enumerate(ran.sink.events) if isinstance(event, Warned))
    done = [n for n, event in enumerate(ran.sink.events) if LEFT_OVER in str(getattr(event, "result", ""))]
    assert done
    assert told < min(done)


def test_plays_of_one_name_in_one_file_have_their_own_entries(lab: Lab) -> None:
    files = host(lab)
    first = (
        PLAY.replace("path: /a", "path: /b")
        .replace("/a}", "/there}")
        .replace("content: new", "content: there")
    )
    lab.play(first + PLAY, extra_vars={"boom": 1})
    assert record(files) is None
    lab.play(first.replace("boom is defined", "false") + PLAY, extra_vars={"boom": 1})
    assert list(record(files)) == ["site (2)"]


def test_a_record_without_playbooks_is_read_as_it_was_meant(lab: Lab) -> None:
    old = {"schema": 1, "plays": {"site": {"restart": {"task": "write", "time": 1}}}}
    files = host(lab, **{"/a": "new", PATH: json.dumps(old)})
    ran = lab.play(PLAY)
    assert ran.statuses() == ["ok", "skipped", "ok", "changed"]
    assert PATH not in files.content


def test_a_record_of_several_plays() -> None:
    a, b = ("p.yml", "a"), ("q.yml", "a")
    both = Record().noted(a, ["x", "y"], "t", 1.9).noted(b, ["x"], "t", 2)
    assert parse(reply(both.text())) == both
    assert both.noted(a, ["x"], "later", 9.0) == both
    assert both.without(a, ["x", "none"]).of(a) == ("y",)
    assert both.without(a, ["x", "y"]).without(b, ["x"]).text() == ""
    assert parse(reply(rc=44)) == Record()


def test_on_a_host_with_a_real_shell(lab: Lab, tmp_path: Path) -> None:
    root = tmp_path / "klops"
    lab.inventory = f"all: {{hosts: {{h1: {{ansible_connection: local, klops: {{root: {root}}}}}}}}}"
    text = PLAY.replace("/a}", f"{tmp_path}/a}}").replace("restart it", f"touch {tmp_path}/done")
    playbook = lab.load(text.replace("content: there, dest: /there", f"content: new, dest: {tmp_path}/a"))

    def once(**extra: Any) -> Any:
        options = RunOptions(extra_vars=extra)
        return run(
            playbook, lab.load_inventory(), options, sinks=[], open_remote=open_remote, redactor=lab.redactor
        )

    first = once(boom=1)
    assert [str(e) for e in first.errors.values()] == ["Failed as requested from task"]
    assert set(json.loads((root / "notified.json").read_text())["playbooks"]["play.yml"]["site"]) == {
        "restart",
        "reload",
    }
    assert not (tmp_path / "done").exists()
    assert once().ok
    assert (tmp_path / "done").exists()
    # no record is left, nor the lock
    assert [path.name for path in root.iterdir()] == ["audit.jsonl"]
    assert once().remote_commands == {"h1": 1}


def test_a_handler_that_notifies_an_earlier_one_leaves_nothing(lab: Lab) -> None:
    # ansible-playbook never runs the earlier one then: no flush comes any more
    files = host(lab)
    ran = lab.play(
        """\
        - name: site
          hosts: all
          post_tasks: [{name: write, copy: {content: new, dest: /a}, notify: second}]
          handlers:
            - {name: first, debug: }
            - {name: second, command: restart it, notify: [first, third]}
            - {name: third, debug: }
        """
    )
    assert ran.statuses() == ["changed", "changed", "ok"]
    assert record(files) is None
