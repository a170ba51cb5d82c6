"""The link goes away in mid-command: told, nothing half-made, and the next run completes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from klops.sim.layout import SERVED_NAME, SERVICE
from tests.host.proxy import Proxy
from tests.host.support import klops, models
from tests.rehearsals import MakeRehearsal
from tests.waiting import until

pytestmark = pytest.mark.host


def test_a_link_that_stays_away_while_the_model_loads(make_rehearsal: MakeRehearsal, tmp_path: Path) -> None:
    rehearsal = make_rehearsal(hosts=1, transports=["ssh"])
    host = rehearsal.hosts[0]
    assert rehearsal.ssh is not None
    yaml = YAML(typ="safe", pure=True)
    content = yaml.load(rehearsal.inventory)
    variables = content["all"]["children"]["rehearsal"]["hosts"][host.name]
    variables["klops"]["services"][SERVICE]["env"] = {"KLOPS_SIM_LOAD_SECONDS": "12"}
    real_port = variables["ansible_port"]
    with Proxy(real_port) as proxy:
        known = rehearsal.ssh.known_hosts.read_text().replace(f":{real_port} ", f":{proxy.port} ")
        (tmp_path / "known_hosts").write_text(rehearsal.ssh.known_hosts.read_text() + known)
        variables["ansible_port"] = proxy.port
        variables["ansible_host"] = "127.0.0.1"
        (tmp_path / "known_hosts").write_text(known.replace(f"[{host.address}]", "[127.0.0.1]"))
        variables["ansible_ssh_common_args"] = f"-o UserKnownHostsFile={tmp_path / 'known_hosts'}"
        bent = tmp_path / "bent.yml"
        with bent.open("w") as out:
            yaml.dump(content, out)

        def loading() -> bool:
            log = host.root / "log" / f"{SERVICE}.log"
            return log.exists() and b"Loading" in log.read_bytes()

        def black_hole() -> None:
            until(loading, what="the model loads")
            proxy.swallow.set()

        breaker = threading.Thread(target=black_hole)
        breaker.start()
        lost = klops("up", host.name, "-i", str(bent), "-o", "json", timeout=180)
        breaker.join()
        assert lost.rc == 4, lost.stdout + lost.stderr
        error = lost.json["hosts"][host.name]["error"]
        assert error["code"] in ("connection-lost", "unreachable")
        assert error["hint"]
        proxy.swallow.clear()
        # unreachable is not stopped: the service went on by itself, and nothing is replaced
        until(lambda: _answers(host.port, host.api_key), what="the service is ready all the same")
        again = klops("up", host.name, "-i", str(bent), "-o", "json", "--yes", timeout=180)
    assert again.rc == 0, again.stdout + again.stderr
    assert again.json["hosts"][host.name]["services"][SERVICE]["restarts"] == 0
    assert models(host.port, host.api_key) == [SERVED_NAME]


def _answers(port: int, key: str) -> bool:
    try:
        return models(port, key) == [SERVED_NAME]
    except OSError:
        return False
