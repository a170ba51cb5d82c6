"""The look at a host, as a shell carries it out: what docker is asked for, in which case."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from klops.commands import reaping
from klops.commands.helper import helper, shell, variable
from klops.commands.reaping import NO_AGENT, NO_IMAGE, Place

CONTAINER = "c0ffee" + "0" * 58
IMAGE, OWN = "sha256:" + "1" * 64, "sha256:" + "2" * 64
#: Answers as a docker does, and writes down what it was asked for.
DOCKER = """\
#!/bin/sh
printf '%s\\n' "$*" >>"$HERE/log"
case $1 in
inspect) [ -s "$HERE/inspect" ] || { cat "$HERE/none" >&2; exit 1; }; cat "$HERE/inspect" ;;
image) [ -s "$HERE/own" ] || { echo "Error: No such image: vllm:1" >&2; exit 1; }; cat "$HERE/own" ;;
run) cat "$HERE/run"; exit "$(cat "$HERE/run.rc")" ;;
exec) cat "$HERE/exec"; exit "$(cat "$HERE/exec.rc")" ;;
esac
"""


class Host:
    """A folder with an agent, card nodes and a docker of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = Place(
            docker=("docker",),
            container="klops",
            python="python3",
            root=f"{folder}/root",
            device_dir=f"{folder}/dev",
            record=f"{folder}/root/adopted.json",
        )
        (folder / "root/agent").mkdir(parents=True)
        (folder / "root/agent/current").touch()
        (folder / "dev").mkdir()
        (folder / "bin").mkdir()
        docker = folder / "bin/docker"
        docker.write_text(DOCKER)
        docker.chmod(0o755)
        self.answers()

    def answers(
        self,
        container: str = "made",
        *,
        running: str = "true",
        ipc: str = "private",
        name: str = "/klops",
        helper: int = 0,
        own: str = "",
    ) -> None:
        """What docker says: the kind of the container, "" for none; the status of a helper."""
        told = f"{CONTAINER} {IMAGE} {running} {container} {ipc}\n{name}\n" if container else ""
        (self.folder / "inspect").write_text(told)
        (self.folder / "none").write_text("Error: No such container: klops\n")
        (self.folder / "exec").write_text('{"from": "exec"}\n')
        (self.folder / "exec.rc").write_text("0")
        (self.folder / "own").write_text(own)
        (self.folder / "run").write_text('{"from": "helper"}\n')
        (self.folder / "run.rc").write_text(str(helper))

    def run(self, script: str) -> tuple[int, list[str], str]:
        """Status, lines and errors."""
        env = {"PATH": f"{self.folder}/bin:/usr/bin:/bin", "HERE": str(self.folder)}
        done = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.splitlines(), done.stderr

    def look(self, **place: object) -> tuple[int, list[str], str]:
        wanted = replace(self.place, **place)  # type: ignore[arg-type]  # fields by name
        args = ["--check", "--grace", "5"]
        script = reaping.whole(wanted, [*args, "--include", "7:8"], inside=args, writable=False)
        return self.run(script)

    @property
    def asked(self) -> list[str]:
        """What docker was asked for, but for what it knows of the container and the image."""
        path = self.folder / "log"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.split()[0] in ("run", "exec")]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_helper_like_the_container_looks_at_the_host_and_the_agent_at_its_shared_memory(host: Host) -> None:
    rc, lines, _ = host.look()
    assert rc == 0
    assert lines == [f"helper {CONTAINER} made", '{"from": "helper"}', "inside 0", '{"from": "exec"}']
    run, inside = host.asked
    assert f"--volumes-from {CONTAINER}:ro" in run
    assert f"--volume {host.place.root}:{host.place.root}:ro" in run
    assert f" {IMAGE} " in run
    words = f"reap --check --grace 5 --include 7:8 --host --container {CONTAINER} --kind made --root"
    assert words in run
    assert inside.startswith(f"exec {CONTAINER} python3 ")
    assert "reap --check --grace 5 --kind made --root" in inside, "pids of the host mean nothing in there"


def test_a_container_on_record_is_an_adopted_one(host: Host) -> None:
    host.answers("other")
    (host.folder / "root/adopted.json").write_text(f'{{\n "schema": 1,\n "id": "{CONTAINER}"\n}}\n')
    assert host.look()[1][0] == f"helper {CONTAINER} adopted"
    assert all("--kind adopted" in line for line in host.asked)


@pytest.mark.parametrize(
    ("told", "options"),
    [
        ("private", set()),
        ("shareable", set()),
        ("host", {"--shared-ipc"}),
        ("container:abc", {"--shared-ipc"}),
        ("private,shm", {"--shared-ipc"}),
        ("private,tmp", {"--shared-tmp"}),
        ("host,tmp", {"--shared-ipc", "--shared-tmp"}),
        ("private,tmp,shm", {"--shared-ipc", "--shared-tmp"}),
    ],
)
def test_what_others_see_of_its_memory_is_said(host: Host, told: str, options: set[str]) -> None:
    host.answers(ipc=told)
    host.look()
    assert [{word for word in line.split() if word.startswith("--shared")} for line in host.asked] == [
        options,
        options,
    ]


