from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from klops.commands import docker
from klops.commands.containerspec import MANAGED_LABEL, ContainerSpec, size_in_bytes

SPEC = ContainerSpec(
    name="klops",
    image="vllm:1",
    command=("python3", "/k/agent/current", "hold", "--root", "/k"),
    devices=(("/dev/xpu2", "/dev/xpu2"), ("/dev/xpuctrl", "/dev/xpuctrl")),
    volumes=("/k:/k", "/data/models:/models:ro"),
    env=(("A", "1 2"), ("B", "")),
    shm=32 * 1024**3,
    caps=("SYS_PTRACE",),
    security=("seccomp=unconfined",),
    ulimits=(("memlock", "-1"),),
    runtime="xpu",
    stop_timeout=90,
)


def inspected() -> dict[str, Any]:
    return {
        "Id": "abc",
        "Name": "/klops",
        "State": {"Status": "exited", "ExitCode": 137, "Error": "boom"},
        "Config": {
            "Image": "vllm:1",
            "Entrypoint": ["python3"],
            "Cmd": ["/k/agent/current", "hold", "--root", "/k"],
            "Env": ["B=", "PATH=/bin", "A=1 2"],
            "Labels": {"io.klops.managed": "1"},
            "StopTimeout": 90,
        },
    }


def test_prefix() -> None:
    assert docker.prefix() == ("docker",)
    assert docker.prefix("unix:///x", sudo=True) == ("sudo", "-n", "docker", "-H", "unix:///x")


def test_create_names_every_card_and_pulls_nothing() -> None:
    argv = list(docker.create(("docker",), SPEC))
    assert argv[:4] == ["docker", "create", "--pull", "never"]
    assert argv[-5:] == ["vllm:1", "/k/agent/current", "hold", "--root", "/k"]
    assert argv[argv.index("--entrypoint") + 1] == "python3"
    pairs = list(pairwise(argv))
    for pair in (
        ("--name", "klops"),
        ("--network", "host"),
        ("--restart", "always"),
        ("--device", "/dev/xpu2:/dev/xpu2"),
        ("--device", "/dev/xpuctrl:/dev/xpuctrl"),
        ("--shm-size", str(32 * 1024**3)),
        ("--cap-add", "SYS_PTRACE"),
        ("--security-opt", "seccomp=unconfined"),
        ("--volume", "/data/models:/models:ro"),
        ("--env", "A=1 2"),
        ("--ulimit", "memlock=-1"),
        ("--runtime", "xpu"),
        ("--stop-timeout", "90"),
        ("--log-opt", "max-size=10m"),
        ("--label", "io.klops.managed=1"),
        ("--label", f"io.klops.spec={SPEC.digest}"),
    ):
        assert pair in pairs
    assert "--init" in argv
    assert "--privileged" not in argv


@pytest.mark.parametrize(
    ("labels", "options", "made"),
    [
        ({MANAGED_LABEL: "1"}, {"labels": MANAGED_LABEL, "max-file": "3"}, True),
        # of an image that was committed by hand from a container of klops: it holds somebody's own work
        ({MANAGED_LABEL: "1"}, {}, False),
        ({MANAGED_LABEL: "1"}, None, False),
        ({MANAGED_LABEL: ""}, {"labels": MANAGED_LABEL}, False),
        ({}, {"labels": MANAGED_LABEL}, False),
    ],
)
def test_a_container_is_ours_by_what_no_image_hands_down(
    labels: dict[str, str], options: dict[str, str] | None, made: bool
) -> None:
    raw = {"Id": "1", "Config": {"Labels": labels}, "HostConfig": {"LogConfig": {"Config": options}}}
    container = docker.parse_inspect(json.dumps([raw]), "1")
    assert container is not None
    assert container.made is made
    argv = docker.create(("docker",), SPEC)
    assert f"labels={MANAGED_LABEL}" in argv


