from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from klops.commands import docker
from klops.commands.containerspec import ContainerSpec, size_in_bytes
from klops.commands.drift import drift

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


def inspected(**host: Any) -> dict[str, Any]:
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
        "HostConfig": {
            "Devices": [
                {"PathOnHost": "/dev/xpuctrl", "PathInContainer": "/dev/xpuctrl"},
                {"PathOnHost": "/dev/xpu2", "PathInContainer": "/dev/xpu2"},
            ],
            "Binds": ["/data/models/:/models:ro", "/k:/k:rw"],
            "ShmSize": 32 * 1024**3,
            "CapAdd": ["CAP_SYS_PTRACE"],
            "SecurityOpt": ["seccomp:unconfined"],
            "Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}],
            "Runtime": "xpu",
            "NetworkMode": "host",
            "RestartPolicy": {"Name": "always"},
            "Init": True,
            **host,
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


def test_digest_is_over_content_not_order_or_name() -> None:
    same = replace(SPEC, name="other", devices=SPEC.devices[::-1], env=SPEC.env[::-1])
    assert same.digest == SPEC.digest
    assert replace(SPEC, shm=1).digest != SPEC.digest
    assert replace(SPEC, command=(*SPEC.command, "x")).digest != SPEC.digest


def test_no_drift_in_another_spelling() -> None:
    assert drift(SPEC, inspected()) == []


@pytest.mark.parametrize(
    ("host", "key"),
    [
        ({"Devices": []}, "devices"),
        ({"Devices": None}, "devices"),
        ({"Binds": ["/k:/k"]}, "volumes"),
        ({"Binds": ["/k:/k", "/data/models:/models"]}, "volumes"),
        ({"ShmSize": 67108864}, "shm"),
        ({"CapAdd": None}, "caps"),
        ({"SecurityOpt": None}, "security"),
        ({"Ulimits": None}, "ulimits"),
        ({"Runtime": "runc"}, "runtime"),
        ({"NetworkMode": "bridge"}, "network"),
        ({"RestartPolicy": {"Name": "unless-stopped"}}, "restart"),
        ({"Init": None}, "init"),
    ],
)
def test_drift_names_its_key(host: dict[str, Any], key: str) -> None:
    assert [item.key for item in drift(SPEC, inspected(**host))] == [key]


def test_drift_of_the_configuration() -> None:
    have = inspected()
    have["Config"].update(
        {"Image": "vllm:2", "Env": ["A=2"], "StopTimeout": None, "Cmd": ["bash"], "Entrypoint": None}
    )
    found = {item.key: (item.want, item.have) for item in drift(SPEC, have)}
    assert found["image"] == ("vllm:1", "vllm:2")
    assert found["env.A"] == ("1 2", "2")
    assert found["env.B"] == ("", None)
    assert found["stop_timeout"] == (90, None)
    assert found["command"][1] == ["bash"]


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
    found = docker.parse_inspect("Warning: noise\n" + json.dumps([inspected()]))
    assert found is not None
    assert (found.id, found.name, found.state, found.exit_code, found.error) == (
        "abc",
        "klops",
        "exited",
        137,
        "boom",
    )
    assert docker.parse_inspect("") is None
    assert docker.parse_inspect("[]\n") is None


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
