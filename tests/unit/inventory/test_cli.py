"""``klops inventory``."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

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


def test_check_looks_for_what_settings_name_on_this_machine(write: Write, tmp_path: Path) -> None:
    patches = "patches: [{file: a.py, diff: patches/a.dif}, {file: b.py, copy: patches/b.py}]"
    write(f"g: {{vars: {{klops: {{source: {{repo: repo}}, stack: {{{patches}}}}}}}, hosts: {{h: , i: }}}}")
    with pytest.raises(SourceErrors) as caught:
        run("check")
    told = [str(one).replace(str(tmp_path), "").partition(" (")[0] for one in caught.value.mistakes]
    assert told == [
        "hosts.yml:1:35: klops.source.repo: /repo is no folder of this machine",
        "hosts.yml:1:79: klops.stack.patches[0].diff: there is no file /patches/a.dif",
        "hosts.yml:1:114: klops.stack.patches[1].copy: there is no file /patches/b.py",
    ]
    (tmp_path / "patches").mkdir()
    for name in ("a.diff", "b.py"):
        (tmp_path / "patches" / name).touch()
    (tmp_path / "repo").mkdir()
    with pytest.raises(SourceErrors) as caught:
        run("check")
    told = [one.message + one.hint for one in caught.value.mistakes]
    assert ["not a git repository" in told[0], "did you mean a.diff?" in told[1]] == [True, True]
    subprocess.run(["git", "init", "-q", tmp_path / "repo"], check=True)
    (tmp_path / "patches" / "a.dif").touch()
    assert run("check").startswith("ok: 2 hosts")
    # whoever only looks at a host, or stops it, needs none of that
    (tmp_path / "patches" / "a.dif").unlink()
    assert "a.dif" in run("list")


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


def test_list_of_one_host(write: Write) -> None:
    write(FLEET)
    assert json.loads(run("list", "--host", "h", "-e", "more=1")) == {
        "ansible_password": "********",
        "day": "2024-01-01",
        "klops": {"services": {"s": {"api_key": "********", "model": "/m"}}},
        "more": "1",
    }
    with pytest.raises(UsageError, match="no host is called hh") as caught:
        run("list", "--host", "hh")
    assert caught.value.hint == "did you mean h?"


def test_list_sorts_keys_of_several_types(write: Write) -> None:
    write("g: {hosts: {h: {d: {2: a, b: c, yes: d, ~: e, 1.5: f, 2024-01-01: g}}}}")
    found = json.loads(run("list"))["_meta"]["hostvars"]["h"]["d"]
    assert found == {"2": "a", "b": "c", "true": "d", "null": "e", "1.5": "f", "2024-01-01": "g"}


def test_graph_with_variables(write: Write) -> None:
    write(FLEET + "  children: {c: {vars: {ansible_group_priority: 3}}}\n", group_vars__g="text: Größe\n")
    assert run("graph", "--vars", "g").splitlines() == [
        "@g:",
        "  |--@c:",
        "  |  |--{ansible_group_priority = 3}",
        "  |--h",
        "  |  |--{ansible_password = ********}",
        "  |  |--{day = 2024-01-01}",
        "  |  |--{klops = {'services': {'s': {'model': '/m', 'api_key': '********'}}}}",
        "  |  |--{text = Größe}",
        "  |--{ansible_password = ********}",
        "  |--{day = 2024-01-01}",
        "  |--{text = Größe}",
    ]
    with pytest.raises(UsageError, match="--vars goes with the tree as text"):
        run("graph", "--vars", "-o", "json")


def test_explain_all(write: Write) -> None:
    write(FLEET, group_vars__g="klops: {root: /r}")
    settings = '{"services": {"s": {"model": "/m", "api_key": "********"}}, "root": "/r"}'
    lines = run("explain", "h", "all", "-e", "more=1").splitlines()
    assert lines == [
        'group     ansible_password = "********"  hosts.yml:3:28',
        'group     day = "2024-01-01"  hosts.yml:3:44',
        f"host      klops = {settings}  hosts.yml:5:16",
        'extra     more = "1"  -e',
    ]
    document = json.loads(run("explain", "h", "all", "-o", "json"))
    assert [row["key"] for row in document["variables"]] == ["ansible_password", "day", "klops"]
    with pytest.raises(UsageError, match="no host is called i"):
        run("explain", "i", "all")


def test_check_renders_templates_with_the_hosts_variables(write: Write) -> None:
    write('g: {vars: {base: 2221}, hosts: {h: {ansible_host: "{{ inventory_hostname }}.lan",'
          ' ansible_port: "{{ base + 1 }}", klops: {root: "/{{ group_names[0] }}"}}}}')  # fmt: skip
    assert run("check") == "ok: 1 host, 3 groups, 0 services\n"
    write('g: {hosts: {h: {ansible_port: "{{ bse }}", base: 1, klops: {root: "{{ 7 * 6 }}"}}}}')
    with pytest.raises(SourceErrors) as caught:
        run("check")
    assert [mistake.location.column for mistake in caught.value.mistakes] == [31, 67]


def test_check_tells_of_names_that_look_like_a_connection_variable(write: Write) -> None:
    write(
        """
g:
  hosts:
    h: {ansible_hots: h.example, ansible_prot: 22, ansible_become_exe: /bin/sudo, ansible_own_thing: 1}
"""
    )
    warnings = json.loads(run("check", "-o", "json"))["warnings"]
    sudo = "the host's own sudo is called, with the flags it needs"
    assert warnings == [
        "hosts.yml:4:23: ansible_hots says nothing to klops (did you mean ansible_host?)",
        "hosts.yml:4:48: ansible_prot says nothing to klops (did you mean ansible_port?)",
        f"hosts.yml:4:72: ansible_become_exe has no effect ({sudo})",
    ]


def test_check_tells_of_secret_forms_that_nobody_reads(write: Write) -> None:
    write("g: {vars: {pw: {env: DB}, job: {command: x, args: y}}, hosts: {h: {a: {b: {file: f}}}}}")
    first, second = sorted(json.loads(run("check", "-o", "json"))["warnings"])
    assert first.startswith("hosts.yml:1:16: pw: {env: ...} is a mapping here: only settings under klops")
    assert second.startswith("hosts.yml:1:75: a: {file: ...} is a mapping here")


def test_check_wants_a_host(write: Write) -> None:
    write("g: {vars: {a: 1}}")
    with pytest.raises(UsageError, match="names no host"):
        run("check")
