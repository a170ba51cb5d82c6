from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import typer

from klops.cli.complete import complete_hosts, complete_services


class Context:
    def __init__(self, **params: Any) -> None:
        self.params = params


def context(**params: Any) -> typer.Context:
    return cast(typer.Context, Context(**params))


@pytest.fixture
def inventory(tmp_path: Path) -> str:
    file = tmp_path / "hosts.yml"
    file.write_text(
        "east: {hosts: {e1: , e2: }}\nwest: {hosts: {w1: {klops: {services: {chat: {model: /m}}}}}}\n",
        "utf-8",
    )
    return str(file)


def test_hosts_groups_and_all(inventory: str) -> None:
    ctx = context(inventory=[inventory])
    assert complete_hosts(ctx, "e") == ["e1", "e2", "east"]
    assert complete_hosts(ctx, "a") == ["all"]
    assert complete_hosts(ctx, "east:!e") == ["east:!e1", "east:!e2", "east:!east"]
    assert complete_hosts(ctx, "east,w") == ["east,w1", "east,west"]


def test_services_of_the_hosts_named(inventory: str) -> None:
    assert complete_services(context(inventory=[inventory], hosts=["w1"]), "") == ["chat"]
    assert complete_services(context(inventory=[inventory], host="w1"), "c") == ["chat"]
    assert complete_services(context(inventory=[inventory], hosts=["e1"]), "") == []


def test_a_broken_inventory_completes_to_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.yml").write_text("a: [", "utf-8")
    for source in (str(tmp_path / "bad.yml"), "/no/such/inventory"):
        assert complete_hosts(context(inventory=[source]), "") == []
        assert complete_services(context(inventory=[source]), "") == []
    assert capfd.readouterr() == ("", "")
