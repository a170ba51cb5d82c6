"""The whole verb, on real processes that a lineage knows. The folder of card nodes is empty."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.options import Options
from klops.agent.processes import devices, identity, procs
from klops.agent.reaping import act, judge, keepout, known, records, sight, verb
from klops.agent.reaping.judge import Finding
from klops.agent.reaping.sight import Seen
from klops.agent.units import leftovers, ondisk, quarantine
from klops.agent.units.lineage import Lineage
from klops.agent.units.unit import Record
from tests.waiting import until

#: Says that it is up, and waits for a signal; with a word it ignores TERM.
WAIT = """
import signal, sys
if len(sys.argv) > 1:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
while True:
    signal.pause()
"""


class Start(Protocol):
    """Starts one; words go to it."""

    def __call__(self, *words: str, recorded: bool = True) -> int: ...


@pytest.fixture(autouse=True)
def _sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    """TERM has less time for its effect than in life."""
    (number, _), *others = act.ROUNDS
    monkeypatch.setattr(act, "ROUNDS", ((number, 3.0), *others))


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A root as a supervisor leaves it."""
    store.Paths(str(tmp_path / "root")).make()
    return str(tmp_path / "root")


@pytest.fixture
def start(root: str) -> Iterator[Start]:
    """Starts processes that the lineage of ``llm`` has on record; ended after the test."""
    children: list[subprocess.Popen[bytes]] = []

    def one(*words: str, recorded: bool = True) -> int:
        argv = [sys.executable, "-I", "-S", "-c", WAIT, *words]
        child = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True)
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        process = procs.read(child.pid)
        assert process is not None
        if recorded:
            Lineage(store.Paths(root).lineage("llm")).record(process, 1)
        return child.pid

    yield one
    for child in children:
        if child.poll() is None:
            child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def options(root: str, *words: str) -> Options:
    """The verb's options; nothing is a card."""
    return Options(["reap", "--root", root, "--device-dir", root, *words])


def reap(root: str, *words: str) -> Any:
    """What the verb says."""
    return verb.reap(options(root, *words))


def lines(root: str, name: str) -> list[Any]:
    """A file of JSON lines, without the starts and states of others."""
    return [json.loads(line) for line in Path(root, name).read_text().splitlines()]


def alive(pid: int) -> bool:
    """Whether it runs, by the table."""
    process = procs.read(pid)
    return process is not None and process.alive


def test_what_is_left_of_a_unit_is_ended_and_all_of_that_is_on_record(root: str, start: Start) -> None:
    polite, stubborn, stranger = start(), start("ignore"), start(recorded=False)
    found = reap(root, "--grace", "0")
    assert {(p["cpid"], p["action"], p["outcome"]) for p in found["processes"]} == {
        (polite, "term", "gone"),
        (stubborn, "kill", "gone"),
    }
    assert (alive(polite), alive(stubborn), alive(stranger)) == (False, False, True)
    row = found["processes"][0]
    assert row["pid"] is None
    assert (row["unit"], row["cards"], row["reason"]) == (
        "llm",
        [],
        "of unit llm: no unit of that name is left",
    )
    assert (found["view"], found["check"], found["supervisor"]) == ("container", False, False)

    signals = [line for line in lines(root, "audit.jsonl") if line["event"] == "signal"]
    sent = [(line["pid"], line["signal"], line["outcome"]) for line in signals]
    assert sorted(sent) == sorted(
        [(polite, "SIGTERM", "sent"), (stubborn, "SIGTERM", "sent"), (stubborn, "SIGKILL", "sent")]
    )
    assert all(line["by"].startswith("reap pass-reap-") and line["why"] == row["reason"] for line in signals)
    [kept] = lines(root, "reap.jsonl")
    assert (kept["ok"], kept["orphans"], kept["ended"], kept["unkillable"]) == (True, 2, 2, 0)
    metrics = Path(root, "metrics", "klops_reap_container.prom")
    assert f'\nklops_reap_ended{{root="{root}",view="container"}} 2\n' in metrics.read_text()
    assert metrics.stat().st_mode & 0o777 == 0o644
    assert not Path(root, "lock").exists()
    assert reap(root)["processes"] == []


