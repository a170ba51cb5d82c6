from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from klops.commands.drift import parse_links
from klops.commands.reaping import Place
from klops.remote.containerreads import AgentRead, DeviceLinksRead, ReapRead


def test_links_of_devices_and_of_nodes(tmp_path: Path) -> None:
    """A docker that knows one device by a link with a space, one by its node, and one that is gone."""
    node, other, link = tmp_path / "xpu3", tmp_path / "xpu4", tmp_path / "by path"
    node.touch()
    other.touch()
    link.symlink_to(node)
    (tmp_path / "cards").symlink_to(tmp_path)
    docker = tmp_path / "docker"
    docker.write_text(f"#!/bin/sh\nprintf '%s\\n' '{link}' '{other}' '{tmp_path}/gone'\n")
    docker.chmod(0o755)
    wanted = tuple(f"{tmp_path}/cards/{name}" for name in ("xpu3", "xpu4", "xpu5"))
    read = DeviceLinksRead("links", (str(docker),), "klops", (*wanted, str(other)))
    done = subprocess.run(["sh", "-c", read.script], capture_output=True, text=True, timeout=30, check=True)
    assert sorted(done.stdout.splitlines()) == [
        f"{link}\t{node}",
        f"{wanted[0]}\t{node}",
        f"{wanted[1]}\t{other}",
        f"{tmp_path}/gone\t",
        f"{other}\t{other}",
    ]
    assert parse_links(done.stdout) == {
        str(link): str(node),
        str(other): str(other),
        wanted[0]: str(node),
        wanted[1]: str(other),
    }


def test_no_links_without_a_container(tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\nexit 7\n")
    docker.chmod(0o755)
    read = DeviceLinksRead("links", (str(docker),), "klops", ("/dev/null",))
    done = subprocess.run(["sh", "-c", read.script], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (7, "")


@pytest.mark.parametrize("whole", [True, False])
def test_a_look_at_what_was_left_behind_ends_and_writes_nothing(whole: bool) -> None:
    place = Place(("docker", "-H", "unix:///d.sock"), "klops", "python3", "/k", "/dev", image="vllm:1")
    read = ReapRead("reap", place, ("--grace", "0"), whole=whole, named=("--include", "7:8"))
    calls = [line for line in read.script.splitlines() if " reap " in line]
    assert calls
    assert all(line.count(" reap --check ") == line.count(" reap ") for line in calls)
    assert "/k:/k " not in read.script, "the root is mounted to be read only"
    assert read.engine == place.docker
    assert read.looks == ()


def test_the_verb_that_cleans_up_is_no_read() -> None:
    with pytest.raises(ValueError, match="not a read"):
        AgentRead("x", ("docker",), "klops", "python3", "/k/agent/current", "reap")
