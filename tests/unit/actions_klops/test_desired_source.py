"""What a unit's specification says of the release that it runs on."""

from __future__ import annotations

from typing import Any

import pytest

from klops.actions.own.desired import release_paths, release_targets, unit_spec
from klops.inventory.settings import Settings

from .support import SETTINGS

CARD = {0: {"index": 0, "minor": 0, "node": "/dev/xpu0", "bdf": "", "uuid": "", "serial": ""}}


def settings(source: dict[str, Any]) -> Settings:
    return Settings.model_validate({**SETTINGS, "source": source})


def test_without_a_repository_a_unit_is_what_it_always_was() -> None:
    specs = [
        unit_spec(settings(source), "main", (0,), CARD)
        for source in ({}, {"targets": [{"package": "vk", "place": "pythonpath"}], "ref": "v2", "keep": 9})
    ]
    assert specs[0] == specs[1]
    assert "source" not in specs[0]


def test_where_a_unit_imports_from_is_a_part_of_it() -> None:
    targets = [{"package": "vk", "place": "pythonpath"}]
    plain = unit_spec(settings({"repo": "/r"}), "main", (0,), CARD)
    path = unit_spec(settings({"repo": "/r", "targets": targets}), "main", (0,), CARD)
    elsewhere = settings({"repo": "/elsewhere", "ref": "v2", "targets": targets})
    assert (plain["source"], path["source"]) == ({"paths": []}, {"paths": [""]})
    assert plain["digest"] != path["digest"]
    assert unit_spec(elsewhere, "main", (0,), CARD) == path


@pytest.mark.parametrize(
    ("targets", "paths"),
    [
        ([], []),
        ([{"root": "/opt/vk"}], []),
        ([{"package": "vk"}], []),
        ([{"package": "vk", "place": "pythonpath"}, {"package": "vl", "place": "pythonpath"}], [""]),
        ([{"package": "vk.ops", "path": "a/src/vk/ops", "place": "pythonpath"}], ["a/src"]),
        (
            [
                {"package": "b", "path": "src/b", "place": "pythonpath"},
                {"package": "a", "place": "pythonpath"},
            ],
            ["src", ""],
        ),
    ],
)
def test_folders_in_front_of_the_python_path(targets: list[dict[str, Any]], paths: list[str]) -> None:
    assert release_paths(settings({"repo": "/r", "targets": targets})) == paths


def test_targets_as_the_agent_takes_them() -> None:
    given = settings({"targets": [{"root": "/opt/vk"}, {"package": "a.b", "carry": ["*.so"]}]})
    assert release_targets(given) == [
        {"root": "/opt/vk"},
        {"package": "a.b", "path": "a/b", "place": "site-packages"},
    ]