def test_digest_is_over_content_not_order_or_name() -> None:
    same = replace(SPEC, name="other", devices=SPEC.devices[::-1], env=SPEC.env[::-1])
    assert same.digest == SPEC.digest
    assert replace(SPEC, shm=1).digest != SPEC.digest
    assert replace(SPEC, command=(*SPEC.command, "x")).digest != SPEC.digest


def test_digests_of_lists_are_over_what_was_asked_for() -> None:
    def changed(**values: Any) -> set[str]:
        lists = replace(SPEC, **values).lists
        return {key for key, digest in lists.items() if digest != SPEC.lists[key]}

    assert changed(name="other", image="vllm:2", shm=1, devices=SPEC.devices[::-1]) == set()
    assert changed(env=(("A", "another value"), ("B", "")), ulimits=(("memlock", "64"),)) == set()
    assert changed(env=(("A", "1 2"),), ulimits=()) == {"env", "ulimits"}
    assert changed(runtime=None, volumes=(), caps=(), security=(), devices=()) == {
        "runtime",
        "volumes",
        "caps",
        "security",
        "devices",
    }


@pytest.mark.parametrize(
    ("text", "size"),
    [("32g", 32 * 1024**3), ("64M", 64 * 1024**2), ("1024", 1024), ("1.5GiB", 1610612736), ("8kb", 8192)],
)
def test_sizes(text: str, size: int) -> None:
    assert size_in_bytes(text) == size


def test_no_size() -> None:
    with pytest.raises(ValueError, match="not a size"):
        size_in_bytes("many")


def test_inspect_is_read() -> None:
    found = docker.parse_inspect("Warning: noise\n" + json.dumps([inspected()]), "klops")
    assert found is not None
    assert (found.id, found.name, found.state, found.exit_code, found.error) == (
        "abc",
        "klops",
        "exited",
        137,
        "boom",
    )
    assert docker.parse_inspect("", "klops") is None
    assert docker.parse_inspect("[]\n", "klops") is None


def test_a_container_whose_id_begins_like_the_name_is_another_one() -> None:
    shown = json.dumps([inspected()])
    assert docker.parse_inspect(shown, "ab") is None
    assert docker.parse_inspect(shown, "abc") is not None  # the whole id
    assert docker.no_such_container("Error response from daemon: Multiple IDs found with provided prefix: 2")


@pytest.mark.parametrize(
    ("rc", "out", "err", "kind"),
    [
        (0, '{"Client": {}, "Server": {"Version": "24"}}', "", None),
        (0, 'motd\n{"Client": {}, "Server": {"Version": "24"}}', "", None),
        (0, '{"Client": {}, "Server": null}', "Cannot connect to the Docker daemon", "down"),
        (1, "", "Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", "down"),
        (1, "", "error during connect: dial unix /x.sock: connect: no such file or directory", "down"),
        (1, '{"Client": {}, "Server": null}', "permission denied while trying to connect", "denied"),
        (127, "", "sh: 1: docker: not found", "missing"),
        (1, "", "sudo: docker: command not found", "missing"),
        (255, "", "", "down"),
    ],
)
def test_engine_problem(rc: int, out: str, err: str, kind: str | None) -> None:
    problem = docker.engine_problem(rc, out, err)
    assert (problem.kind if problem else None) == kind


@pytest.mark.parametrize(
    "err",
    ["sudo: a password is required", "u is not in the sudoers file.", "Sorry, user u may not run docker"],
)
def test_sudo_that_refuses(err: str) -> None:
    problem = docker.engine_problem(1, "", err, sudo=True)
    assert problem is not None
    assert problem.kind == "denied"


def test_no_such_container_in_the_words_of_several_versions() -> None:
    assert docker.no_such_container("Error: No such container: klops")
    assert docker.no_such_container("Error response from daemon: No such container: klops")
    assert docker.no_such_container("[]\nError: No such object: klops")
    assert not docker.no_such_container("Cannot connect to the Docker daemon")
