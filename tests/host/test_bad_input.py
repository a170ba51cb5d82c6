"""Wrong hosts, wrong settings, broken connections: a clear error with the fix, and nothing half-made."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from klops.sim.layout import SERVICE, Rehearsal, RehearsalHost
from tests.host.support import Done, klops, tree
from tests.rehearsals import MakeRehearsal

pytestmark = pytest.mark.host


class Bench:
    """A bare host whose inventory a test may bend, without touching the host's own."""

    def __init__(self, rehearsal: Rehearsal, directory: Path) -> None:
        self.rehearsal = rehearsal
        self.host: RehearsalHost = rehearsal.hosts[0]
        self.file = directory / "bent.yml"
        self.yaml = YAML(typ="safe", pure=True)
        self.content = self.yaml.load(rehearsal.inventory)

    @property
    def variables(self) -> dict[str, Any]:
        """The host's own variables."""
        found: dict[str, Any] = self.content["all"]["children"]["rehearsal"]["hosts"][self.host.name]
        return found

    @property
    def klops(self) -> dict[str, Any]:
        """Its settings."""
        found: dict[str, Any] = self.variables["klops"]
        return found

    def up(self, *args: str, env: dict[str, str] | None = None) -> Done:
        """klops up on it, as bent; the host must be left as it was."""
        with self.file.open("w") as out:
            self.yaml.dump(self.content, out)
        files = tree(self.host.directory)
        done = klops("up", self.host.name, "-i", str(self.file), "-o", "json", *args, env=env)
        assert tree(self.host.directory) == files
        assert self.containers() == []
        return done

    def containers(self) -> list[str]:
        """Names of this host's containers."""
        engine = self.rehearsal.engine
        assert engine is not None
        host = ["-H", engine.host] if engine.host else []
        argv = [
            "docker",
            *host,
            "ps",
            "-a",
            "--filter",
            f"name={self.host.container}",
            "--format",
            "{{.Names}}",
        ]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()

    def error(self, done: Done) -> dict[str, str]:
        """The host's error."""
        found: dict[str, str] = done.json["hosts"][self.host.name]["error"]
        assert found["hint"], found
        return found


@pytest.fixture(scope="module")
def rehearsal(make_rehearsal: MakeRehearsal) -> Rehearsal:
    return make_rehearsal(hosts=1, transports=["ssh"])


@pytest.fixture
def bench(rehearsal: Rehearsal, tmp_path: Path) -> Bench:
    return Bench(rehearsal, tmp_path)


@pytest.fixture
def without(bench: Bench) -> Iterator[Any]:
    """Take a node away, or put something else in its place; put it back afterwards."""
    undo = []

    def take(name: str, instead: str = "") -> None:
        node = bench.host.device_dir / name
        kept = node.with_name("kept-" + name)
        node.rename(kept)
        if instead:
            node.write_text(instead)
        undo.append((node, kept))

    yield take
    for node, kept in undo:
        node.unlink(missing_ok=True)
        kept.rename(node)


@pytest.mark.parametrize("node", ["xpu3", "xpuctrl"])
def test_a_missing_node(bench: Bench, without: Any, node: str) -> None:
    # with an automatic size the other cards would do
    hosts = bench.content["all"]["children"]["rehearsal"]["hosts"]
    hosts[bench.host.name]["klops"]["services"]["llm"]["tp"] = 8
    without(node)
    done = bench.up()
    assert done.rc == 1
    error = bench.error(done)
    assert error["code"] == "card-missing"
    assert node in error["message"]


@pytest.mark.parametrize("node", ["xpu3", "xpuctrl"])
def test_a_plain_file_in_place_of_a_node(bench: Bench, without: Any, node: str) -> None:
    without(node, instead="not a device\n")
    done = bench.up()
    assert done.rc == 1
    error = bench.error(done)
    assert error["code"] == "card-not-device"
    assert node in error["message"]


def test_an_absent_image(bench: Bench) -> None:
    bench.content["all"]["vars"]["klops"]["container"].update(image="no-such-image:at-all", pull="never")
    done = bench.up()
    assert done.rc == 1
    assert bench.error(done)["code"] == "image-missing"
    assert "no-such-image:at-all" in bench.error(done)["message"]


def test_a_model_path_that_does_not_exist_problem_e4(bench: Bench) -> None:
    bench.klops["services"][SERVICE]["model"] = "/models/Qwen3.8"
    done = bench.up()
    assert done.rc == 1
    error = bench.error(done)
    assert error["code"] == "model-missing"
    assert "/models/Qwen3.8" in error["message"]


