"""Rows B11 and B14: whose a process is. Those of other users and of neighbours are named and left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from klops.agent.processes import identity
from klops.remote import agentpackage
from klops.sim.layout import SERVICE
from tests.host.likenesses import LIKENESS, Crowd
from tests.rehearsals import MakeRehearsal, missing
from tests.shortpaths import short_folder
from tests.sim.agent import site as sites
from tests.waiting import until

pytestmark = pytest.mark.host

#: Users without names.
FIRST, SECOND = 64_501, 64_502
TITLES = ["VLLM::EngineCore", "ray::RayWorkerWrapper", "raylet", "redis-server"]


class Owner:
    """A user with a root, and a unit whose API server is gone, so that the rest of it is an orphan."""

    def __init__(self, folder: Path, uid: int, python: str) -> None:
        self.uid, self.python = uid, python
        self.root = folder / str(uid)
        package = agentpackage.build()
        for name in ("agent", "run"):
            (self.root / name).mkdir(parents=True)
        (self.root / "agent" / f"{package.digest}.pyz").write_bytes(package.data)
        (self.root / "agent" / "current").symlink_to(f"{package.digest}.pyz")
        for path in (self.root, *self.root.rglob("*")):
            os.lchown(path, uid, uid)
        self.members: list[identity.Identity] = []

    def serve(self) -> None:
        """Have a service of all titles, on record."""
        for title in TITLES:
            argv = [self.python, "-ISc", LIKENESS, "left", title, title, "", "x" * 99]
            said = subprocess.run(argv, check=True, capture_output=True, user=self.uid, group=self.uid)
            pid, start = map(int, said.stdout.split())
            self.members.append(identity.Identity(*identity.here(), pid, start))
        names = ("boot", "ns", "pid", "start")
        lines = [{**dict(zip(names, who, strict=True)), "name": "x", "generation": 1} for who in self.members]
        path = self.root / "run" / "svc.lineage.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.chown(path, self.uid, self.uid)

    def reap(self, user: int) -> list[int]:
        """Have a user clean up this root; pids of what was ended."""
        words = [self.python, "-I", "-S", str(self.root / "agent" / "current"), "reap", "--grace", "0"]
        done = subprocess.run(
            [*words, "--root", str(self.root)],
            check=False,
            capture_output=True,
            text=True,
            user=user,
            group=user,
            extra_groups=[],
        )
        assert done.returncode == 0, done.stdout + done.stderr
        rows: list[dict[str, Any]] = json.loads(done.stdout)["processes"]
        assert {row["outcome"] for row in rows} <= {"gone"}, rows
        return sorted(row["cpid"] for row in rows)

    def living(self) -> list[int]:
        """Pids of members that run."""
        return sorted(who.pid for who in self.members if identity.alive(who))

    def close(self) -> None:
        for who in self.members:
            handle = identity.hold(who)
            if handle is not None:
                handle.send(signal.SIGKILL)
                handle.close()


@pytest.fixture
def owners() -> Iterator[list[Owner]]:
    """Two users, each with a service of the same name and the same titles."""
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin")
    reason = missing() or ("" if python else "no Python of the system, which any user may run")
    if reason:
        pytest.skip(reason)
    with short_folder() as folder:
        folder.chmod(0o755)
        found = [Owner(folder, uid, str(python)) for uid in (FIRST, SECOND)]
        try:
            for owner in found:
                owner.serve()
            yield found
        finally:
            for owner in found:
                owner.close()


@pytest.mark.parametrize(
    "user", [pytest.param(FIRST, marks=pytest.mark.long, id="as-its-owner"), pytest.param(0, id="as-root")]
)
def test_row_B11_another_user_s_service_of_the_same_name_is_left(owners: list[Owner], user: int) -> None:
    first, second = owners
    assert len(first.living()) == len(second.living()) == len(TITLES)
    assert first.reap(user) == sorted(who.pid for who in first.members)
    assert first.living() == []
    assert len(second.living()) == len(TITLES)
    assert first.reap(user) == []


@pytest.fixture(scope="module")
def crowd(make_rehearsal: MakeRehearsal) -> Crowd:
    """A host whose service wants one card; it is down, and gives up at once when it can't start."""
    rehearsal = make_rehearsal(hosts=1, transports=["local"])
    yaml = YAML(typ="safe")
    inventory = yaml.load(rehearsal.inventory)
    (host,) = inventory["all"]["children"]["rehearsal"]["hosts"].values()
    host["klops"]["services"][SERVICE].update(
        tp=1, cards=[0], env={"KLOPS_SIM_LOAD_SECONDS": "0.2"}, restart={"policy": "never"}
    )
    yaml.dump(inventory, rehearsal.inventory)
    found = Crowd(rehearsal, rehearsal.hosts[0])
    found.done("up")
    found.done("down")
    return found


def refused(crowd: Crowd) -> str:
    """``klops up`` fails; what it says."""
    done = crowd.klops("up")
    assert done.rc == 1, done.stdout + done.stderr
    return str(done.json["hosts"][crowd.host.name]["error"]["message"])


