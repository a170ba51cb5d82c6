"""Tags by Ansible's rules: each row as ``ansible-playbook --list-tasks`` has it."""

from __future__ import annotations

import pytest

from klops.playbook.plays.tags import selected


@pytest.mark.parametrize(
    ("tags", "only", "skip", "runs"),
    [
        ("", "", "", True),
        ("a", "", "", True),
        ("a", "a", "", True),
        ("a", "b", "", False),
        ("", "a", "", False),
        ("a b", "b", "", True),
        ("a", "", "a", False),
        ("a b", "a", "b", False),
        ("never", "", "", False),
        ("never a", "", "", False),
        ("never a", "a", "", True),
        ("never", "never", "", True),
        ("never", "all", "", False),
        ("always", "a", "", True),
        ("always", "", "always", False),
        ("always b", "", "b", False),
        ("a", "tagged", "", True),
        ("", "tagged", "", False),
        ("", "untagged", "", True),
        ("a", "untagged", "", False),
        ("a", "", "tagged", False),
        ("", "", "untagged", False),
        ("always", "", "tagged", False),
        ("always b", "", "all", True),
        ("always", "all", "all", True),
        ("always", "", "all always", False),
    ],
)
def test_selected(tags: str, only: str, skip: str, runs: bool) -> None:
    assert selected(tags.split(), only.split(), skip.split()) is runs
