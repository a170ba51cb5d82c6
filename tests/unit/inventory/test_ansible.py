"""The same files read by Ansible and by klops.

What stands in ``data/*.list.json`` and ``data/*.graph.txt`` was printed by ``ansible-inventory --list`` and
``--graph`` of ansible-core 2.19.14.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from klops.inventory import load
from klops.inventory.listing import as_graph, as_list
from klops.inventory.masking import as_json

DATA = Path(__file__).parent / "data"
CASES = {
    "basic": ["basic.yml"],
    "ranges": ["ranges.yml"],
    "priority": ["priority.yml"],
    "ungrouped": ["ungrouped.yml"],
    "replace": ["replace.yml"],
    "beside": ["beside/hosts.yml"],
    "folder": ["folder"],
    "two": ["first/hosts.yml", "second/hosts.yml"],
}


@pytest.mark.parametrize("case", CASES)
def test_list_equals_what_ansible_lists(case: str) -> None:
    inventory = load([str(DATA / source) for source in CASES[case]])
    printed = json.loads(json.dumps(as_list(inventory), default=as_json))
    assert printed == json.loads((DATA / f"{case}.list.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES)
def test_graph_equals_what_ansible_draws(case: str) -> None:
    inventory = load([str(DATA / source) for source in CASES[case]])
    drawn = "\n".join(as_graph(inventory)) + "\n"
    assert drawn == (DATA / f"{case}.graph.txt").read_text(encoding="utf-8")
