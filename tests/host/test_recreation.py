"""A container made anew on a real engine: the old one is kept until the new one serves, and comes back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from klops.sim.image import volumes
from klops.sim.layout import SERVED_NAME, SERVICE, Rehearsal, RehearsalHost
from tests.host.support import Done, klops, models
from tests.rehearsals import MakeRehearsal
from tests.waiting import until

pytestmark = pytest.mark.host

#: a unit that fails is told at once
POLICY = {"services": {SERVICE: {"restart": {"policy": "never"}}}}


@dataclass(frozen=True)
class Stand:
    """A rehearsal host that is up, and its engine."""

    rehearsal: Rehearsal
    host: RehearsalHost

    def words(
        self, command: str, *args: str, env: dict[str, str] | None = None, **container: Any
    ) -> list[str]:
        """The words of a klops command; ``container`` and ``env`` are laid over the container's settings."""
        settings = {**POLICY, "container": {**container, "env": env or {}}}
        extra = json.dumps({"klops": settings})
        where = ["-i", str(self.rehearsal.inventory), "-o", "json", "-e", extra]
        return [command, self.host.name, *args, *where]

    def on(self, command: str, *args: str, env: dict[str, str] | None = None, **container: Any) -> Done:
        """Run it."""
        return klops(*self.words(command, *args, env=env, **container))

    def docker(self, *args: str) -> str:
        assert self.rehearsal.engine is not None
        return self.rehearsal.engine.docker(*args)

    def inspect(self, name: str = "") -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.docker("inspect", name or self.host.container))[0]
        return found

    @property
    def names(self) -> list[str]:
        """Names of all containers of the host."""
        words = ("ps", "--all", "--format", "{{.Names}}", "--filter", f"name={self.host.container}")
        return sorted(self.docker(*words).split())

    @property
    def broken(self) -> dict[str, str]:
        """Environment with which the stand-in vllm crashes while it loads."""
        path = self.rehearsal.shared / "broken.json"
        path.write_text(json.dumps({"vllm": "crash-on-load"}), encoding="utf-8")
        return {"KLOPS_SIM_FAULTS": str(path)}

    def serves(self) -> bool:
        return models(self.host.port, self.host.api_key) == [SERVED_NAME]

    def serves_again(self) -> bool:
        """The same of one that may not have come so far."""
        try:
            return self.serves()
        except OSError:
            return False

    def left(self) -> list[str]:
        """What a recreation leaves on the host as long as it isn't over."""
        return [name for name in ("recreation.json", "kept.json") if (self.host.root / name).exists()]

    @contextmanager
    def running(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """A klops that is at work, in a session of its own."""
        with subprocess.Popen(
            [sys.executable, "-m", "klops", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture(scope="module")
def stand(make_rehearsal: MakeRehearsal) -> Stand:
    """A host whose service is ready, reached over ssh."""
    rehearsal = make_rehearsal(hosts=1, transports=["ssh"])
    found = Stand(rehearsal, rehearsal.hosts[0])
    done = found.on("up")
    assert done.rc == 0, done.stdout + done.stderr
    return found


def error(done: Done, stand: Stand) -> dict[str, str]:
    found: dict[str, str] = done.json["hosts"][stand.host.name]["error"]
    return found


# The tests of this module tell one story, in this order; each leaves the service ready.


def test_what_differs_is_named_and_nothing_is_changed(stand: Stand) -> None:
    before = stand.inspect()
    done = stand.on("up", env={"ADDED": "1"})
    assert done.rc == 0, done.stdout + done.stderr
    assert done.json["recap"][stand.host.name]["changed"] == 0
    assert done.json["remote_commands"][stand.host.name] <= 2, "what was lost is looked for with all the rest"
    drift = done.json["hosts"][stand.host.name]["container"]["drift"]
    assert drift == [{"key": "env.ADDED", "want": "1", "have": None}]
    assert f"klops up {stand.host.name} --recreate" in done.stderr
    assert stand.inspect()["State"] == before["State"]


def test_a_container_that_differs_is_made_anew_where_that_is_allowed(stand: Stand) -> None:
    before = stand.inspect()
    stand.docker("exec", stand.host.container, "sh", "-c", "echo kept >/var/written-inside")
    done = stand.on("up", "--recreate", env={"ADDED": "1"}, commit=True)
    assert done.rc == 0, done.stdout + done.stderr
    after = stand.inspect()
    assert after["Id"] != before["Id"]
    assert "ADDED=1" in after["Config"]["Env"]
    assert stand.names == [stand.host.container]
    assert stand.serves()
    assert stand.left() == []
    status = done.json["hosts"][stand.host.name]
    assert status["container"]["drift"] == []
    assert status["services"][SERVICE]["state"] == "ready"
    again = stand.on("up", "--recreate", env={"ADDED": "1"}, commit=True)
    assert again.json["recap"][stand.host.name]["changed"] == 0

    # the writable layer of the old one is an image, which is nobody's container
    repository = stand.rehearsal.image.partition(":")[0]
    image = f"{repository}:klops-before-{before['Id'][:12]}"
    config = json.loads(stand.docker("image", "inspect", image))[0]["Config"]
    assert not config["Labels"].get("io.klops.managed")
    # and can be looked into by hand: it starts no second launcher
    assert config["Cmd"] == ["/bin/sh"]
    run = ("run", "--rm", *(word for volume in volumes() for word in ("--volume", volume)), image)
    assert stand.docker(*run, "cat", "/var/written-inside").strip() == "kept"
    assert stand.docker(*run) == ""
    stand.docker("image", "rm", image)


def test_a_new_container_that_gets_not_ready_gives_way_to_the_old_one(stand: Stand) -> None:
    before = stand.inspect()
    done = stand.on("up", "--recreate", env={"ADDED": "2", **stand.broken})
    assert done.rc == 1, done.stdout + done.stderr
    told = error(done, stand)
    assert told["code"] == "recreate-failed"
    assert "crash-on-load" in told["message"]
    assert f"is back, and serves: {SERVICE}" in told["message"]
    after = stand.inspect()
    assert after["Id"] == before["Id"]
    assert after["State"]["Running"]
    assert after["HostConfig"]["RestartPolicy"]["Name"] == "always"
    assert stand.names == [stand.host.container]
    assert stand.serves()
    assert stand.left() == []


def test_an_interpreter_that_is_none_is_told_before_anything_is_touched(stand: Stand) -> None:
    before = stand.inspect()
    done = stand.on("up", "--recreate", env={"ADDED": "1"}, python="/bin/true")
    assert done.rc == 1
    assert error(done, stand)["code"] == "image-python"
    assert stand.inspect()["State"] == before["State"]
    assert stand.serves()


def new_one_runs(stand: Stand, old: str) -> Callable[[], bool]:
    """Whether another container than the old one runs under the name."""

    def look() -> bool:
        assert stand.rehearsal.engine is not None
        text = stand.rehearsal.engine.docker(
            "inspect", "--format", "{{.Id}} {{.State.Running}}", stand.host.container, check=False
        )
        return text.endswith(" true") and not text.startswith(old)

    return look


PLACES = {
    "recorded": lambda stand, old: (stand.host.root / "recreation.json").exists,
    "aside": lambda stand, old: lambda: f"{stand.host.container}.before-{old[:12]}" in stand.names,
    "new-one": new_one_runs,
}


def lose_a_run(stand: Stand, old: str, place: str, env: dict[str, str]) -> None:
    """Have a recreation killed at a place, and its lock broken."""
    with stand.running(*stand.words("up", "--recreate", env=env)) as process:
        until(PLACES[place](stand, old), what=place)
        process.kill()
    assert "recreation.json" in stand.left()
    broken = klops("lock", "break", stand.host.name, "-i", str(stand.rehearsal.inventory), "--yes")
    assert broken.rc == 0, broken.stderr


#: CI has time for one of them
_PLACES = [*(pytest.param(place, marks=pytest.mark.long) for place in ("recorded", "aside")), "new-one"]


@pytest.mark.parametrize("place", _PLACES)
def test_a_run_that_was_killed_is_completed_by_the_next(stand: Stand, place: str) -> None:
    before = stand.inspect()
    # each time another one than before
    env = {"ADDED": place}
    lose_a_run(stand, before["Id"], place, env)
    done = stand.on("up", "--recreate", env=env)
    assert done.rc == 0, done.stdout + done.stderr
    after = stand.inspect()
    assert after["Id"] != before["Id"]
    assert f"ADDED={place}" in after["Config"]["Env"]
    assert stand.names == [stand.host.container]
    assert stand.serves()
    assert stand.left() == []


@pytest.mark.parametrize("place", _PLACES)
def test_an_interrupt_puts_the_old_one_back(stand: Stand, place: str) -> None:
    before = stand.inspect()
    with stand.running(*stand.words("up", "--recreate", env={"ADDED": "no"})) as process:
        until(PLACES[place](stand, before["Id"]), what=place)
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert "is back, its services are starting" in out + err
    after = stand.inspect()
    assert after["Id"] == before["Id"]
    assert stand.names == [stand.host.container]
    assert stand.left() == []
    assert not (stand.host.root / "lock").exists()
    until(stand.serves_again, what="the old one serves again")


@pytest.mark.long
@pytest.mark.parametrize("place", ["aside", "new-one"])
def test_what_a_lost_run_left_is_put_in_order_before_all_else(stand: Stand, place: str) -> None:
    """No agent could be asked what has to serve, the new one doesn't, and the image of now is nowhere."""
    old = stand.inspect()["Id"]
    stand.docker("stop", stand.host.container)
    lose_a_run(stand, old, place, {"ADDED": "lost", **stand.broken})
    done = stand.on("up", image="no-such-image:1", pull="never")
    assert done.rc == 0, done.stdout + done.stderr
    assert "the old one is back" in done.stderr
    assert stand.inspect()["Id"] == old
    assert stand.names == [stand.host.container]
    assert stand.serves()
    assert stand.left() == []


@pytest.mark.long
def test_services_are_stopped_whatever_is_in_the_way_of_putting_things_in_order(stand: Stand) -> None:
    record = stand.host.root / "recreation.json"
    record.write_text("{}", encoding="utf-8")
    done = stand.on("down")
    assert done.rc == 1, done.stdout + done.stderr
    assert error(done, stand)["code"] == "damaged"
    assert not stand.serves_again()
    record.unlink()
    done = stand.on("up")
    assert done.rc == 0, done.stdout + done.stderr


def by_hand(stand: Stand) -> str:
    """A container like the one of klops, made by hand without klops' folder; its id."""
    made = stand.inspect()
    host, root = made["HostConfig"], str(stand.host.root)
    flags = [f"--device={d['PathOnHost']}:{d['PathInContainer']}" for d in host["Devices"]]
    flags += [f"--volume={bind}" for bind in host["Binds"] if not bind.startswith(f"{root}:")]
    flags += [
        f"--env={one}"
        for one in made["Config"]["Env"]
        if one.startswith(("PATH=", "PYTHONPATH=", "KLOPS_SIM_"))
    ]
    flags += ["--network=host", "--shm-size=1g", "--cap-add=SYS_PTRACE", "--security-opt=seccomp=unconfined"]
    # a shell at a terminal doesn't heed TERM
    flags += ["--stop-timeout=1"]
    removed = stand.on("down", "--remove", "--yes")
    assert removed.rc == 0, removed.stdout + removed.stderr
    return stand.docker(
        "run", "-itd", "--name", stand.host.container, *flags, stand.rehearsal.image, "/bin/bash"
    )


WORK = "/root/work.txt"


def adopted(stand: Stand) -> str:
    """Id of a container that klops has adopted, with a file of somebody's in it; made where there is none."""
    if (stand.host.root / "adopted.json").exists():
        found: str = stand.inspect()["Id"]
        return found
    made = by_hand(stand)
    stand.docker("exec", made, "sh", "-c", f"echo mine >{WORK}")
    done = stand.on("up", "--recreate")
    assert done.rc == 0, done.stdout + done.stderr
    assert done.json["hosts"][stand.host.name]["container"]["adopted"], "it fits, so nothing else is made"
    assert stand.inspect()["Id"] == made
    return made


@pytest.mark.long
def test_a_failed_recreation_leaves_what_was_written_in_an_adopted_container(stand: Stand) -> None:
    made = adopted(stand)
    failed = stand.on("up", "--recreate", env={"ADDED": "1", **stand.broken})
    assert failed.rc == 1, failed.stdout + failed.stderr
    assert f"is back, and serves: {SERVICE}" in error(failed, stand)["message"]
    assert stand.inspect()["Id"] == made
    assert stand.docker("exec", made, "cat", WORK) == "mine"
    assert stand.inspect()["HostConfig"]["RestartPolicy"]["Name"] == "no"
    assert stand.serves()
    assert stand.left() == []


@pytest.mark.long
def test_an_adopted_container_of_a_lost_run_is_put_back_with_what_was_written_in_it(stand: Stand) -> None:
    made = adopted(stand)
    lose_a_run(stand, made, "new-one", {"ADDED": "1"})
    done = stand.on("up")
    assert done.rc == 0, done.stdout + done.stderr
    assert done.json["hosts"][stand.host.name]["container"]["adopted"]
    assert stand.inspect()["Id"] == made
    assert stand.docker("exec", made, "cat", WORK) == "mine"
    assert stand.names == [stand.host.container]
    assert stand.serves()
    assert stand.left() == []


@pytest.mark.long
def test_an_adopted_container_that_another_took_the_place_of_is_kept(stand: Stand) -> None:
    made = adopted(stand)
    done = stand.on("up", "--recreate", env={"ADDED": "1"})
    assert done.rc == 0, done.stdout + done.stderr
    assert not done.json["hosts"][stand.host.name]["container"]["adopted"]
    aside = f"{stand.host.container}.before-{made[:12]}"
    assert stand.names == [stand.host.container, aside]
    assert f"is kept, stopped: {aside}" in done.stderr
    assert stand.inspect(aside)["State"]["Running"] is False
    copied = stand.host.directory / "work"
    stand.docker("cp", f"{aside}:{WORK}", str(copied))
    assert copied.read_text() == "mine\n"
    assert not (stand.host.root / "adopted.json").exists()
    assert stand.serves()
    assert stand.left() == []