@contextmanager
def listening(argv: list[str], port: int, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process that serves a port; it must be there at the end."""
    quiet = subprocess.DEVNULL
    with subprocess.Popen(argv, stdout=quiet, stderr=quiet, stdin=subprocess.PIPE, **more) as process:
        try:
            until(lambda: answers(port), what="somebody listens there")
            yield process
            assert process.poll() is None
            assert answers(port)
        finally:
            process.kill()


def answers(port: int) -> bool:
    """Whether somebody listens on a port, by either family."""
    for host in ("127.0.0.1", "::1"):
        try:
            socket.create_connection((host, port), timeout=1).close()
        except OSError:
            continue
        return True
    return False


@pytest.mark.parametrize(
    "address", ["0.0.0.0", *(pytest.param(a, marks=pytest.mark.long) for a in ("127.0.0.1", "::"))]
)
def test_row_B14_a_stranger_in_the_container_is_named_and_left(crowd: Crowd, address: str) -> None:
    python = crowd.settings("container")["python"]
    port = str(crowd.host.port)
    server = [python, "-m", "http.server", port, "--bind", address]
    # it goes when its docker exec does: the shell reads until then
    inside = ["sh", "-c", '"$@" & while read -r _; do :; done; kill $!', "sh", *server]
    with listening([*crowd.where, "exec", "-i", crowd.host.container, *inside], crowd.host.port) as client:
        said = refused(crowd)
        assert f"port {port} is taken by pid " in said
        assert f"of user root: {python} -m http.server {port}" in said
        assert crowd.reap()["processes"] == []
        assert answers(crowd.host.port)
        assert client.stdin is not None
        stop = client.stdin
        pids = crowd.inside("http.server")
        assert pids
    stop.close()
    until(lambda: not answers(crowd.host.port), what="it is gone")


@pytest.mark.long
def test_row_B14_one_whose_process_can_t_be_seen_is_told_by_its_user(crowd: Crowd) -> None:
    """On the host itself, which has the container's network, and of another user."""
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin")
    if python is None:
        pytest.skip("no Python of the system, which any user may run")
    argv = [python, "-m", "http.server", str(crowd.host.port), "--bind", "127.0.0.1"]
    with listening(argv, crowd.host.port, user=SECOND, group=SECOND, extra_groups=[], cwd="/"):
        said = refused(crowd)
    # the preflight, of root, sees who it is; from inside the container only the user is
    assert (
        f"port {crowd.host.port} is taken by somebody whose process is not visible from here" in said
        and f"user {SECOND}" in said
    ) or f"port {crowd.host.port} of llm is taken by python3 (pid " in said
    crowd.done("up")
    crowd.done("down")


@pytest.mark.long
def test_row_B14_an_own_orphan_on_the_port_makes_way(tmp_path: Path) -> None:
    """The server of an earlier supervisor still listens when the unit is started with other settings."""
    for site in sites.site(tmp_path):
        site.hold()
        supervisor = site.supervisor()
        spec = site.spec(tp=1)
        site.start(spec)
        before = site.reaches("ready")
        site.holds[-1].kill()
        site.holds[-1].wait()
        os.kill(supervisor, signal.SIGKILL)
        assert answers(spec["port"])
        site.hold()
        site.supervisor()
        site.start(site.spec(tp=1, port=spec["port"], model="other"))
        after = site.ready_again(before["generation"])
        assert after["model"] == "other"
        assert not any(sites.alive(member["cpid"]) for member in before["lineage"])
        assert site.audit("start-refused") == []


@contextmanager
def foreign_holder(crowd: Crowd, index: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process of this machine and of another user that has a card open; it must be there at the end."""
    node = crowd.host.device_dir / Path(crowd.node(index)).name
    with node.open("rb+", buffering=0) as held:
        os.set_inheritable(held.fileno(), True)
        argv = ["sleep", "1000"]
        with subprocess.Popen(argv, user=SECOND, group=SECOND, extra_groups=[], close_fds=False) as other:
            held.close()
            try:
                yield other
                assert other.poll() is None
            finally:
                other.kill()


@pytest.mark.long
def test_row_B11_a_foreign_holder_of_a_wanted_card_is_named_with_its_user(crowd: Crowd) -> None:
    with foreign_holder(crowd, 0) as other:
        (row,) = crowd.reap()["foreign"]
        assert (row["pid"], row["user"]) == (other.pid, str(SECOND))
        assert row["cards"] == [0]
        done = crowd.klops("up")
        error = done.json["hosts"][crowd.host.name]["error"]
        assert (done.rc, error["code"]) == (1, "cards-foreign")
        assert f"pid {other.pid} sleep, card 0, " in error["message"]
        assert f"user {SECOND}, no container" in error["message"]
        assert crowd.service["pid"] is None, "nothing was started"
        assert crowd.service["restarts"] == 0, "nor was it tried"
        # what is there already is looked at only where it is to be started
        assert crowd.klops("up", "--check").rc == 0
    with foreign_holder(crowd, 1):
        crowd.done("up")
        again = crowd.done("up")
        assert again["recap"][crowd.host.name]["changed"] == 0
    crowd.done("down")


@pytest.mark.long
def test_row_B11_a_colleague_in_the_container_with_a_wanted_card_is_named(crowd: Crowd) -> None:
    likeness, client = crowd.attended("train", crowd.node(0))
    with client:
        try:
            said = refused(crowd)
            assert f"pid {likeness.pid} train, card 0" in said
            assert f"user root, container {crowd.id[:12]}" in said
            assert likeness.lives()
        finally:
            likeness.kill()
