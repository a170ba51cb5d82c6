from __future__ import annotations

import pytest

from klops.commands import images
from klops.commands.containerspec import ContainerSpec

# what docker pull writes to what is no terminal
PULL = """\
7: Pulling from team/vllm
2d473b07cdd5: Pulling fs layer
aaaaaaaaaaaa: Pulling fs layer
bbbbbbbbbbbb: Already exists
aaaaaaaaaaaa: Waiting
2d473b07cdd5: Verifying Checksum
2d473b07cdd5: Download complete
2d473b07cdd5: Pull complete
aaaaaaaaaaaa: Retrying in 5 seconds
aaaaaaaaaaaa: Download complete
aaaaaaaaaaaa: Pull complete
Digest: sha256:2d473b07cdd5f0912cd6f1a703352c82b512407db6b05b43f2553732b55df3bc
Status: Downloaded newer image for 127.0.0.1:5000/team/vllm:7
127.0.0.1:5000/team/vllm:7
"""


def test_layers_of_a_pull() -> None:
    layers = images.Layers()
    seen = [
        (layers.there, layers.fetched, layers.total, round(layers.percent or 0))
        for line in PULL.splitlines()
        if layers.feed(line)
    ]
    assert seen == [
        (0, 0, 1, 0),
        (0, 0, 2, 0),
        (1, 1, 3, 33),
        (1, 1, 3, 33),
        (1, 2, 3, 50),
        (1, 2, 3, 50),
        (2, 2, 3, 67),
        (2, 2, 3, 67),
        (2, 3, 3, 83),
        (3, 3, 3, 100),
    ]


def test_before_the_first_layer_nothing_is_known() -> None:
    layers = images.Layers()
    assert not layers.feed("7: Pulling from team/vllm")
    assert not layers.feed("latest: Pulling from team/vllm")
    assert layers.percent is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Error response from daemon: manifest for r:5000/a:b not found: manifest unknown", "missing"),
        ('Error response from daemon: failed to resolve reference "r/a:b": r/a:b: not found', "missing"),
        ("no matching manifest for linux/arm64/v8 in the manifest list entries", "missing"),
        ("Error response from daemon: Get https://r/v2/a/manifests/b: no basic auth credentials", "denied"),
        ("failed to resolve reference: unexpected status from HEAD request: 401 Unauthorized", "denied"),
        (
            "pull access denied for a, repository does not exist or may require 'docker login': denied: x",
            "denied-or-missing",
        ),
        ("Error response from daemon: error from registry: denied: denied", "denied-or-missing"),
        (
            "failed to resolve reference: unexpected status from HEAD request: 403 Forbidden",
            "denied-or-missing",
        ),
        (
            'failed to authorize: failed to fetch anonymous token: Get "https://auth/token": EOF',
            "unreachable",
        ),
        ('Get "https://r/v2/": dial tcp 10.0.0.1:443: connect: connection refused', "unreachable"),
        ("dial tcp: lookup r on 127.0.0.53:53: server misbehaving", "unreachable"),
        ("net/http: request canceled while waiting for connection (Client.Timeout exceeded)", "unreachable"),
        ("x509: certificate signed by unknown authority", "unreachable"),
        ("http: server gave HTTP response to HTTPS client", "unreachable"),
        (
            "failed to register layer: Error processing tar file: write /x: no space left on device",
            "space",
        ),
        ("Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?", "engine"),
        ("toomanyrequests: You have reached your pull rate limit", ""),
    ],
)
def test_what_went_wrong_with_a_pull(text: str, kind: str) -> None:
    assert images.pull_trouble(text) == kind


def test_what_was_loaded() -> None:
    text = "noise\nLoaded image: vllm-kunlun:1\nLoaded image ID: sha256:11\nLoaded image: host:5000/a/b:2\n"
    assert images.loaded(text) == ["vllm-kunlun:1", "sha256:11", "host:5000/a/b:2"]


def test_what_docker_said_is_not_its_advice() -> None:
    text = "docker: Error response from daemon: gone\n\nRun 'docker run --help' for more information\n"
    assert images.said(text) == "docker: Error response from daemon: gone"
    assert images.said("a\nSee 'docker run --help'.\n") == "a"
    assert images.said(" \n") == ""


@pytest.mark.parametrize(
    ("name", "registry"),
    [
        ("vllm", "docker.io"),
        ("vllm:1.0", "docker.io"),
        ("team/vllm:1", "docker.io"),
        ("localhost/vllm", "localhost"),
        ("registry.local/team/vllm@sha256:00", "registry.local"),
        ("host:5000/vllm", "host:5000"),
    ],
)
def test_the_registry_of_a_name(name: str, registry: str) -> None:
    assert images.registry(name) == registry


def test_a_trial_has_what_the_container_has_but_cards_and_network() -> None:
    spec = ContainerSpec(
        "klops",
        "vllm:1",
        ("python3", "-I", "/k/agent/current"),
        devices=(("/dev/xpu0", "/dev/xpu0"),),
        volumes=("/k:/k",),
        env=(("LD_LIBRARY_PATH", "/opt/a b"),),
        security=("seccomp=unconfined",),
    )
    argv = images.try_out(("docker",), spec, "klops.check-1", "-c", "1")
    assert argv[-5:] == ("--entrypoint", "python3", "vllm:1", "-c", "1")
    assert "/dev/xpu0:/dev/xpu0" not in argv
    for pair in (
        ("--network", "none"),
        ("--pull", "never"),
        ("--name", "klops.check-1"),
        ("--volume", "/k:/k"),
        ("--env", "LD_LIBRARY_PATH=/opt/a b"),
        ("--security-opt", "seccomp=unconfined"),
    ):
        assert any(argv[at : at + 2] == pair for at in range(len(argv))), pair
    assert "--rm" in argv
