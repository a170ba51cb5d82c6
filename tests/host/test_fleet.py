"""Several hosts at once: one that is fine, one that is dead, one with a missing card."""

from __future__ import annotations

import socket

import pytest
from ruamel.yaml import YAML

from klops.sim.layout import SERVED_NAME
from tests.host.support import klops, models
from tests.rehearsals import MakeRehearsal

pytestmark = pytest.mark.host


def test_the_third_host_comes_up_and_each_of_the_others_is_told_why(make_rehearsal: MakeRehearsal) -> None:
    rehearsal = make_rehearsal(hosts=3, transports=["ssh"])
    dead, cardless, fine = rehearsal.hosts
    yaml = YAML(typ="safe", pure=True)
    content = yaml.load(rehearsal.inventory)
    with socket.socket() as closed:  # bound, never listening: connections to it are refused
        closed.bind(("127.0.0.1", 0))
        hosts = content["all"]["children"]["rehearsal"]["hosts"]
        hosts[dead.name]["ansible_port"] = closed.getsockname()[1]
        # with an automatic size its other cards would do
        hosts[cardless.name]["klops"]["services"]["llm"]["tp"] = 8
        with rehearsal.inventory.open("w") as out:
            yaml.dump(content, out)
        (cardless.device_dir / "xpu5").unlink()
        done = klops("up", "all", "-i", str(rehearsal.inventory), "-o", "json")
    assert done.rc == 4, done.stdout + done.stderr
    told = done.json
    assert told["ok"] is False
    assert told["hosts"][dead.name]["error"]["code"] == "unreachable"
    assert "refused" in told["hosts"][dead.name]["error"]["message"]
    assert told["hosts"][cardless.name]["error"]["code"] == "card-missing"
    assert "xpu5" in told["hosts"][cardless.name]["error"]["message"]
    assert told["hosts"][fine.name]["services"]["llm"]["state"] == "ready"
    assert models(fine.port, fine.api_key) == [SERVED_NAME]
    for name in (dead.name, cardless.name):
        assert told["hosts"][name]["error"]["hint"]
