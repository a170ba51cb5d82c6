from __future__ import annotations

import subprocess
from pathlib import Path

from klops.commands.drift import parse_links
from klops.remote.containerreads import DeviceLinksRead


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
