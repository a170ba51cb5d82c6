"""A dry run of the shipped playbooks tells what the run then does, task by task; another changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from klops.sim.layout import Rehearsal
from tests.host.support import klops
from tests.rehearsals import MakeRehearsal

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def bare(make_rehearsal: MakeRehearsal) -> Rehearsal:
    """One host on which nothing of klops is yet."""
    return make_rehearsal(hosts=1)


def statuses(rehearsal: Rehearsal, command: str, *args: str) -> list[tuple[str, str]]:
    """(task, status) in order; the run has to end well."""
    (host,) = rehearsal.hosts
    done = klops(command, host.name, "-i", str(rehearsal.inventory), "-o", "json", *args)
    assert done.rc == 0, done.stdout + done.stderr
    found: list[dict[str, Any]] = [task for play in done.json["plays"] for task in play["tasks"]]
    return [
        (task["name"], task["hosts"][host.name]["status"]) for task in found if host.name in task["hosts"]
    ]


def foretold(rehearsal: Rehearsal, command: str, *args: str) -> tuple[list[str], list[str]]:
    """What the run did otherwise than its dry run had said, and what it changed."""
    said = statuses(rehearsal, command, *args, "--check")
    did = statuses(rehearsal, command, *args)
    assert [name for name, _ in said] == [name for name, _ in did]
    pairs = zip(said, did, strict=True)
    wrong = [f"{name}: {one}, then {two}" for (name, one), (_, two) in pairs if one not in ("unknown", two)]
    return wrong, [name for name, status in did if status == "changed"]


# The tests tell one story, in this order.


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(("up",), id="up"),
        pytest.param(("restart",), id="restart"),
        pytest.param(("down",), id="down", marks=pytest.mark.long),
        pytest.param(("down", "--remove", "--yes"), id="down --remove", marks=pytest.mark.long),
    ],
)
def test_a_dry_run_tells_what_the_run_does(bare: Rehearsal, args: Sequence[str]) -> None:
    if args[0] == "down":
        statuses(bare, "up")  # to take down
    wrong, changed = foretold(bare, *args)
    assert not wrong
    assert changed
    if args != ("restart",):
        # a restart is one each time
        wrong, changed = foretold(bare, *args)
        assert not wrong
        assert changed == []
