"""``klops inventory``."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from klops.cli.inventory import app
from klops.errors import SourceErrors, UsageError
from tests.unit.inventory.conftest import Write

FLEET = """
g:
  vars: {ansible_password: made-up-1, day: 2024-01-01}
  hosts:
    h: {klops: {services: {s: {model: /m, api_key: made-up-2}}}}
"""


def run(*argv: str) -> str:
    result = CliRunner().invoke(app, [*argv, "-i", "hosts.yml"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_list_masks_secrets(write: Write) -> None:
    write(FLEET)
    printed = run("list", "-e", "more=1")
    assert "made-up" not in printed
    assert json.loads(printed)["_meta"]["hostvars"]["h"] == {
        "ansible_password": "********",
        "day": "2024-01-01",
        "klops": {"services": {"s": {"api_key": "********", "model": "/m"}}},
        "more": "1",
    }


def test_list_as_text(write: Write) -> None:
    write("g: {hosts: {long-name: , h: }, children: {sub: {hosts: {h: }}}}")
    assert run("list", "-o", "text") == "long-name  g\nh          g, sub\n"


def test_graph(write: Write) -> None:
    write(FLEET)
    assert run("graph") == "@all:\n  |--@ungrouped:\n  |--@g:\n  |  |--h\n"
    assert run("graph", "g") == "@g:\n  |--h\n"
    with pytest.raises(UsageError, match="no group is called gg"):
        run("graph", "gg")


def test_check(write: Write) -> None:
    write(FLEET)
    assert run("check") == "ok: 1 host, 3 groups, 1 service\n"
    counts = {"hosts": 1, "groups": 3, "services": 1}
    assert json.loads(run("check", "-o", "json")) == {"ok": True, **counts, "warnings": []}
    with pytest.raises(SourceErrors, match=r"-e: unknown setting klops\.rot"):
        run("check", "-e", '{"klops": {"rot": 1}}')


def test_explain(write: Write) -> None:
    write(FLEET)
    assert run("explain", "h", "klops.services.s.model") == '* host      "/m"  hosts.yml:5:39\n'
    assert run("explain", "h", "klops.services.s.port") == "* default   8000  shipped defaults\n"
    assert "made-up" not in run("explain", "h", "klops.services.s.api_key") + run("explain", "h", "klops")
    document = json.loads(run("explain", "h", "day", "-e", "day=1", "-o", "json"))
    assert document == {
        "host": "h",
        "key": "day",
        "values": [
            {"level": "extra", "location": "-e", "value": "1", "wins": True},
            {"level": "group", "location": "hosts.yml:3:44", "value": "2024-01-01", "wins": False},
        ],
    }
    for key, near in {
        "nope": "klops inventory list shows what is set",
        "dya": "did you mean day?",
        "klops.container.imag": "did you mean klops.container.image?",
        "klops.services.s.args.x": "klops inventory list shows what is set",
    }.items():
        with pytest.raises(UsageError, match=f"nothing gives {key} for h") as caught:
            run("explain", "h", key)
        assert caught.value.hint == near


def test_check_tells_of_names_that_look_like_a_connection_variable(write: Write) -> None:
    write(
        """
g:
  hosts:
    h: {ansible_hots: h.example, ansible_prot: 22, ansible_become_exe: /bin/sudo, ansible_own_thing: 1}
"""
    )
    warnings = json.loads(run("check", "-o", "json"))["warnings"]
    assert warnings == [
        "hosts.yml:4:23: ansible_hots says nothing to klops (did you mean ansible_host?)",
        "hosts.yml:4:48: ansible_prot says nothing to klops (did you mean ansible_port?)",
    ]


def test_check_wants_a_host(write: Write) -> None:
    write("g: {vars: {a: 1}}")
    with pytest.raises(UsageError, match="names no host"):
        run("check")
