"""Five levels: which value wins, and where it came from."""

from __future__ import annotations

import pytest

from klops.errors import UsageError
from klops.inventory import Inventory
from klops.yamlsource import MappingNode, parse
from tests.unit.inventory.conftest import Write

FLEET = """
all:
  vars: {v: all, d: {a: 1, b: 2}}
g:
  vars:
    v: g
    klops:
      container: {image: "from:group", env: {A: 1, B: 2}, volumes: [/a:/a, /b:/b]}
      services: {s: {model: /m, api_key: {env: GROUP_KEY}, args: {x: 1, y: 2}}}
  hosts:
    h:
      v: h
      d: {a: 9}
      klops:
        container: {image: "from:host", env: {B: 3}, volumes: [/c:/c]}
        cards:
        services: {s: {api_key: {file: key}, args: {y: null, z: true}}}
    i:
"""


@pytest.fixture
def inventory(write: Write) -> Inventory:
    return write(FLEET)


def test_plain_variables_replace_dictionaries_too(inventory: Inventory) -> None:
    found = inventory.variables("h", play={"v": "play", "p": 1}, extra={"p": 2})
    assert (found["v"], found["d"], found["p"]) == ("play", {"a": 9}, 2)
    assert inventory.variables("i")["d"] == {"a": 1, "b": 2}


def test_settings_merge_key_by_key_and_lists_replace(inventory: Inventory) -> None:
    play = {"klops": {"container": {"env": {"C": "no"}}, "root": "/play"}}
    extra = {"klops": {"root": "/extra"}}
    settings = inventory.settings("h", play=play, extra=extra)
    assert settings.root == "/extra"
    assert settings.container.image == "from:host"
    assert settings.container.env == {"A": "1", "B": "3", "C": "no"}
    assert settings.container.volumes == ["/c:/c"]
    assert settings.services["s"].args == {"x": "1", "y": None, "z": True}
    assert settings.cards.expected == 8


def test_a_secret_is_one_value_and_replaces(inventory: Inventory) -> None:
    key = inventory.settings("h").services["s"].api_key
    assert key is not None
    assert key.source == "file key"


def test_explain_names_level_place_and_value_and_the_winner_first(inventory: Inventory) -> None:
    extra = {"klops": {"container": {"image": "from:extra"}}}
    play = parse("klops: {container: {image: from:play}}", "site.yml")
    assert isinstance(play, MappingNode)
    variables = {key.text: value for key, value in play.entries}
    found = inventory.explain("h", "klops.container.image", play=variables, extra=extra)
    assert [(level, str(place), value) for level, place, value in found] == [
        ("extra", "-e", "from:extra"),
        ("playbook", "site.yml:1:28", "from:play"),
        ("host", "hosts.yml:15:28", "from:host"),
        ("group", "hosts.yml:8:26", "from:group"),
        ("default", "shipped defaults", None),
    ]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("v", [("host", "h"), ("group", "g"), ("group", "all")]),
        ("d.a", [("host", 9), ("group", 1)]),
        ("d.b", []),  # the host's dictionary replaced the one that had it
        ("klops.container.shm", [("default", "32g")]),
        ("klops.cards.expected", [("default", 8)]),
        ("klops.container.env.B", [("host", 3), ("group", 2)]),
        ("klops.container.env.A", [("group", 1)]),
        ("klops.services.s.port", [("default", 8000)]),
        ("klops.services.s.model", [("group", "/m")]),
        ("klops.services.s.api_key.file", [("host", "key")]),
        ("klops.services.s.api_key.env", []),
        ("klops.services.s.restart.window", [("default", 600.0)]),
        ("klops.nothing", []),
        ("klops.services.s.nothing", []),
        ("nothing", []),
    ],
)
def test_explain(inventory: Inventory, key: str, expected: list[tuple[str, object]]) -> None:
    assert [(level, value) for level, _, value in inventory.explain("h", key)] == expected


def test_explain_of_sections_has_defaults(inventory: Inventory) -> None:
    assert inventory.explain("i", "klops.docker")[-1][2] == {"host": None, "sudo": False}
    assert inventory.explain("i", "klops")[-1][2]["root"] == "/var/lib/klops"


def test_an_unknown_host(inventory: Inventory) -> None:
    with pytest.raises(UsageError, match="no host is called hh") as caught:
        inventory.variables("hh")
    assert caught.value.hint == "did you mean h?"
