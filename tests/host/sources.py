"""A rehearsal host that gets a source tree: a repository here, and a Python in its container that can be
written to.

Its ``vllm`` imports ``vllm_kunlun`` before it serves, as a plugin is: a release that is broken doesn't serve.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from ruamel.yaml import YAML

from klops.sim.layout import PATH, SERVED_NAME, SERVICE, Rehearsal, RehearsalHost
from klops.source.cache import VARIABLE as CACHE
from tests.host.proxy import Proxy
from tests.host.support import Done, klops, models
from tests.rehearsals import MakeRehearsal
from tests.unit.agent.packages import wheels
from tests.unit.source.repos import WHEN, Repo, init

#: Where the environment is in the container, and what is to be patched and synced there.
VENV = "/opt/vllm_kunlun"
PYTHON = f"{VENV}/bin/python"
PACKAGE = "vllm_kunlun"
SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
#: What the image has of it.
INSTALLED = {f"{PACKAGE}/__init__.py": "VERSION = 'image'\n", f"{PACKAGE}/ops/__init__.py": "FAST = False\n"}
#: A unit that is quick to start, and soon given up.
_SERVICE: dict[str, Any] = {
    "tp": 2,
    "cards": [0, 1],
    "start_timeout": 30,
    "stop_timeout": 3,
    "restart": {"delay": 0.1, "max_delay": 0.1, "limit": 1},
    "env": {"KLOPS_SIM_LOAD_SECONDS": "0.2"},
}
_VLLM = """#!{python}
import os, sys
import vllm_kunlun
print("plugin", vllm_kunlun.VERSION, vllm_kunlun.__file__, flush=True)
os.execv({vllm!r}, [{vllm!r}, *sys.argv[1:]])
"""
_ONLY_A_CONTAINER = """
- hosts: all
  tasks:
    - klops.agent: {}
    - klops.container: {state: present}
"""
#: What a release of these tests has, by path.
Files = Mapping["str | bytes", bytes]


@dataclass
class Ground:
    """One host, its repository, and a folder for what the tests make on this machine."""

    rehearsal: Rehearsal
    host: RehearsalHost
    repo: Repo
    folder: Path

    @property
    def venv(self) -> Path:
        """On this machine, what is VENV in the container; of one that has it in its image, as it was."""
        return self.rehearsal.directory / "venv"

    @property
    def site(self) -> Path:
        """Its site-packages."""
        return self.venv / SITE

    @property
    def releases(self) -> Path:
        """All releases of the host."""
        return self.host.root / "releases"

    @property
    def current(self) -> Path:
        """The folder of the current release."""
        return (self.releases / "current").resolve(strict=True)

    # -- settings and commands

    def settings(self, changes: Mapping[str, Any]) -> None:
        """Merge into ``klops:`` of the host; None takes a setting away, anything but a mapping replaces."""
        yaml = YAML(typ="safe")
        everything = yaml.load(self.rehearsal.inventory)
        _merge(everything["all"]["children"]["rehearsal"]["hosts"][self.host.name]["klops"], changes)
        yaml.dump(everything, self.rehearsal.inventory)

    def run(self, *words: str, rc: int = 0, inventory: Path | None = None) -> Done:
        """A klops command on the host, which has to end with ``rc``."""
        verb, *options = words
        path = str(inventory or self.rehearsal.inventory)
        done = klops(verb, self.host.name, "-i", path, "-o", "json", *options)
        assert done.rc == rc, f"{words}: {done.rc}\n{done.stdout}\n{done.stderr}"
        return done

    def object(self, *words: str, rc: int = 0, inventory: Path | None = None) -> dict[str, Any]:
        """The host's object of what such a command says."""
        found: dict[str, Any] = self.run(*words, rc=rc, inventory=inventory).json["hosts"][self.host.name]
        return found

    def sync(self, *words: str, inventory: Path | None = None) -> dict[str, Any]:
        """``klops sync`` that goes well."""
        return self.object("sync", *words, inventory=inventory)

    def fails(self, *words: str, inventory: Path | None = None, rc: int = 1) -> dict[str, Any]:
        """The error that a command ends with."""
        error: dict[str, Any] = self.object(*words, rc=rc, inventory=inventory)["error"]
        return error

    def container(self) -> None:
        """Have the container running, and nothing in it."""
        play = self.rehearsal.directory / "container.yml"
        play.write_text(_ONLY_A_CONTAINER, encoding="ascii")
        done = klops("play", str(play), "-i", str(self.rehearsal.inventory))
        assert done.rc == 0, done.stdout + done.stderr

    def python(self, code: str) -> str:
        """What a program prints that the container's Python runs."""
        assert self.rehearsal.engine is not None
        argv = ["exec", "--workdir", "/", self.host.container, PYTHON, "-B", "-c", code]
        return self.rehearsal.engine.docker(*argv)

    def inside(self, *argv: str) -> str:
        """What a program prints in the container."""
        assert self.rehearsal.engine is not None
        return self.rehearsal.engine.docker("exec", self.host.container, *argv)

    # -- looking

    def shipped(self, tree: Path | None = None) -> dict[bytes, tuple[str, bytes]]:
        """Kind and content of all that a release (the current one) has: file, program or link."""
        return found_in(tree or self.current)

    def litter(self) -> list[str]:
        """What no run may leave: half-arrived, half-built, half-removed, written beside."""
        whole = {path.stem for path in self.releases.glob("*.json")}
        return sorted(
            str(path.relative_to(self.releases))
            for path in (*self.releases.iterdir(), *self.releases.glob(".[bit]*/*"))
            if path.parent != self.releases
            or path.name.endswith(".new")
            or (path.is_dir() and not path.name.startswith(".") and path.name not in {*whole, "current"})
        )

    def answers(self) -> bool:
        """Whether the service answers with the key."""
        try:
            return models(self.host.port, self.host.api_key) == [SERVED_NAME]
        except OSError:
            return False

    def status(self) -> dict[str, Any]:
        """Of the service."""
        found: dict[str, Any] = self.object("status")["services"][SERVICE]
        return found


