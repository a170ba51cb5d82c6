"""Templates in connection variables and settings: rendered by the caller, refused without one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from klops.errors import SourceErrors, UsageError
from klops.inventory import Inventory
from klops.playbook.plays import inventorytemplates
from klops.playbook.plays.hostrender import HostRenderers
from klops.playbook.template.scope import Layer
from klops.secret import Secret
from tests.unit.inventory.conftest import Write

VALUES: dict[str, Any] = {
    "{{ name }}.lan": "h.lan",
    "{{ base + 1 }}": 2222,
    "{{ nothing }}": None,
    "{{ key }}": Secret("made-up"),
    "{{ volumes }}": ["/a:/a", "/b:/b:ro"],
    "{{ service }}": {"model": "/m", "port": 8001},
    "{{ again }}": "{{ name }}.lan",
}


def render(text: str) -> Any:
    if text not in VALUES:
        raise UsageError(f"{text} is undefined", hint="define it")
    return VALUES[text]


def test_connection_variables(write: Write) -> None:
    inventory = write(
        'g: {hosts: {h: {ansible_host: "{{ name }}.lan", ansible_port: "{{ base + 1 }}",'
        ' ansible_ssh_user: "{{ nothing }}", ansible_user: plain, ansible_password: "{{ key }}"}}}'
    )
    connection = inventory.connection("h", render=render)
    assert (connection.address, connection.port, connection.user) == ("h.lan", 2222, "plain")
    assert connection.password == Secret("made-up")
    with pytest.raises(SourceErrors) as caught:
        inventory.connection("h")
    assert [m.message for m in caught.value.mistakes] == [
        f"templates are not supported in {name}"
        for name in ("ansible_host", "ansible_port", "ansible_ssh_user", "ansible_password")
    ]


def test_settings_in_depth(write: Write) -> None:
    inventory = write(
        'g: {hosts: {h: {klops: {container: {volumes: "{{ volumes }}", env: {A: "{{ name }}.lan"}},'
        ' services: {s: "{{ service }}", t: {model: "/t", api_key: "{{ key }}"}}}}}}'
    )
    settings = inventory.settings("h", render=render)
    assert settings.container.volumes == ["/a:/a", "/b:/b:ro"]
    assert settings.container.env == {"A": "h.lan"}
    assert settings.services["s"].port == 8001
    assert settings.services["t"].api_key == Secret("made-up")
    with pytest.raises(SourceErrors, match="templates are not supported in klops settings"):
        inventory.settings("h")


def test_what_a_template_gives_is_checked_at_its_place(write: Write) -> None:
    inventory = write(
        'g:\n  hosts:\n    h: {klops: {cards: {expected: "{{ name }}.lan"}}, ansible_port: "{{ key }}"}'
    )
    with pytest.raises(
        SourceErrors, match=r"^hosts\.yml:3:35: klops\.cards\.expected: expected a whole number"
    ):
        inventory.settings("h", render=render)
    with pytest.raises(SourceErrors) as caught:
        inventory.connection("h", render=render)
    assert str(caught.value).startswith("hosts.yml:3:69: ansible_port is a number from 1 to 65535")
    assert "made-up" not in str(caught.value)


def test_mistakes_of_templates_are_told_together(write: Write) -> None:
    inventory = write(
        'g: {hosts: {h: {ansible_host: "{{ a }}", ansible_port: "{{ b }}", klops: {root: "{{ c }}"}}}}'
    )
    with pytest.raises(SourceErrors) as caught:
        inventory.check(render=lambda host: render)
    assert [str(m) for m in caught.value.mistakes] == [
        "hosts.yml:1:31: {{ a }} is undefined (define it)",
        "hosts.yml:1:56: {{ b }} is undefined (define it)",
        "hosts.yml:1:81: {{ c }} is undefined (define it)",
    ]


def test_what_a_template_gives_is_no_template(write: Write) -> None:
    inventory = write('g: {hosts: {h: {ansible_host: "{{ again }}"}}}')
    calls: list[str] = []

    def counting(text: str) -> Any:
        calls.append(text)
        return render(text)

    assert inventory.connection("h", render=counting).address == "{{ name }}.lan"
    assert calls == ["{{ again }}"]


def test_a_renderer_of_the_playbook_fits(write: Write) -> None:
    inventory = write('g: {vars: {base: 2221}, hosts: {h: {ansible_host: "{{ inventory_hostname }}.lan",'
                      ' ansible_port: "{{ base + 1 }}"}}}')  # fmt: skip
    connection = inventory.connection("h", render=HostRenderers(inventory, {})("h"))
    assert (connection.address, connection.port) == ("h.lan", 2222)


def test_other_hosts_are_looked_at_once_for_all_texts(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    inventory = write("g: {vars: {n: 1}, hosts: {h: {}, i: {n: 2}}}")
    looks: list[str] = []
    others = inventorytemplates.others

    def look(inventory: Inventory, extra: Mapping[str, Any]) -> Layer:
        looks.append("look")
        return others(inventory, extra)

    monkeypatch.setattr(inventorytemplates, "others", look)
    render = HostRenderers(inventory, {})
    first, second = render("h"), render("i")
    assert looks == []
    assert [first("{{ n }}"), first("{{ hostvars.i.n }}"), second("{{ hostvars.h.n }}")] == [1, 2, 1]
    assert looks == ["look"]
