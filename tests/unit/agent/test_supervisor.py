"""The supervisor's loop: its rests, and looks in which the system refuses something."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.processes import procs
from klops.agent.supervision import barrier, supervisor
from klops.agent.supervision.supervisor import Supervisor
from klops.agent.units import unit
from klops.agent.units.lineage import SPARE, Lineage
from klops.agent.units.unit import Record


@pytest.mark.parametrize(
    ("soonest", "checks", "cost", "expected"),
    [
        (0.1, [], 0.02, 0.1),  # something starts or ends: looks cost what they cost
        (1.0, [60.0], 0.001, 1.0),
        (1.0, [60.0], 0.01, 5.0),
        (1.0, [60.0], 0.1, 10.0),
        (1.0, [4.9, 30.0], 0.1, 4.9),  # however dear a look is, a check begins when its interval is over
        (5.0, [], 0.001, 5.0),
    ],
)
def test_rest(soonest: float, checks: list[float], cost: float, expected: float) -> None:
    assert supervisor.rest(soonest, checks, cost) == pytest.approx(expected)


@contextmanager
def living() -> Iterator[procs.Process]:
    """A process that lives until its standard input is closed."""
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as child:
        process = procs.read(child.pid)
        assert process is not None
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):  # what a test looks at may have reaped it
                child.kill()


@pytest.fixture
def paths(tmp_path: Path) -> store.Paths:
    """A root without units."""
    made = store.Paths(str(tmp_path))
    made.make()
    return made


@pytest.fixture
def one(paths: store.Paths) -> Iterator[Supervisor]:
    """A supervisor that looks when the test says so."""
    made = Supervisor(paths, "digest", "package", 0, 0o022)
    yield made
    for managed in made.units.values():
        managed.close()
    made.server.close()
    made.selector.close()


def test_a_unit_that_the_system_refused_is_taken_as_soon_as_it_can_be(
    one: Supervisor, paths: store.Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = Path(paths.lineage("llm"))
    refused.mkdir()  # "Is a directory", as for any other error of the system
    one.take_over()
    one.look()
    one.look()
    assert (list(one.units), one.broken["llm"].code) == ([], "system")
    assert capsys.readouterr().err.count("llm: ") == 1
    refused.rmdir()
    with living() as process:
        Lineage(str(refused)).record(process, 1)
        one.look()
        assert one.broken == {}
        assert [member.pid for member in one.units["llm"].living] == [process.pid]


def test_a_look_that_fails_leaves_no_closed_descriptor_behind(one: Supervisor, paths: store.Paths) -> None:
    Path(paths.spec("odd")).mkdir()
    with living() as process:
        Lineage(paths.lineage("llm")).record(process, 1)
        one.take_over()
        one.look()
        (handle,) = one.units["llm"].handles.values()
        number = handle.fd
        folder = os.open(paths.run, os.O_PATH)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"/proc/self/fd/{folder}/supervisor.sock")
            client.sendall(b'{"verb": "status"}\n')
            os.kill(process.pid, 9)
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            one.units["odd"].record.removing = True
            with pytest.raises(OSError, match="odd"):
                one.look()  # its specification can't be removed
            assert one.units["llm"].handles == {}
            # the client gets the lowest number that is free
            spare: list[int] = []
            while not spare or spare[-1] < number:
                spare.append(os.dup(folder))
            for fd in spare:
                if fd >= number:
                    os.close(fd)
            while b"units" not in _answered(client):
                for key, _ in one.selector.select(10):
                    key.data()
        for fd in spare:
            if fd < number:
                os.close(fd)
        os.close(folder)


def record_of_one_that_died(one: Supervisor, name: str, log_from: int) -> None:
    """It was ready, its root is gone; where its log is to be read from may be no place that there is."""
    Path(one.paths.log(name)).write_text("a line\n")
    record = Record(name, desired=unit.RUNNING, state=unit.READY, root=[2**22, 5], generation=3)
    record.log_from, record.home = log_from, one.around.home
    store.write_json(one.paths.state(name), record.dump())


def test_what_nobody_reckoned_with_of_one_unit_leaves_the_others_watched(
    one: Supervisor, paths: store.Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    record_of_one_that_died(one, "bad", 10**30)
    record_of_one_that_died(one, "good", 0)
    one.take_over()
    before = Path(paths.state("bad")).read_text()
    for _ in range(3):
        one.look()
    bad, good = (one.answer({"verb": "status"})["units"][name] for name in ("bad", "good"))
    assert (bad["state"], bad["digest"], good["state"]) == (unit.UNHEALTHY, None, unit.BACKOFF)
    assert "the supervisor could not go on with it: OverflowError" in bad["error"]
    assert Path(paths.state("bad")).read_text() == before  # half of a step is not written down
    assert capsys.readouterr().err.count("bad: the supervisor could not go on with it: OverflowError") == 1
    assert Path(paths.audit).read_text().count("OverflowError") == 1
    # whoever asks for something has it gone on with at once
    one.answer({"verb": "stop", "name": "bad"})
    one.look()
    assert one.answer({"verb": "status"})["units"]["bad"]["state"] == unit.STOPPED


def test_a_unit_that_could_not_be_gone_on_with_is_tried_again_from_what_is_on_disk(
    one: Supervisor, paths: store.Paths, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(barrier, "AGAIN", 0.0)
    record_of_one_that_died(one, "bad", 10**30)
    one.take_over()
    one.look()
    one.look()
    assert (one.units["bad"].fallen, Path(paths.audit).read_text().count("OverflowError")) == (True, 1)
    record_of_one_that_died(one, "bad", 0)
    one.look()
    assert (one.units["bad"].fallen, one.units["bad"].record.state) == (False, unit.BACKOFF)
    assert "bad: the supervisor could not go on with it: works again" in capsys.readouterr().err
    assert '"why": "it works again"' in Path(paths.audit).read_text().replace('":"', '": "')


def test_a_unit_that_is_left_alone_does_not_keep_the_loop_busy(one: Supervisor, paths: store.Paths) -> None:
    with living() as process:
        Lineage(paths.lineage("llm")).record(process, 1)
        one.take_over()
        one.look()
        llm = one.units["llm"]
        llm.record.ending = "a test wants it"
        assert llm.wants_before(time.monotonic()) < 1.0

        def fails() -> None:
            raise KeyError("nobody reckoned with it")

        assert not one.barrier.hold(llm, fails)
        assert llm.wants_before(time.monotonic()) >= 1.0
        assert llm.check_due(time.monotonic()) >= 1.0
        # who is new in its lineage is on record all the same
        llm.lineage.notice(process._replace(pid=2**22), 1)
        one.look()
        assert (2**22, process.start) in Lineage(paths.lineage("llm")).members
        assert [member.pid for member in llm.living] == [process.pid]


def test_a_command_that_meets_what_nobody_reckoned_with_is_its_unit_s(
    one: Supervisor, paths: store.Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bad", "good"):
        record_of_one_that_died(one, name, 0)
    one.take_over()

    def fails(*_: object) -> None:
        raise KeyError("nobody reckoned with it")

    with monkeypatch.context() as patched:
        patched.setattr(unit, "command_stop", fails)
        with pytest.raises(VerbError, match="could not go on with it: KeyError") as caught:
            one.answer({"verb": "stop", "name": "bad"})
    assert caught.value.code == "internal"
    units = one.answer({"verb": "status"})["units"]
    assert (units["bad"]["state"], one.units["good"].fallen) == (unit.UNHEALTHY, False)
    assert "KeyError" in Path(paths.audit).read_text()
    one.answer({"verb": "stop", "name": "bad"})
    one.look()
    assert one.answer({"verb": "status"})["units"]["bad"]["state"] == unit.STOPPED


def test_a_lineage_that_says_little_is_written_anew(one: Supervisor, paths: store.Paths) -> None:
    with living() as process:
        lineage = Lineage(paths.lineage("llm"))
        lineage.record(process, 1)
        line = Path(lineage.path).read_text()
        with Path(lineage.path).open("a") as file:
            for pid in range(2**22, 2**22 + SPARE):
                file.write(line.replace(f'"pid":{process.pid},', f'"pid":{pid},'))
        assert len(Lineage(lineage.path).members) == SPARE + 1
        one.take_over()
        for _ in range(2):
            one.look()
        assert set(Lineage(lineage.path).members) == {(process.pid, process.start)}


def _answered(client: socket.socket) -> bytes:
    try:
        return client.recv(65536, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return b""
