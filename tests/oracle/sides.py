"""How each of the two tools runs a playbook, and what is read from what it leaves."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import Any

from tests.oracle import hosts
from tests.oracle.case import Case
from tests.oracle.forks import Ended, Forks
from tests.oracle.lab import Lab
from tests.oracle.observed import TaskSeen, observation

_META = ("meta", "ansible.builtin.meta")


@dataclass(frozen=True)
class Seen:
    """One run: all that was observed, its tasks in order, and what it printed."""

    observed: dict[str, Any]
    tasks: list[TaskSeen]
    ended: Ended
    #: why klops ran nothing
    refusal: str = ""


def run_ansible(lab: Lab, forks: Forks, case: Case) -> Seen:
    """One run of ansible-playbook from a fresh seed."""
    root = lab.root("ansible", case)
    hosts.make_root(root, case.folder / "seed")
    dump = root.with_name(f"{root.name}.jsonl")
    dump.unlink(missing_ok=True)
    env = {**lab.env, **case.env, "ORACLE_DUMP": str(dump)}
    words = lab.words("ansible", case, case.connection)
    ended = forks.run(words, cwd=case.folder, env=env, streams=root.with_name(root.name))
    lines = [json.loads(line) for line in dump.read_text("utf-8").splitlines()] if dump.is_file() else []
    recap: dict[str, dict[str, int]] = next((line["recap"] for line in lines if "recap" in line), {})
    # a skipped meta is told to callbacks alone: no recap and no output has it
    tasks = [_ansible_task(line) for line in lines if "task" in line and line["action"] not in _META]
    observed = observation(
        ended=_ansible_exit(ended.rc, recap, bool(tasks)),
        recap=recap,
        tasks=tasks,
        files=hosts.files(root),
        root=str(root),
    )
    return Seen(observed, tasks, ended)


def _ansible_exit(rc: int, recap: dict[str, dict[str, int]], ran: bool) -> str:
    if rc == 0:
        return "ok"
    if any(counts["unreachable"] for counts in recap.values()):
        return "unreachable"
    # a file that can't be read has the status of an unreachable host
    return "failed" if ran or recap else "load"


def _ansible_task(line: dict[str, Any]) -> TaskSeen:
    result, said = line["result"], None
    if line["action"] in ("debug", "ansible.builtin.debug") and line["status"] == "ok":
        if "msg" in result:
            said = _text(result["msg"])
        elif "results" not in result:
            own = {
                k: v for k, v in result.items() if not k.startswith("_") and k not in ("changed", "failed")
            }
            said = _text(next(iter(own.values()), None))
    if "results" in result:
        said = None
    return TaskSeen(line["host"], line["task"], line["status"], said)


def run_klops(lab: Lab, forks: Forks, case: Case, *, check: bool = False, fresh: bool = True) -> Seen:
    """One run of klops; from a fresh seed, or on what an earlier one left."""
    root = lab.root("klops", case)
    if fresh:
        hosts.make_root(root, case.folder / "seed")
        shutil.rmtree(lab.state, ignore_errors=True)
    words = ["play", *lab.words("klops", case, "ssh"), "-o", "json"]
    if check and not case.checks:
        words.append("--check")
    ended = forks.run(words, cwd=case.folder, env={**lab.env, **case.env}, streams=root.with_name(root.name))
    try:
        document = json.loads(ended.stdout)
    except ValueError:
        document = {}
    tasks = [
        TaskSeen(host, task["name"], _klops_status(done), _klops_said(task, done))
        for play in document.get("plays", ())
        for task in play["tasks"]
        for host, done in task["hosts"].items()
    ]
    observed = observation(
        ended={0: "ok", 1: "failed", 2: "load", 4: "unreachable"}.get(ended.rc, str(ended.rc)),
        recap=document.get("recap", {}),
        tasks=tasks,
        files=hosts.files(root),
        root=str(root),
    )
    return Seen(
        observed,
        tasks,
        ended,
        json.dumps(document["error"], ensure_ascii=False) if "error" in document else "",
    )


def _klops_status(done: dict[str, Any]) -> str:
    # what became of the failure is in the recap, as it is for Ansible
    status = str(done["status"])
    return "failed" if status in ("rescued", "ignored") else status


def _klops_said(task: dict[str, Any], done: dict[str, Any]) -> str | None:
    if task["action"] != "debug" or done["status"] != "ok" or "items" in done:
        return None
    text = str(done["message"])
    for line in (text, text.partition(": ")[2]):
        try:
            json.loads(line)
        except ValueError:
            continue
        return line
    return text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
