from __future__ import annotations

import json
from itertools import pairwise

import pytest

from klops.commands import docker
from klops.commands.containerspec import ContainerSpec

DOCKER = ("docker",)


def container(**host: object) -> docker.Container:
    found = docker.parse_inspect(json.dumps([{"Id": "a", "HostConfig": host, "Config": {}}]), "a")
    assert found is not None
    return found


def test_labels_of_the_run_are_no_part_of_the_digest() -> None:
    spec = ContainerSpec("klops", "vllm:1", ("python3",))
    plain, labelled = docker.create(DOCKER, spec), docker.create(DOCKER, spec, (("io.klops.run", "r1"),))
    assert [word for word in labelled if word not in plain] == ["io.klops.run=r1"]
    assert labelled[-2:] == ("python3", "vllm:1")


def test_a_committed_image_does_not_pass_its_containers_off_as_klops_own() -> None:
    spec = ContainerSpec("klops", "vllm:1", ("python3",))
    labels = [name for name, _ in (*spec.labels, ("io.klops.run", ""))]
    blank = "LABEL " + " ".join(f"{name}=" for name in labels)
    assert docker.commit(DOCKER, "c0ffee", "vllm:before") == (
        *DOCKER,
        *("commit", "--change", blank, "c0ffee", "vllm:before"),
    )


@pytest.mark.parametrize(
    ("like", "changes"),
    [
        (docker.Image("a"), ('ENTRYPOINT [""]', 'CMD ["/bin/sh"]')),
        (docker.Image("a", command=("bash", "-l")), ('ENTRYPOINT [""]', 'CMD ["bash", "-l"]')),
        (docker.Image("a", entrypoint=("/in it",)), ('ENTRYPOINT ["/in it"]', "CMD []")),
    ],
)
def test_a_committed_image_runs_what_the_one_it_came_from_runs(
    like: docker.Image, changes: tuple[str, ...]
) -> None:
    argv = docker.commit(DOCKER, "c0ffee", "vllm:before", like)
    given = [word for before, word in pairwise(argv) if before == "--change"]
    assert tuple(given[1:]) == changes


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ({"Name": "always", "MaximumRetryCount": 0}, "always"),
        ({"Name": "on-failure", "MaximumRetryCount": 3}, "on-failure:3"),
        ({"Name": "on-failure", "MaximumRetryCount": 0}, "on-failure"),
        ({"Name": ""}, "no"),
        (None, "no"),
    ],
)
def test_a_restart_policy_as_docker_update_takes_it(policy: object, text: str) -> None:
    assert container(RestartPolicy=policy).restart == text
    assert docker.restart_policy(DOCKER, "a", text) == ("docker", "update", "--restart", text, "a")


def test_the_time_to_stop_is_that_of_whoever_made_it() -> None:
    assert container().stop_timeout == 10
    found = docker.parse_inspect('[{"Id": "a", "Config": {"StopTimeout": 0}}]', "a")
    assert found is not None
    assert found.stop_timeout == 0


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        ("vllm-kunlun:1", "vllm-kunlun"),
        ("registry:5000/team/vllm", "registry:5000/team/vllm"),
        ("registry:5000/team/vllm:1.2", "registry:5000/team/vllm"),
        ("team/vllm@sha256:0123", "team/vllm"),
        ("team/vllm:1@sha256:0123", "team/vllm"),
    ],
)
def test_the_name_of_an_image_without_its_tag(image: str, repository: str) -> None:
    assert docker.repository(image) == repository


def test_who_has_a_name_already() -> None:
    text = (
        'Error response from daemon: Conflict. The container name "/klops" is already in use by container '
        '"0123abcd". You have to remove (or rename) that container to be able to reuse that name.'
    )
    assert docker.name_taken_by(text) == "0123abcd"
    assert docker.name_taken_by("Error response from daemon: No such image: vllm:1") == ""


def test_which_device_is_gone() -> None:
    text = (
        "Error response from daemon: error gathering device information while adding custom device "
        '"/dev/xpu3": no such file or directory'
    )
    assert docker.missing_device(text) == "/dev/xpu3"
    assert docker.missing_device("no space left on device") == ""


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?", True),
        ("error during connect: this error may indicate that the docker daemon is not running", True),
        ("Error response from daemon: conflict", False),
    ],
)
def test_an_engine_that_is_gone(text: str, gone: bool) -> None:
    assert docker.no_engine(text) == gone
