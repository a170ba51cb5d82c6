"""Variables beside a playbook, and the host that needs no inventory."""

from __future__ import annotations

from pathlib import Path

import pytest

from klops.errors import SourceErrors, UsageError
from klops.inventory import load
from tests.unit.inventory.conftest import Write

FLEET = """
all: {vars: {v: all in inventory}}
g: {vars: {v: g in inventory}, hosts: {h: {}, own: {v: host in inventory}}}
"""


def beside(files: dict[str, str]) -> Path:
    folder = Path("plays")
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


#: As Ansible orders them, the weakest first; each is given with all that are weaker.
LEVELS = {
    "group_vars__all": "inventory group_vars/all",
    "plays/group_vars/all.yml": "playbook group_vars/all",
    "group_vars__g": "inventory group_vars/g",
    "plays/group_vars/g/x.yml": "playbook group_vars/g",
    "host_vars__own": "inventory host_vars",
    "plays/host_vars/own": "playbook host_vars",
}


@pytest.mark.parametrize("count", range(1, len(LEVELS) + 1))
def test_precedence(write: Write, count: int) -> None:
    given = dict(list(LEVELS.items())[:count])
    inventory = write(FLEET, **{name: f"v: {text}" for name, text in given.items() if "/" not in name})
    folder = beside({name[6:]: f"v: {text}" for name, text in given.items() if "/" in name})
    found = inventory.beside(folder)
    groups = [text for name, text in given.items() if "group" in name]
    hosts = [text for name, text in given.items() if "host_vars" in name]
    assert found.plain_variables("h")["v"] == groups[-1]
    assert found.plain_variables("own")["v"] == (hosts[-1] if hosts else "host in inventory")
    # the inventory itself stays what it was
    assert "playbook" not in str(inventory.plain_variables("h")) + str(inventory.plain_variables("own"))


def test_explain_and_settings_know_the_files(write: Write) -> None:
    folder = beside({"group_vars/g.yml": "klops: {cards: {expected: 4}}"})
    found = write(FLEET).beside(folder)
    assert found.settings("h").cards.expected == 4
    where = Path("plays/group_vars/g.yml")
    assert str(found.explain("h", "klops.cards.expected")[0][1]) == f"{where}:1:27"


def test_mistakes_of_all_files_are_told_at_once(write: Write) -> None:
    inventory = write(FLEET)
    folder = beside(
        {
            "group_vars/all.yml": "- 1",
            "group_vars/nobody.yml": "[",
            "host_vars/h/a.yml": "a: 1\na: 2",
            "host_vars/own.yml": "$ANSIBLE_VAULT;1.1;AES256\n6162\n",
            "host_vars/localhost.yml": "x-y: 1",
        }
    )
    with pytest.raises(SourceErrors) as caught:
        inventory.beside(folder)
    places = [(Path(m.location.file).name, m.location.line) for m in caught.value.mistakes]
    assert sorted(places) == [("a.yml", 2), ("all.yml", 1), ("localhost.yml", 1), ("own.yml", 1)]
    assert "encrypted with ansible-vault" in str(caught.value)


def test_a_folder_without_variables(write: Write, tmp_path: Path) -> None:
    inventory = write(FLEET)
    assert inventory.beside(tmp_path / "none").plain_variables("h") == inventory.plain_variables("h")


def test_the_implicit_localhost(write: Write) -> None:
    inventory = write(
        "all: {vars: {v: 1, ansible_connection: ssh}}\ng: {hosts: {h: }}", host_vars__localhost="w: 2"
    )
    assert inventory.select(["localhost"]) == ["localhost"]
    assert inventory.select(["127.0.0.1,h"]) == ["127.0.0.1", "h"]
    assert inventory.select(["::1"]) == ["::1"]
    assert inventory.select(["all"]) == ["h"]
    assert inventory.select(["localhost:h"], limit="localhost") == ["localhost"]
    assert inventory.limited("localhost") == ["localhost"]
    with pytest.raises(UsageError, match="no host is left"):
        inventory.select(["localhost:&all"])
    assert inventory.connection("localhost").kind == "local"
    assert inventory.plain_variables("localhost") == {"v": 1, "ansible_connection": "local", "w": 2}
    magic = inventory.variables("localhost")
    assert magic["group_names"] == []
    assert magic["groups"] == {"all": ["h"], "ungrouped": [], "g": ["h"]}
    assert magic["inventory_file"] is None
    assert inventory.settings("localhost").root == "/var/lib/klops"
    assert "localhost" not in inventory.hosts
    assert str(inventory.explain("localhost", "ansible_connection")[0][1]) == "implicit localhost"


def test_a_localhost_that_is_listed_takes_the_other_names(write: Write) -> None:
    inventory = write("g: {hosts: {localhost: {ansible_connection: ssh}}}")
    assert inventory.select(["127.0.0.1"]) == ["localhost"]
    assert inventory.connection("localhost").kind == "ssh"


def test_limits_of_a_file(write: Write) -> None:
    inventory = write("g: {hosts: {'h[1:4]': }}")
    Path("retry").write_text("h1\n\n  h3  \nh4:!h1\n", encoding="utf-8")
    assert inventory.limited("@retry") == ["h3", "h4"]
    assert inventory.select(["h*"], limit="@retry,h2") == ["h2", "h3", "h4"]
    Path("none").write_text("\n", encoding="utf-8")
    for limit, message in {
        "@nowhere": "the limit file nowhere cannot be read: No such file",
        "@none": "the limit file none is empty",
        "@~no-such-user-here/x": "the limit file ~no-such-user-here/x cannot be read: No such file",
        "h9": "no host or group is called h9",
    }.items():
        with pytest.raises(UsageError, match=message):
            inventory.limited(limit)
    with pytest.raises(UsageError, match="no host or group is called @retry"):
        inventory.select(["@retry"])


def test_a_list_of_hosts_has_variables_beside_the_playbook_only(write: Write) -> None:
    write("g: {hosts: {h: }}", host_vars__h="v: 1")
    inventory = load(["h,"])
    assert inventory.plain_variables("h") == {}
    assert inventory.beside(Path()).plain_variables("h") == {"v": 1}