def test_a_stopped_process_is_killed_at_once(root: str, start: Start) -> None:
    pid = start()
    os.kill(pid, signal.SIGSTOP)
    until(lambda: (procs.read(pid) or procs.Process(0, 0, 0, 0, "", 0, "")).state == "T")
    assert reap(root, "--grace", "0", "--check")["processes"][0]["action"] == "kill"
    [row] = reap(root, "--grace", "0")["processes"]
    assert (row["action"], row["outcome"]) == ("kill", "gone")


def test_a_check_shows_the_same_and_does_nothing(root: str, start: Start) -> None:
    pid = start()
    before = sorted(str(path) for path in Path(root).rglob("*"))
    [row] = reap(root, "--grace", "0", "--check")["processes"]
    assert (row["cpid"], row["action"], row["outcome"]) == (pid, "term", "skipped")
    assert alive(pid)
    assert sorted(str(path) for path in Path(root).rglob("*")) == before


def test_the_young_are_spared(root: str, start: Start) -> None:
    pid = start()
    [row] = reap(root)["processes"]
    assert (row["cpid"], row["action"], row["outcome"]) == (pid, "none", "skipped")
    assert "grace 60 s" in row["reason"]
    assert alive(pid)


def test_a_wanted_unit_whose_root_lives_is_left_to_the_supervisor_to_come(root: str, start: Start) -> None:
    pid = start()
    process = procs.read(pid)
    assert process is not None
    record = Record("llm", desired="running", state="ready", generation=1, root=[pid, process.start])
    store.write_json(store.Paths(root).state("llm"), record.dump())
    found = reap(root, "--grace", "0")
    assert ([row["cpid"] for row in found["unsupervised"]], found["processes"]) == ([pid], [])
    assert alive(pid)


def test_a_supervisor_that_lives_but_says_nothing_keeps_what_it_has(root: str, start: Start) -> None:
    pid = start()
    with Path(store.Paths(root).lock).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = reap(root, "--grace", "0")
    assert ([row["cpid"] for row in found["unsupervised"]], found["processes"]) == ([pid], [])
    assert "doesn't answer" in found["unsupervised"][0]["reason"]