@contextmanager
def ground(
    make_rehearsal: MakeRehearsal,
    folder: Path,
    *,
    transport: str = "local",
    service: bool = False,
    layer: bool = False,
) -> Iterator[Ground]:
    """A host, its container not made yet, and an empty repository. ``folder``: for both sides of it.

    ``layer``: the environment is in a layer of the image, and not a volume.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _environment(folder).items():
            patch.setenv(name, value)
        rehearsal = make_rehearsal(transports=[transport])
        made = Ground(rehearsal, rehearsal.hosts[0], init(folder / "repo"), folder)
        _make_venv(made)
        container: dict[str, Any] = {"python": PYTHON, "env": {"UV_CACHE_DIR": "/tmp/uv"}}
        container["env"]["PATH"] = f"{VENV}/bin:{rehearsal.shared}/bin:{PATH}"
        if layer:
            container["image"] = _image(made)
        else:
            container["volumes"] = [*_volumes(made), f"{made.venv}:{VENV}:rw"]
        made.settings(
            {
                "container": container,
                "source": {"repo": str(made.repo.folder)},
                "services": {SERVICE: _SERVICE if service else None},
            }
        )
        yield made


@contextmanager
def through(ground: Ground, proxy: Proxy) -> Iterator[Path]:
    """An inventory that reaches the host by way of a proxy before its sshd."""
    ssh, host = ground.rehearsal.ssh, ground.host
    assert ssh is not None
    yaml = YAML(typ="safe", pure=True)
    content = yaml.load(ground.rehearsal.inventory)
    variables = content["all"]["children"]["rehearsal"]["hosts"][host.name]
    known = ground.folder / "known_hosts"
    text = ssh.known_hosts.read_text().replace(f":{ssh.port} ", f":{proxy.port} ")
    known.write_text(text.replace(f"[{host.address}]", "[127.0.0.1]"))
    variables["ansible_host"], variables["ansible_port"] = "127.0.0.1", proxy.port
    variables["ansible_ssh_common_args"] = f"-o UserKnownHostsFile={known}"
    inventory = ground.folder / "through.yml"
    with inventory.open("w") as out:
        yaml.dump(content, out)
    yield inventory


@contextmanager
def asked_all_the_time(ground: Ground) -> Iterator[Callable[[], tuple[int, int]]]:
    """While this lasts the service is asked all the time; gives how many answers came, and how many not."""
    counts = {True: 0, False: 0}
    over = threading.Event()

    def ask() -> None:
        while not over.wait(0.02):
            counts[ground.answers()] += 1

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield lambda: (counts[True], counts[False])
    finally:
        over.set()
        thread.join()


def found_in(tree: Path) -> dict[bytes, tuple[str, bytes]]:
    """Kind and content of all below a folder, by path: file, program or link."""
    found = {}
    for path in tree.rglob("*"):
        if "__pycache__" in path.parts:
            continue
        inside = os.fsencode(path.relative_to(tree))
        if path.is_symlink():
            found[inside] = ("link", os.fsencode(path.readlink()))
        elif path.is_file():
            mode = path.stat().st_mode & 0o7777
            found[inside] = ({0o444: "file", 0o555: "program"}.get(mode, oct(mode)), path.read_bytes())
    return found


def package(version: str, *, more: str = "", **files: str) -> dict[str | bytes, bytes]:
    """The package at a version; ``more`` is what its import does besides; ``files``: further modules."""
    init_py = f"VERSION = {version!r}\n{more}"
    made: dict[str | bytes, bytes] = {
        f"{PACKAGE}/__init__.py": init_py.encode(),
        f"{PACKAGE}/ops/__init__.py": b"FAST = True\n",
    }
    return {**made, **{f"{PACKAGE}/{name}.py": text.encode() for name, text in files.items()}}


def put(site: Path, name: str, version: str, files: Mapping[str, str]) -> None:
    """Install a distribution, without an installer."""
    for path, data in wheels.contents(name, version, files).items():
        place = site / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def _environment(folder: Path) -> dict[str, str]:
    """No configuration of whoever runs the tests, and what looks keep is kept here."""
    (folder / "gitconfig").touch()
    found = {"GIT_CONFIG_GLOBAL": str(folder / "gitconfig"), "GIT_CONFIG_NOSYSTEM": "1"}
    found[CACHE] = str(folder / "kept")
    for who in ("AUTHOR", "COMMITTER"):
        found[f"GIT_{who}_NAME"], found[f"GIT_{who}_EMAIL"] = "Li Lei", "lilei@example.com"
        found[f"GIT_{who}_DATE"] = WHEN
    return found


def _make_venv(ground: Ground) -> None:
    """With psutil, uv, the package, and the program that imports it."""
    venv, site = ground.venv, ground.site
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    shutil.copytree(Path(psutil.__file__).parent, site / "psutil")
    (venv / "bin/uv").symlink_to(Path(sys.executable).parent / "uv")
    put(site, PACKAGE, "0.1", INSTALLED)
    program = venv / "bin/vllm"
    program.write_text(_VLLM.format(python=PYTHON, vllm=str(ground.rehearsal.shared / "bin/vllm")))
    program.chmod(0o755)


def _volumes(ground: Ground) -> Sequence[str]:
    everything = YAML(typ="safe").load(ground.rehearsal.inventory)
    hosts = everything["all"]["children"]["rehearsal"]["hosts"]
    found: Sequence[str] = hosts[ground.host.name]["klops"]["container"]["volumes"]
    return found


def _image(ground: Ground) -> str:
    """The rehearsal's image with the environment in one more layer; it goes with the engine."""
    rehearsal = ground.rehearsal
    assert rehearsal.engine is not None
    name = f"{rehearsal.image.partition(':')[0]}:venv-{rehearsal.id}"
    docker = rehearsal.engine.docker
    made = docker("create", rehearsal.image, "none")
    try:
        docker("cp", f"{ground.venv}/.", f"{made}:{VENV}")
        docker("commit", made, name)
    finally:
        docker("rm", made)
    return name


def _merge(into: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for key, value in changes.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, Mapping):
            below = into.setdefault(key, {})
            _merge(below, value)
        else:
            into[key] = json.loads(json.dumps(value))
