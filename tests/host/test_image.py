"""``klops.image`` on a real engine: loaded, pulled from a registry of our own, checked; what goes wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from klops.actions.base import Action, Context, Plan, Progress, Seen, View
from klops.actions.catalog import catalog
from klops.actions.own.image.arrival import Archive
from klops.actions.own.image.load import LoadImage
from klops.actions.own.image.pull import PullImage
from klops.actions.own.image.python import CheckPython
from klops.commands.containerspec import ContainerSpec
from klops.errors import Interrupted, KlopsError, TaskFailed
from klops.inventory.settings import Settings
from klops.remote.base import Remote
from klops.remote.become import Become
from klops.remote.local import LocalRemote
from klops.sim import engine, image
from tests.host.accounts import Account, sudo_rule
from tests.host.processes import running
from tests.host.registry import Picture, Registry
from tests.host.support import klops
from tests.rehearsals import missing
from tests.waiting import until

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A short one, for the engine's sockets."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    directory = Path(tempfile.mkdtemp(prefix="klops-", dir="/tmp"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def docker(folder: Path) -> Iterator[engine.Engine]:
    """An engine without images."""
    started = engine.start(folder / "engine")
    yield started
    assert started.process is not None
    started.process.end()
    engine.detach_mounts(folder)


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with Registry() as found:
        yield found


@dataclass
class Host:
    """This machine as a host with these settings of the container; what its steps say is kept."""

    docker: engine.Engine
    container: dict[str, Any]
    remote: Remote = field(default_factory=LocalRemote)
    progress: list[Progress] = field(default_factory=list)

    @property
    def settings(self) -> Settings:
        return Settings.model_validate(
            {"root": "/var/lib/klops", "docker": {"host": self.docker.host}, "container": self.container}
        )

    @property
    def ctx(self) -> Context:
        view = View(host="h", settings=self.settings, variables={}, render=str)
        return Context(self.remote, view, self.progress.append, lambda text: None)

    def plan(self) -> Plan:
        action: Action[Any] = catalog()["klops.image"]
        ctx, params = self.ctx, action.params()
        replies = self.remote.read(action.probe(params, ctx.view).reads)
        return action.plan(params, ctx.view, Seen(replies))

    def apply(self) -> dict[str, Any]:
        """Plan and apply; raises what either says."""
        plan = self.plan()
        if plan.failure is not None:
            raise plan.failure
        return catalog()["klops.image"].apply(plan, self.ctx)

    def fails(self) -> KlopsError:
        with pytest.raises(KlopsError) as raised:
            self.apply()
        return raised.value

    def id_of(self, name: str) -> str:
        return self.docker.docker("image", "inspect", "--format", "{{.Id}}", name, check=False)


def prefix(docker: engine.Engine) -> tuple[str, ...]:
    return ("docker", "-H", docker.host)


# -- archives --------------------------------------------------------------------------------------------


def test_an_archive_is_loaded_with_progress_and_once(docker: engine.Engine, folder: Path) -> None:
    picture = Picture("large", 150 * 1024**2)
    archive = picture.archive(folder / "large.tar", "vllm-kunlun:large")
    host = Host(docker, {"image": "vllm-kunlun:large", "image_archive": str(archive)})
    assert host.apply() == {"id": picture.id, "loaded": ["vllm-kunlun:large"], "changed": True}
    assert host.plan().steps == ()
    percents = [step.percent for step in host.progress if step.percent is not None]
    assert percents
    assert percents == sorted(percents)
    assert all(0 <= percent < 100 for percent in percents)
    assert "of 150.0 MiB" in host.progress[0].message
    archive.unlink()


def test_a_packed_archive(docker: engine.Engine, folder: Path) -> None:
    picture = Picture("packed")
    archive = picture.archive(folder / "packed.tar.gz", "vllm-kunlun:packed")
    host = Host(docker, {"image": "vllm-kunlun:packed", "image_archive": str(archive)})
    assert "gzip" in host.plan().steps[0].change().what
    assert host.apply()["id"] == picture.id


def test_what_docker_itself_saves(docker: engine.Engine, folder: Path) -> None:
    name, archive = image.make(docker, "saved"), folder / "saved.tar"
    host = Host(docker, {"image": name, "image_archive": str(archive)})
    made = host.id_of(name)
    docker.docker("save", "-o", str(archive), name)
    docker.docker("rmi", name)
    assert host.apply()["id"] == made


def test_an_archive_of_another_image_is_named(docker: engine.Engine, folder: Path) -> None:
    archive = Picture("other").archive(folder / "other.tar", "vllm-kunlun:other")
    error = Host(docker, {"image": "vllm-kunlun:wanted", "image_archive": str(archive)}).fails()
    assert error.code == "image-missing"
    assert "holds vllm-kunlun:other, not vllm-kunlun:wanted" in error.message
    assert "docker tag vllm-kunlun:other vllm-kunlun:wanted" in error.hint


@pytest.mark.parametrize("kind", ["cut", "text", "export"])
def test_what_is_no_archive_of_an_image(docker: engine.Engine, folder: Path, kind: str) -> None:
    file = folder / kind
    if kind == "text":
        file.write_text("not found\n" * 1000)
    elif kind == "export":
        file.write_bytes(Picture("export").layer)
    else:
        whole = Picture("cut", 3_000_000).archive(file, "vllm-kunlun:cut").read_bytes()
        file.write_bytes(whole[:1_000_000])
    host = Host(docker, {"image": f"vllm-kunlun:{kind}", "image_archive": str(file)})
    error = host.fails()
    assert error.code == "image-archive", error.message
    assert str(file) in error.message
    assert host.id_of(f"vllm-kunlun:{kind}") == ""


def test_an_archive_that_is_not_there(docker: engine.Engine, folder: Path) -> None:
    error = Host(docker, {"image": "vllm-kunlun:gone", "image_archive": str(folder / "gone.tar")}).fails()
    assert (error.code, "is not there" in error.message) == ("image-missing", True)


def test_too_little_room_is_told_before_and_when_it_runs_out(folder: Path) -> None:
    small = folder / "small"
    (small / "data").mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", small / "data"], check=True)
    try:
        started = engine.start(small)
        archive = Picture("too large", 30 * 1024**2).archive(folder / "room.tar", "vllm-kunlun:room")
        host = Host(started, {"image": "vllm-kunlun:room", "image_archive": str(archive)})
        plan = host.plan()
        assert plan.failure is not None
        assert plan.failure.code == "disk-full"
        assert "60.0 MiB are needed (2 x its size" in plan.failure.message
        with pytest.raises(TaskFailed, match="no space left on device") as raised:
            LoadImage(prefix(started), "vllm-kunlun:room", Archive(str(archive), 1)).carry_out(host.ctx)
        assert raised.value.code == "disk-full"
    finally:
        assert started.process is not None
        started.process.end()
        engine.detach_mounts(small)


@pytest.mark.parametrize("sudo", [False, True], ids=["direct", "sudo"])
def test_an_interrupt_ends_the_load(docker: engine.Engine, folder: Path, sudo: bool) -> None:
    pipe = folder / f"never-ends-{sudo}"
    os.mkfifo(pipe)
    folder.chmod(0o755)
    host = Host(docker, {"image": "vllm-kunlun:never"})
    load = (*prefix(docker), "load")
    with ExitStack() as stack:
        if sudo:
            # who may do nothing but this, and so can't signal it
            user = Account("image", "/bin/sh", folder / "home")
            stack.callback(user.remove)
            stack.enter_context(sudo_rule(f"{user.name} ALL=(root) NOPASSWD: {shutil.which('docker')}"))
            host.remote = LocalRemote(become=Become(True, user.name))
        start = ("sudo", "-n") if sudo else ()
        step = LoadImage((*start, *prefix(docker)), "vllm-kunlun:never", Archive(str(pipe), 1))
        outcome = interrupted(step, host, lambda: bool(running(*load)), keep=pipe)
    assert isinstance(outcome, Interrupted)
    assert outcome.message == f"loading {pipe} was interrupted"
    assert running(*load) == []
    with pytest.raises(OSError, match="No such device"):  # nobody reads it any more
        os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)


# -- registries ------------------------------------------------------------------------------------------


def test_a_missing_image_is_pulled_once(docker: engine.Engine, registry: Registry) -> None:
    name, picture = registry.name("once"), Picture("once")
    registry.tags["once"] = picture
    host = Host(docker, {"image": name})
    assert host.apply() == {"id": picture.id, "changed": True}
    assert host.progress[-1].message.startswith(f"pulling {name}: 1 of 1 layers there, 1 fetched")
    assert host.progress[-1].percent == 100
    assert host.plan().steps == ()


def test_a_moved_tag_is_followed_by_always_and_by_nothing_else(
    docker: engine.Engine, registry: Registry, folder: Path
) -> None:
    name, old, new = registry.name("moved"), Picture("old"), Picture("new")
    registry.tags["moved"] = old
    missing_ones = Host(docker, {"image": name, "pull": "missing"})
    missing_ones.apply()
    registry.tags["moved"] = new
    assert missing_ones.plan().steps == ()
    assert missing_ones.id_of(name) == old.id
    inventory = folder / "moved.json"
    settings = {"docker": {"host": docker.host}, "container": {"image": name, "pull": "always"}}
    variables = {"ansible_connection": "local", "klops": {"root": str(folder / "root"), **settings}}
    inventory.write_text(json.dumps({"all": {"hosts": {"h": variables}}}))
    book = folder / "moved.yml"
    book.write_text(json.dumps([{"hosts": "all", "tasks": [{"name": "image", "klops.image": {}}]}]))

    def status(*flags: str) -> str:
        done = klops("play", str(book), "-i", str(inventory), "-o", "json", *flags)
        assert done.rc == 0, done.stdout + done.stderr
        task = done.json["plays"][0]["tasks"][0]["hosts"]["h"]
        assert bool(task["changes"]) == (task["status"] in ("changed", "unknown")), task
        return str(task["status"])

    assert status("--check") == "unknown"
    assert missing_ones.id_of(name) == old.id
    fetched = registry.fetched
    assert status() == "changed"
    assert missing_ones.id_of(name) == new.id
    assert registry.fetched == fetched + 1
    assert status() == "ok"
    assert registry.fetched == fetched + 1


def test_what_a_registry_may_say(docker: engine.Engine, registry: Registry) -> None:
    assert Host(docker, {"image": registry.name("unknown")}).fails().code == "image-missing"
    registry.login = True
    try:
        error = Host(docker, {"image": registry.name("shut")}).fails()
    finally:
        registry.login = False
    assert error.code == "image-denied", error.message
    assert f"docker login {registry.name('shut').partition('/')[0]}" in error.hint
    with Registry() as closed:
        name = closed.name("closed")
    error = Host(docker, {"image": name}).fails()
    assert error.code == "registry-unreachable", error.message
    assert name in error.message


def test_an_interrupt_ends_the_pull(docker: engine.Engine, registry: Registry) -> None:
    registry.tags["slow"] = Picture("slow")
    registry.halfway.clear()
    registry.gate.clear()
    host = Host(docker, {"image": registry.name("slow")})
    try:
        step = PullImage(prefix(docker), registry.name("slow"))
        outcome = interrupted(step, host, registry.halfway.is_set)
    finally:
        registry.gate.set()
    assert isinstance(outcome, Interrupted)
    assert running(*prefix(docker), "pull", registry.name("slow")) == []
    assert host.id_of(registry.name("slow")) == ""
    assert host.apply()["changed"]


# -- the interpreter -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def interpreters(folder: Path) -> Path:
    """Programs that stand for an image's Python, and one real one without psutil."""
    place = folder / "interpreters"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place / "bare"], check=True)
    scripts = {
        "old": 'echo \'klops-python {"version": [3, 6, 9], "psutil": "5.9", "why": ""}\'',
        "two": "echo 'Unknown option: -I' >&2; exit 2",
        "other": "echo hello",
        "hangs": "sleep 1000",
    }
    for name, text in scripts.items():
        (place / name).write_text(f"#!/bin/sh\n{text}\n")
        (place / name).chmod(0o755)
    return place


