"""The link goes away in mid-command: told, nothing half-made, and the next run completes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from klops.sim.layout import SERVED_NAME, SERVICE, Rehearsal, RehearsalHost
from tests.host.proxy import Proxy
from tests.host.support import klops, models
from tests.rehearsals import MakeRehearsal
from tests.waiting import until

pytestmark = pytest.mark.host


@dataclass
class Bridge:
    """A rehearsal host that is reached through a proxy, with a model that takes its time to load."""

    rehearsal: Rehearsal
    proxy: Proxy
    inventory: Path

    @property
    def host(self) -> RehearsalHost:
        """The only host."""
        return self.rehearsal.hosts[0]

    def loading(self) -> bool:
        """Whether the model is being loaded right now."""
        log = self.host.root / "log" / f"{SERVICE}.log"
        return log.exists() and b"Loading" in log.read_bytes()

    def answers(self) -> bool:
        """Whether the service answers with the key."""
        try:
            return models(self.host.port, self.host.api_key) == [SERVED_NAME]
        except OSError:
            return False


@contextmanager
def bridge(rehearsal: Rehearsal, directory: Path) -> Iterator[Bridge]:
    """A proxy before the host's sshd, and an inventory that goes through it."""
    host, ssh = rehearsal.hosts[0], rehearsal.ssh
    assert ssh is not None
    yaml = YAML(typ="safe", pure=True)
    content = yaml.load(rehearsal.inventory)
    variables = content["all"]["children"]["rehearsal"]["hosts"][host.name]
    variables["klops"]["services"][SERVICE]["env"] = {"KLOPS_SIM_LOAD_SECONDS": "10"}
    with Proxy(ssh.port) as proxy:
        known = directory / "known_hosts"
        text = ssh.known_hosts.read_text().replace(f":{ssh.port} ", f":{proxy.port} ")
        known.write_text(text.replace(f"[{host.address}]", "[127.0.0.1]"))
        variables["ansible_host"], variables["ansible_port"] = "127.0.0.1", proxy.port
        variables["ansible_ssh_common_args"] = f"-o UserKnownHostsFile={known}"
        inventory = directory / "through.yml"
        with inventory.open("w") as out:
            yaml.dump(content, out)
        yield Bridge(rehearsal, proxy, inventory)


@pytest.fixture
def bridged(make_rehearsal: MakeRehearsal, tmp_path: Path) -> Iterator[Bridge]:
    with bridge(make_rehearsal(hosts=1, transports=["ssh"]), tmp_path) as found:
        yield found


def test_a_host_that_goes_down_in_mid_command_is_unreachable_and_the_command_not_repeated(
    bridged: Bridge, tmp_path: Path
) -> None:
    book, trace = tmp_path / "book.yml", tmp_path / "trace"
    script = f"echo began >> {trace}; sleep 20; echo ended >> {trace}"
    book.write_text(
        "- hosts: all\n  tasks:\n    - name: Long\n      command:\n"
        f"        argv: [sh, -c, {script!r}]\n    - name: Never\n      command: 'touch {tmp_path}/never'\n"
    )

    def take_down() -> None:
        until(trace.exists, what="the command began")
        bridged.proxy.refuse()

    breaker = threading.Thread(target=take_down)
    breaker.start()
    done = klops("play", str(book), "-i", str(bridged.inventory), "-o", "json", timeout=120)
    breaker.join()
    assert done.rc == 4, done.stdout + done.stderr
    error = done.json["hosts"][bridged.host.name]["error"]
    assert error["code"] == "connection-lost"
    assert "Long" in done.stderr
    assert error["hint"]
    assert trace.read_text().count("began") == 1
    assert not (tmp_path / "never").exists()


@pytest.mark.long
def test_a_link_that_comes_back_while_the_model_loads_is_taken_up_again(bridged: Bridge) -> None:
    def black_hole() -> None:
        until(bridged.loading, what="the model loads")
        bridged.proxy.swallow.set()
        until(bridged.answers, what="the service is ready all the same")
        bridged.proxy.swallow.clear()
        bridged.proxy.cut()

    breaker = threading.Thread(target=black_hole)
    breaker.start()
    done = klops("up", bridged.host.name, "-i", str(bridged.inventory), "-o", "json", timeout=180)
    breaker.join()
    assert done.rc == 0, done.stdout + done.stderr
    assert done.json["hosts"][bridged.host.name]["services"][SERVICE]["restarts"] == 0


@pytest.mark.long
def test_a_link_that_stays_away_while_the_model_loads(bridged: Bridge) -> None:
    def black_hole() -> None:
        until(bridged.loading, what="the model loads")
        bridged.proxy.swallow.set()

    breaker = threading.Thread(target=black_hole)
    breaker.start()
    up = ("up", bridged.host.name, "-i", str(bridged.inventory), "-o", "json")
    lost = klops(*up, timeout=300)
    breaker.join()
    assert lost.rc == 4, lost.stdout + lost.stderr
    error = lost.json["hosts"][bridged.host.name]["error"]
    assert error["code"] in ("connection-lost", "unreachable")
    assert error["hint"]
    bridged.proxy.swallow.clear()
    bridged.proxy.cut()
    # unreachable is not stopped: the service went on by itself, and nothing is replaced
    assert bridged.answers()
    again = klops(*up, timeout=180)
    assert again.rc == 0, again.stdout + again.stderr
    assert again.json["hosts"][bridged.host.name]["services"][SERVICE]["restarts"] == 0