def test_a_short_model_path_is_refused_before_anything_runs(bench: Bench) -> None:
    bench.klops["services"][SERVICE]["model"] = "models/Qwen3.8"
    done = bench.up()
    assert done.rc == 2
    assert str(bench.file) in done.stderr + done.stdout
    assert "E4" in done.stderr + done.stdout


def test_a_port_taken_by_a_stranger(bench: Bench) -> None:
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        port = stranger.getsockname()[1]
        bench.klops["services"][SERVICE]["port"] = port
        done = bench.up()
    assert done.rc == 1
    error = bench.error(done)
    assert error["code"] == "port-taken"
    assert str(port) in error["message"]
    assert str(os.getpid()) in error["message"]


def test_a_disk_that_is_too_small(bench: Bench, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(small)], check=True)
    try:
        bench.klops["root"] = str(small / "root")
        done = bench.up()
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", str(small)], check=True)
    assert done.rc == 1
    assert bench.error(done)["code"] == "disk-full"


def test_docker_that_is_not_there(bench: Bench, tmp_path: Path) -> None:
    bench.content["all"]["vars"]["klops"]["docker"] = {"host": f"unix://{tmp_path}/nobody.sock"}
    done = bench.up()
    assert done.rc == 1
    assert bench.error(done)["code"] == "docker-unavailable"


@pytest.mark.parametrize(
    ("where", "key", "value", "expected"),
    [
        ("container", "imgae", "x", "image"),
        ("cards", "expcted", 8, "expected"),
        ("services.llm", "prot", 8000, "port"),
        ("services.llm", "port", "eight thousand", "port"),
        ("cards", "use", "0-7", "list"),
    ],
)
def test_a_wrong_key_or_type_names_file_line_and_what_was_meant(
    bench: Bench, where: str, key: str, value: object, expected: str
) -> None:
    place = bench.klops
    for part in where.split("."):
        place = place[part]
    place[key] = value
    done = bench.up()
    assert done.rc == 2
    said = done.stdout + done.stderr
    written = bench.file.read_text().splitlines()
    line = next(n for n, text in enumerate(written, 1) if text.lstrip().startswith(f"{key}:"))
    assert f"{bench.file}:{line}:" in said
    assert expected in said


def test_an_unknown_host_names_the_nearest(bench: Bench) -> None:
    done = klops("up", "demo", "-i", str(bench.rehearsal.inventory), "-o", "json")
    assert done.rc == 2
    assert "demo1" in done.stdout + done.stderr
    assert klops("up", "-i", str(bench.rehearsal.inventory)).rc == 2


def test_an_unknown_host_key(bench: Bench, tmp_path: Path) -> None:
    bench.variables["ansible_ssh_common_args"] = f"-o UserKnownHostsFile={tmp_path / 'empty'}"
    done = bench.up()
    assert done.rc == 4
    error = bench.error(done)
    assert error["code"] == "host-key"
    assert "klops hosts trust" in error["hint"]


def test_a_changed_host_key(bench: Bench, tmp_path: Path) -> None:
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    algorithm, blob = other.with_suffix(".pub").read_text().split()[:2]
    address, port = bench.variables["ansible_host"], bench.variables["ansible_port"]
    changed = tmp_path / "known_hosts"
    changed.write_text(f"[{address}]:{port} {algorithm} {blob}\n")
    bench.variables["ansible_ssh_common_args"] = f"-o UserKnownHostsFile={changed}"
    done = bench.up()
    assert done.rc == 4
    error = bench.error(done)
    assert error["code"] == "host-key"
    assert "SHA256:" in error["message"] + error["hint"]


def test_a_host_that_is_down(bench: Bench) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        bench.variables["ansible_port"] = closed.getsockname()[1]
        done = bench.up()
    assert done.rc == 4
    assert bench.error(done)["code"] == "unreachable"


def test_a_key_that_the_host_refuses(bench: Bench, tmp_path: Path) -> None:
    other = tmp_path / "stranger"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    bench.variables["ansible_ssh_private_key_file"] = str(other)
    done = bench.up(env={"SSH_AUTH_SOCK": "", "HOME": str(tmp_path)})
    assert done.rc == 4
    assert bench.error(done)["code"] == "authentication-failed"
