"""Which containers have their shared memory or their /tmp to themselves, as a real engine tells it."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator

import pytest

from klops.commands import reapcalls
from tests.host.engine import Box, start_box

pytestmark = pytest.mark.host

IPC, TMP = "--shared-ipc", "--shared-tmp"


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """An engine with a container that runs."""
    with start_box() as found:
        yield found


@pytest.mark.parametrize(
    ("options", "shared"),
    [
        ((), []),
        (("--ipc", "host"), [IPC]),
        (("--ipc", "container:klops-box"), [IPC]),
        (("--volume", "/dev/shm:/dev/shm"), [IPC]),
        (("--volume", "a-volume:/dev/shm/"), [IPC]),
        (("--volume", "/dev:/dev:ro"), [IPC]),
        (("--volume", "/tmp:/tmp"), [TMP]),
        (("--volumes-from", "klops-sharer"), [IPC, TMP]),
        (("--ipc", "host", "--mount", "type=bind,src=/tmp,dst=/tmp"), [IPC, TMP]),
        # what nobody else has, though it is mounted
        (("--mount", "type=tmpfs,dst=/dev/shm", "--tmpfs", "/tmp"), []),
        (("--tmpfs", "/dev/shm:size=1m", "--mount", "type=tmpfs,dst=/tmp"), []),
        # and what has nothing to do with it
        (("--volume", "/tmp:/data/tmp", "--volume", "/dev/shm:/data"), []),
    ],
    ids=lambda value: " ".join(value) or "none",
)
def test_who_else_has_its_memory_is_told_by_namespace_and_mounts(
    box: Box, options: tuple[str, ...], shared: list[str]
) -> None:
    docker = box.engine.docker
    sharer = ["--name", "klops-sharer", "--volume", "/dev/shm:/dev/shm", "--volume", "/tmp:/tmp"]
    made = [docker("create", *sharer, box.image, "true").strip()]
    try:
        made.append(docker("create", *options, box.image, "true").strip())
        ask = shlex.join((*box.docker, "inspect", "--format", reapcalls.IPC, made[-1]))
        script = f"{reapcalls.SHARING}\nread -r ipc <<E\n$({ask})\nE\nsharing; echo $shared"
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    finally:
        docker("rm", "--volumes", *made)
    assert (done.stdout.split(), done.stderr) == (shared, "")
