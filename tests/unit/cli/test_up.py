"""``klops up --tp`` as it is typed."""

from __future__ import annotations

import pytest

from tests.unit.cli import cardruns
from tests.unit.cli.conftest import LocalHost


def test_the_size_that_was_typed_goes_to_the_playbook_and_nothing_else(
    host: LocalHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = cardruns.stand_in(monkeypatch)
    assert host.klops("up", "here")[0] == 0
    assert host.klops("up", "here", "--tp", "4")[0] == 0
    assert (ran.playbooks, ran.extra) == (["up.yml"] * 2, [{}, {"tp": 4}])


@pytest.mark.parametrize("size", ["0", "-1", "auto"])
def test_a_size_is_a_number_of_cards(host: LocalHost, monkeypatch: pytest.MonkeyPatch, size: str) -> None:
    ran = cardruns.stand_in(monkeypatch)
    rc, document = host.json("up", "here", "--tp", size)
    assert (rc, document["error"]["code"]) == (2, "usage")
    assert ran.playbooks == []


def test_with_a_playbook_that_has_no_use_for_it_nothing_runs(
    host: LocalHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = cardruns.stand_in(monkeypatch)
    (host.home / "playbooks").mkdir()
    own = host.home / "playbooks" / "up.yml"
    own.write_text("- hosts: all\n  tasks:\n    - klops.services: {state: running}\n")
    rc, document = host.json("up", "here", "--tp", "4")
    assert (rc, document["error"]["code"]) == (2, "usage")
    assert "gives klops.services the parameter tp" in document["error"]["message"]
    assert 'tp: "{{ tp }}"' in document["error"]["hint"]
    assert ran.playbooks == []
    own.write_text(
        "- hosts: all\n  vars: {tp: null}\n  tasks:\n    - klops.services: {state: running, tp: '{{ tp }}'}\n"
    )
    assert host.klops("up", "here", "--tp", "4")[0] == 0
    assert ran.extra == [{"tp": 4}]
