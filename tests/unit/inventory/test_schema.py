"""The JSON schema takes every inventory that klops takes, and refuses the common slips."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from klops.inventory.schema import MEANINGS, inventory_schema
from klops.inventory.settings import Section, Settings
from klops.yamlsource import load_file, parse, to_python

jsonschema = pytest.importorskip("jsonschema")
ROOT = Path(__file__).parents[3]
DATA = Path(__file__).parent / "data"
INVENTORIES = [
    *DATA.glob("*.yml"),
    *DATA.glob("types/*.yml"),
    *DATA.glob("*/hosts.yml"),
    *ROOT.glob("inventory/*.yml"),
]
VARIABLES = [
    *DATA.glob("*/group_vars/*.yml"),
    *DATA.glob("*/host_vars/*.y*ml"),
    *ROOT.glob("inventory/group_vars/*"),
]


def problems(schema: dict[str, Any], document: Any) -> list[str]:
    """What the schema says against a document, in JSON's types."""
    validator = jsonschema.Draft202012Validator(schema)
    plain = json.loads(json.dumps(document, default=str))
    return [error.message for error in validator.iter_errors(plain)]


def test_the_schema_is_a_schema() -> None:
    schema = inventory_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("path", [path for path in INVENTORIES if path.name != "ini_named.yml"], ids=str)
def test_inventories_fit(path: Path) -> None:
    assert problems(inventory_schema(), to_python(load_file(path))) == []


@pytest.mark.parametrize("path", [path for path in VARIABLES if path.is_file()], ids=str)
def test_variable_files_fit(path: Path) -> None:
    document = {"g": {"vars": to_python(load_file(path))}}
    assert problems(inventory_schema(), document) == []


@pytest.mark.parametrize(
    "text",
    [
        "g: {host: {a: }}",
        "g: {hosts: [a]}",
        "g: text",
        "- g",
        "plugin: x",
        "g: {vars: {klops: {rot: /x}}}",
        "g: {hosts: {a: {klops: {services: {s: {prot: 1}}}}}}",
        "g: {hosts: {a: {klops: {cards: {expected: eight}}}}}",
        "g: {hosts: {a: {klops: {container: {recreate: never}}}}}",
        "g: {hosts: {a: {klops: {services: {s: {api_key: {var: X}}}}}}}",
        "g: {hosts: {a: {ansible_port: 80000}}}",
        "g: {hosts: {a: {klops: {source: {targets: [{rot: /a}]}}}}}",
        "g: {hosts: {a: {klops: {stack: {packages: {a: {verison: '1'}}}}}}}",
        "g: {hosts: {a: {klops: {stack: {packages: [a]}}}}}",
        "g: {vars: {a-b: 1}}",
        "g: {children: {h: {hots: }}}",
    ],
)
def test_slips_are_refused(text: str) -> None:
    assert problems(inventory_schema(), to_python(parse(text, "x")))


@pytest.mark.parametrize(
    "text",
    [
        "g: {hosts: single, children: other}",
        "g: {hosts: {a: {klops: , x: [1, {y: 2}]}}, vars: , children: }",
        "g: {vars: {klops: {cards: , services: {s: {port: '8000', args: {a: , b: [1]}, restart: }}}}}",
        "g: {vars: {klops: {cards: {expected: '{{ n }}', use: '{{ l }}'}}}}",
        "g: {vars: {klops: {stack: {packages: {a: 1.0, b: {version: '2', no_deps: yes}, c: '{{ v }}'}}}}}",
        "g: {vars: {klops: {stack: {index_url: {env: A}, patches: [{file: a.py, copy: b.py, test: x}]}}}}",
        "g: {vars: {klops: {source: {targets: [{root: /a}, {package: b, carry: ['*.so']}]}}}}",
        "g: {vars: {klops: {source: {repo: ~/a, build: {commands: [x], timeout: 1h, env: {A: 1}}}}}}",
        "g: {vars: {klops: {container: {stop_timeout: 2m, shm: 512m, ulimits: {memlock: -1}, env: {A: 1}}}}}",
        "g: {vars: {ansible_port: '{{ p }}', ansible_become: yes, ansible_group_priority: 10, größe: 1}}",
        "",
    ],
)
def test_ways_of_writing_fit(text: str) -> None:
    assert problems(inventory_schema(), to_python(parse(text, "x"))) == []


def test_every_setting_has_a_meaning() -> None:
    def models(kind: type[Section]) -> set[type[Section]]:
        return {kind}.union(*(models(below) for below in kind.__subclasses__()))

    fields = {
        f"{model.__name__}.{field.alias or name}"
        for model in models(Section)
        for name, field in model.model_fields.items()
    }
    assert fields == set(MEANINGS)
    assert Settings.model_fields