def check(docker: engine.Engine, folder: Path, python: str) -> CheckPython:
    """The check of a container whose image has the machine's own userland."""
    name = image.make(docker, "interpreters")
    volumes = tuple(image.volumes([str(folder)]))
    return CheckPython(prefix(docker), ContainerSpec("klops-i", name, (python, "-I"), volumes=volumes))


def test_an_interpreter_with_psutil_passes_and_nothing_stays(
    docker: engine.Engine, interpreters: Path
) -> None:
    check(docker, interpreters, sys.executable).carry_out(Host(docker, {}).ctx)
    assert docker.docker("ps", "--all", "--quiet") == ""


@pytest.mark.parametrize(
    ("program", "code", "message"),
    [
        ("old", "image-python", "is Python 3.6.9, and 3.8 or newer is needed"),
        ("two", "image-python", "is no Python 3: Unknown option: -I"),
        ("other", "image-python", "is no Python 3: hello"),
        ("gone", "image-python", "has no "),
        ("bare/bin/python", "image-psutil", "has no psutil, so it isn't the one vLLM runs with"),
    ],
)
def test_interpreters_that_will_not_do(
    docker: engine.Engine, interpreters: Path, program: str, code: str, message: str
) -> None:
    path = f"{interpreters}/{program}"
    with pytest.raises(TaskFailed) as raised:
        check(docker, interpreters, path).carry_out(Host(docker, {}).ctx)
    assert raised.value.code == code, raised.value.message
    assert message in raised.value.message
    assert path in raised.value.message
    assert docker.docker("ps", "--all", "--quiet") == ""


def test_an_interrupted_check_leaves_no_container(docker: engine.Engine, interpreters: Path) -> None:
    step = check(docker, interpreters, f"{interpreters}/hangs")
    outcome = interrupted(step, Host(docker, {}), lambda: bool(docker.docker("ps", "--quiet")))
    assert isinstance(outcome, Interrupted)
    until(lambda: docker.docker("ps", "--all", "--quiet") == "", what="the helper is gone")


def interrupted(step: Any, host: Host, at: Any, *, keep: Path | None = None) -> BaseException | None:
    """What a step raises that is interrupted once ``at`` holds; ``keep`` is a pipe held open meanwhile."""
    outcome: list[BaseException] = []

    def work() -> None:
        try:
            step.carry_out(host.ctx)
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=work)
    held = os.open(keep, os.O_RDWR) if keep is not None else None
    thread.start()
    try:
        until(at, what="the step is at work")
        host.remote.close()
        thread.join(30)
        assert not thread.is_alive()
    finally:
        if held is not None:
            os.close(held)
    return outcome[0] if outcome else None