@pytest.mark.parametrize("status", [125, 126, 127])
def test_where_no_helper_can_be_run_the_container_itself_is_asked(host: Host, status: int) -> None:
    host.answers(helper=status)
    rc, lines, errors = host.look()
    assert (rc, lines) == (0, [f"exec {CONTAINER} made", '{"from": "exec"}'])
    assert "only the container was looked at" in errors


def test_nobody_is_asked_in_a_container_that_does_not_run(host: Host) -> None:
    host.answers("made", running="false", helper=125)
    rc, _, _ = host.look()
    assert rc == 1
    assert [line.split()[0] for line in host.asked] == ["run"]


def test_of_somebody_else_s_container_neither_image_nor_volumes_are_used(host: Host) -> None:
    host.answers("other")
    assert host.look()[0] == NO_IMAGE
    assert host.look(image="vllm:1")[0] == NO_IMAGE
    assert host.asked == []


def test_a_look_inside_that_comes_to_nothing_leaves_its_status(host: Host) -> None:
    (host.folder / "exec").write_text("")
    (host.folder / "exec.rc").write_text("137")
    rc, lines, _ = host.look()
    assert (rc, lines) == (0, [f"helper {CONTAINER} made", '{"from": "helper"}', "inside 137", ""])


@pytest.mark.parametrize(
    "said", ["Cannot connect to the Docker daemon: dial unix /d.sock: no such file or directory\n", ""]
)
def test_a_docker_that_does_not_answer_is_not_one_without_the_container(host: Host, said: str) -> None:
    host.answers("", own=OWN)
    (host.folder / "none").write_text(said)
    rc, lines, errors = host.look(image="vllm:1")
    assert (rc, lines) == (1, [])
    assert errors.startswith("docker does not answer: " + said)
    assert host.run(reaping.container(host.place, ["--check"]))[0] == 1
    assert host.asked == []


def test_what_the_verb_says_by_its_status_is_passed_on(host: Host) -> None:
    host.answers(helper=1)
    rc, lines, _ = host.look()
    assert (rc, lines[1]) == (1, '{"from": "helper"}')


@pytest.mark.parametrize("container", ["", "other"])
def test_without_a_container_of_klops_the_image_of_the_settings_does(host: Host, container: str) -> None:
    host.answers(container, own=OWN)
    (host.folder / "models").mkdir()
    volumes = (f"{host.folder}/models:/models", f"{host.folder}/gone:/gone", f"/x:{host.place.root}")
    rc, lines, _ = host.look(image="vllm:1", volumes=volumes)
    assert (rc, lines) == (0, ["helper - -", '{"from": "helper"}'])
    (run,) = host.asked
    assert f" {OWN} " in run
    assert f"--volume {host.folder}/models:/models:ro" in run
    assert "/gone" not in run, "docker would make that folder"
    assert run.count(f":{host.place.root}") == 1
    assert not any(word in run for word in ("--container", "--volumes-from"))


def test_an_id_that_begins_like_the_name_is_no_container_of_that_name(host: Host) -> None:
    host.answers(name="/something")
    assert host.look()[0] == NO_IMAGE
    assert host.asked == []


def test_without_an_agent_or_card_nodes_nothing_is_run(host: Host) -> None:
    assert host.look(device_dir=f"{host.folder}/none")[0] == 1
    (host.folder / "root/agent/current").unlink()
    assert host.look()[0] == NO_AGENT
    assert host.asked == []


def test_the_container_alone(host: Host) -> None:
    rc, lines, _ = host.run(reaping.container(host.place, ["--check"]))
    assert (rc, lines) == (0, [f"exec {CONTAINER} made", '{"from": "exec"}'])
    assert f"reap --check --kind made --root {host.place.root}" in host.asked[0]
    host.answers("other")
    assert host.run(reaping.container(host.place, ["--check"]))[0] == 1
    assert len(host.asked) == 1


def test_only_a_clean_up_may_write(host: Host) -> None:
    script = reaping.whole(host.place, ["--run", "r"], inside=["--run", "r"], writable=True)
    host.run(script)
    assert f"--volume {host.place.root}:{host.place.root} " in host.asked[0]
    assert "--cap-add DAC_OVERRIDE" in host.asked[0], "the root may be another user's"
    host.look()
    assert "DAC_OVERRIDE" not in host.asked[2]


def test_words_of_a_shell_are_quoted_and_what_stands_for_a_value_is_not() -> None:
    words = helper(("docker",), variable("image"), "py thon", "/r", "/d", "reap", like=variable("id"))
    line = shell(words)
    assert '--volumes-from "${id}":ro' in line
    assert "--entrypoint 'py thon' \"${image}\" -I" in line
    plain = helper(("docker",), "sha256:1", "python3", "/r", "/d", "reap")
    assert shlex.split(shell(plain)) == plain