def test_two_at_once_are_one_and_the_other_says_why_not(root: str, start: Start) -> None:
    pid = start()
    with Path(root, "run", "reap.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(VerbError) as caught:
            reap(root, "--grace", "0")
    assert caught.value.code == "reap-busy"
    assert alive(pid)
    [kept] = lines(root, "reap.jsonl")
    assert (kept["ok"], kept["error"]["code"]) == (False, "reap-busy")
    metrics = Path(root, "metrics", "klops_reap_container.prom").read_text()
    assert f'\nklops_reap_success{{root="{root}",view="container"}} 0\n' in metrics


def test_metrics_of_two_roots_are_two_and_tell_who_could_not_be_looked_at() -> None:
    lists: dict[str, Any] = {
        name: []
        for name in ("processes", "unowned", "foreign", "unsupervised", "observers", "shm", "trouble")
    }
    found = records.line({**lists, "unknown": [{"pid": 7}]}, "host", "r1", 0.5)
    # one that waits for a disk is no reason for an alarm
    assert found["ok"] is True
    named = 'a "b"\\c\nd'
    for root, label in (("/k", "/k"), (named, r"a \"b\"\\c\nd"), ("/\udcff", "/\ufffd")):
        text = records.metrics(found, root)
        samples = [line for line in text.splitlines() if not line.startswith("#")]
        assert f'klops_reap_unknown{{root="{label}",view="host"}} 1' in samples
        assert all(f'{{root="{label}",view="host"}} ' in line for line in samples)


def test_a_host_that_a_run_changes_is_left_alone_but_by_that_run(root: str, start: Start) -> None:
    pid = start()
    head = {"schema": 1, "who": "ann", "from": "her-laptop", "run": "r1", "boot_id": identity.here()[0]}
    Path(root, "lock").write_text(json.dumps({**head, "expires": 1e12, "taken": 1}) + "\n")
    for words in ([], ["--run", "r2"]):
        with pytest.raises(VerbError) as caught:
            reap(root, "--grace", "0", *words)
        assert caught.value.code == "host-locked"
    assert alive(pid)
    [row] = reap(root, "--grace", "0", "--run", "r1")["processes"]
    assert row["outcome"] == "gone"
    assert Path(root, "lock").exists()
    assert lines(root, "audit.jsonl")[-1]["by"] == "reap r1"


def test_the_verb_is_run_by_the_command_line(root: str, start: Start) -> None:
    pid = start()
    argv = [sys.executable, "-m", "klops.agent", "reap", "--root", root, "--device-dir", root, "--grace", "0"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert [row["cpid"] for row in json.loads(done.stdout)["processes"]] == [pid]
    refused = subprocess.run([*argv, "--include", "12"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "PID:START" in json.loads(refused.stdout)["error"]["message"]


@pytest.mark.parametrize(
    "words", [["--kind", "mine"], ["--host", "--container", "a" * 64], ["--include", "1:x"]]
)
def test_what_makes_no_sense_is_refused_before_anything_is_done(root: str, words: list[str]) -> None:
    with pytest.raises(VerbError) as caught:
        reap(root, *words)
    assert caught.value.code == "usage"
    assert not Path(root, "reap.jsonl").exists()


def test_the_cards_of_one_that_kill_does_not_end_are_kept_out_of_service(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = procs.Process(22, 1, 22, 22, "D", 5, "worker")
    seen = Seen(inner._replace(pid=1022), inner, 77, "a" * 64, 0, ("xpu5", "xpu6"))
    card = {"index": 3, "minor": 5, "node": "/dev/xpu0", "bdf": "0000:0a:00.0", "uuid": "u3", "serial": "s3"}
    monkeypatch.setattr(ondisk, "spec", lambda *_: {"cards": [card]})
    stuck = act.Outcome(Finding(seen, "llm", "left behind"), "kill", act.UNKILLABLE, "in state D")
    keepout.keep_out(store.Paths(root), [stuck], "reap r1")
    known, unknown = quarantine.in_force(root)
    assert known["card"] == card
    # in no specification: all that is known of it is its name
    assert unknown["card"]["node"] == "/dev/xpu6"
    assert known["process"] == {"pid": 22, "start": 5, "ns": 77, "name": "worker", "state": "D"}
    assert (known["kind"], known["by"], known["evidence"]) == ("unkillable", "reap r1", ["in state D"])


@pytest.mark.parametrize(("opened", "kept_out"), [(None, [3, 4]), ({7}, [])])
def test_all_cards_of_the_unit_are_where_what_it_holds_can_t_be_told(
    root: str, monkeypatch: pytest.MonkeyPatch, opened: set[int] | None, kept_out: list[int]
) -> None:
    inner = procs.Process(22, 0, 22, 22, "D", 5, "worker", exiting=True)
    seen = Seen(inner._replace(pid=1022), inner, 77, "a" * 64, 0, unreadable=True)
    cards = [{"index": index, "minor": index, "node": f"/dev/xpu{index}"} for index in (3, 4)]
    monkeypatch.setattr(ondisk, "spec", lambda *_: {"cards": cards})
    monkeypatch.setattr(devices, "opened", {1022: opened}.__getitem__)
    stuck = act.Outcome(Finding(seen, "llm", "left behind"), "kill", act.UNKILLABLE, "in state D")
    keepout.keep_out(store.Paths(root), [stuck, stuck._replace(finding=Finding(seen, "", "x"))], "reap r1")
    assert [note["card"]["index"] for note in quarantine.in_force(root)] == kept_out


def test_what_can_not_be_written_down_is_said_and_hides_nothing(
    root: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = start()

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", root)

    monkeypatch.setattr(keepout, "keep_out", full)
    monkeypatch.setattr(leftovers, "tidy", full)
    found = reap(root, "--grace", "0")
    assert [(row["cpid"], row["outcome"]) for row in found["processes"]] == [(pid, "gone")]
    assert found["shm"] == []
    assert [text.partition(":")[0] for text in found["trouble"]] == [
        "the cards could not be noted as out of service",
        "what is left in shared memory could not be dealt with",
    ]
    assert lines(root, "reap.jsonl")[0]["ok"] is False
    monkeypatch.setattr(records, "keep", full)
    assert reap(root)["trouble"][-1] == f"{root}: No space left on device"


def test_where_no_supervisor_lives_a_session_that_is_empty_is_closed(root: str, start: Start) -> None:
    pid = start()
    lineage = store.Paths(root).lineage("llm")
    assert '"closed"' not in Path(lineage).read_text()
    Path(store.Paths(root).lock).touch()
    reap(root, "--grace", "0")
    # the child of this process stays its zombie, and with it the number, until it is reaped
    until(lambda: not alive(pid))
    os.waitpid(pid, 0)
    reap(root)
    assert json.loads(Path(lineage).read_text().splitlines()[-1])["closed"] == pid
    before = Path(lineage).read_text()
    reap(root)
    assert Path(lineage).read_text() == before


def test_the_figures_of_the_two_views_stand_beside_each_other(root: str, start: Start) -> None:
    start()
    reap(root, "--grace", "0")
    reap(root, "--host")
    folder = Path(root, "metrics")
    assert sorted(path.name for path in folder.iterdir()) == [
        "klops_reap_container.prom",
        "klops_reap_host.prom",
    ]
    assert (
        f'\nklops_reap_ended{{root="{root}",view="container"}} 1\n'
        in (folder / "klops_reap_container.prom").read_text()
    )
    assert (
        f'\nklops_reap_ended{{root="{root}",view="host"}} 0\n'
        in (folder / "klops_reap_host.prom").read_text()
    )


def test_a_unit_whose_state_is_lost_is_left_to_a_supervisor_which_makes_it_anew(
    root: str, start: Start
) -> None:
    pid = start()
    store.write_json(store.Paths(root).spec("llm"), {"name": "llm"})
    found = reap(root, "--grace", "0")
    assert ([row["cpid"] for row in found["unsupervised"]], found["processes"]) == ([pid], [])
    assert "whose state is lost" in found["unsupervised"][0]["reason"]
    assert alive(pid)


@pytest.mark.parametrize(
    "reply",
    [
        b"[]",
        b'{"units": {}}',
        b'{"supervisor": {"cpid": 5, "start": 6}, "units": {"llm": {"state": "stopped"}}}',
        b'{"supervisor": {"cpid": 5, "start": 6}, "units": {}, "strays": [{"pid": 8}]}',
        b"what?",
    ],
)
def test_a_supervisor_whose_answer_makes_no_sense_keeps_what_it_has(
    root: str, start: Start, reply: bytes
) -> None:
    pid = start()
    with answering(root, reply):
        found = reap(root, "--grace", "0")
    assert ([row["cpid"] for row in found["unsupervised"]], found["processes"]) == ([pid], [])
    assert "doesn't answer" in found["unsupervised"][0]["reason"]


def test_what_a_supervisor_can_t_place_is_told_by_pid_and_start(root: str) -> None:
    seen = sight.look(root, 0, [], host=False)
    me, reused = (seen.processes[pid].process for pid in (os.getpid(), os.getppid()))
    listed = [{"cpid": me.pid, "start": me.start}, {"cpid": reused.pid, "start": reused.start - 1}]
    reply = {"supervisor": {"cpid": 5, "start": 6}, "units": {}, "strays": listed}
    with answering(root, json.dumps(reply).encode()):
        case = known.case(store.Paths(root), seen, known.Asked(judge.MADE, 0.0, ()))
    assert (case.supervisor, case.strays) == (judge.ANSWERS, {me.pid})


@contextlib.contextmanager
def answering(root: str, reply: bytes) -> Iterator[None]:
    """Somebody on the supervisor's socket who says the same to everybody."""
    folder = os.open(f"{root}/run", os.O_PATH)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{folder}/supervisor.sock")
        os.close(folder)
        server.listen()

        def answer() -> None:
            with contextlib.suppress(OSError):  # closed: the test is over
                while True:
                    client, _ = server.accept()
                    with client:
                        client.recv(4096)
                        client.sendall(reply + b"\n")

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_a_supervisor_is_known_by_its_command_line_where_no_lock_can_be_seen(
    root: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = start()
    table = procs.table
    # as the agent is started, but for what these do
    argv = [sys.executable, "-I", "-S", "-c", WAIT, "supervise", "--root", root]
    run = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[4:]))"
    hold = [sys.executable, "-I", "-S", "-c", run, "hold", "--root", root]
    with subprocess.Popen([*hold, *argv], stdout=subprocess.PIPE) as launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == b"up\n"
        [supervisor] = [one.pid for one in table().values() if one.ppid == launcher.pid]
        # in a container its parent is the main process
        monkeypatch.setattr(
            procs,
            "table",
            lambda: {
                number: one._replace(ppid=1) if number == launcher.pid else one
                for number, one in table().items()
            },
        )
        found = reap(root, "--grace", "0")
        os.kill(supervisor, signal.SIGKILL)
    assert ([row["cpid"] for row in found["unsupervised"]], found["processes"]) == ([pid], [])
    assert "doesn't answer" in found["unsupervised"][0]["reason"]


def test_records_that_are_damaged_are_named(root: str) -> None:
    paths = store.Paths(root)
    Path(paths.lineage("llm")).write_text('{"boot": 3}\n')
    Path(paths.traces("llm")).write_text("what?")
    found = reap(root, "--kind", "made")
    assert [text.partition(":")[0] for text in found["trouble"]] == [
        f"{paths.traces('llm')} is not JSON",
        paths.lineage("llm"),
    ]
    assert "1 line(s) can't be read" in found["trouble"][1]
    assert lines(root, "reap.jsonl")[0]["ok"] is False
    assert reap(root, "--check")["trouble"] == found["trouble"][1:]


def test_what_the_system_refuses_is_on_record(root: str) -> None:
    Path(root, "run", "reap.lock").mkdir()
    with pytest.raises(VerbError, match=r"reap\.lock: Is a directory"):
        reap(root)
    [kept] = lines(root, "reap.jsonl")
    assert (kept["ok"], kept["error"]["code"]) == (False, "system")


def test_a_clean_up_that_hangs_ends_by_itself_and_says_so(
    root: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    start("ignore")
    monkeypatch.setattr(verb, "DEADLINE", 1)
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(VerbError) as caught:
        reap(root, "--grace", "0")
    assert caught.value.code == "reap-timeout"
    [kept] = lines(root, "reap.jsonl")
    assert (kept["ok"], kept["error"]["code"]) == (False, "reap-timeout")
    assert not Path(root, "lock").exists()
    assert signal.getsignal(signal.SIGALRM) == before
    assert reap(root, "--grace", "0", "--check")["processes"], "and the next one begins anew"


def test_a_unit_that_has_begun_since_the_look_keeps_what_is_on_its_list(root: str, start: Start) -> None:
    paths, pid = store.Paths(root), start()
    assert known.running(paths) == {"llm"}
    os.kill(pid, signal.SIGKILL)
    until(lambda: known.running(paths) == set())


def test_whose_the_units_are_is_told_by_the_supervisors_lock(root: str) -> None:
    paths = store.Paths(root)
    assert paths.owner() == os.geteuid()
    os.chown(paths.run, 1234, -1)
    assert paths.owner() == 1234
    Path(paths.lock).touch()
    assert paths.owner() == os.geteuid()


def test_notes_on_cards_are_taken_away_once_the_host_view_shows_their_process_gone(
    root: str, start: Start
) -> None:
    here = procs.read(start(recorded=False))
    assert here is not None
    boot, ns = identity.here()
    notes = [
        {
            "card": {"node": f"/dev/xpu{number}"},
            "kind": "unkillable",
            "boot_id": boot,
            "process": {"pid": here.pid, "start": start_, "ns": ns_},
        }
        for number, (start_, ns_) in enumerate([(here.start, ns), (here.start, 77), (here.start + 1, ns)])
    ]
    store.write_json(quarantine.path(root), {"notes": notes})

    def left() -> Any:
        return [one["card"]["node"] for one in json.loads(Path(quarantine.path(root)).read_text())["notes"]]

    reap(root)
    assert [card["node"] for card in reap(root, "--host", "--check")["back"]] == ["/dev/xpu1", "/dev/xpu2"]
    assert len(left()) == 3
    # another run has the host, and nobody is to be ended
    Path(root, "lock").write_text("")
    said = reap(root, "--host", "--lift")
    Path(root, "lock").unlink()
    assert [card["node"] for card in said["back"]] == ["/dev/xpu1", "/dev/xpu2"]
    assert left() == ["/dev/xpu0"]
    assert reap(root, "--host")["back"] == []
    lifted = [line for line in lines(root, "audit.jsonl") if line["event"] == "card-back"]
    assert [line["card"]["node"] for line in lifted] == ["/dev/xpu1", "/dev/xpu2"]
    Path(quarantine.path(root)).write_text("what?")
    assert "notes on cards could not be taken away" in reap(root, "--host")["trouble"][0]
