"""What the actions read: the same thing by the same script, so that a batch carries it out once."""

from __future__ import annotations

from klops.inventory.settings import Settings
from klops.remote.base import Reply

from .support import SETTINGS, Stage

NAMES = ("klops.preflight", "klops.container", "klops.services", "klops.status")


def test_equal_keys_are_equal_scripts() -> None:
    stage = Stage()
    scripts: dict[str, str] = {}
    for name in (*NAMES, "klops.image"):
        for key, script in stage.scripts(name).items():
            assert scripts.setdefault(key, script) == script
    shared = [key for key in scripts if all(key in stage.scripts(name) for name in NAMES)]
    assert {"docker.version", "container", "agent.status", "smi.q"} <= set(shared)


def test_docker_is_called_as_the_settings_say() -> None:
    settings = {**SETTINGS, "docker": {"sudo": True, "host": "unix:///run/d.sock"}}
    stage = Stage(settings=Settings.model_validate(settings))
    for name in (*NAMES, "klops.image"):
        for key, script in stage.scripts(name).items():
            if "docker" in script:
                assert "sudo -n docker -H unix:///run/d.sock" in script, key


def test_where_xpu_smi_is_asked() -> None:
    for where, tries in (
        ("auto", ["if out=$(xpu-smi -q)", "if out=$(docker exec klops xpu-smi -q)"]),
        ("host", ["if out=$(xpu-smi -q)"]),
        ("container", ["if out=$(docker exec klops xpu-smi -q)"]),
    ):
        settings = {**SETTINGS, "cards": {"smi": {"where": where}}}
        script = Stage(settings=Settings.model_validate(settings)).scripts("klops.status")["smi.q"]
        assert script.count("if out=") == len(tries)
        assert sorted(map(script.index, tries)) == list(map(script.index, tries))


def test_a_program_of_another_name_is_never_sent() -> None:
    settings = {**SETTINGS, "cards": {"smi": {"path": "/opt/tool"}}}
    stage = Stage(settings=Settings.model_validate(settings))
    for name in NAMES:
        assert not any("/opt/tool" in script for script in stage.scripts(name).values())


def test_preflight_looks_for_what_docker_will_map() -> None:
    settings = {**SETTINGS, "cards": {"device_dir": "/srv/cards"}}
    script = Stage(settings=Settings.model_validate(settings)).scripts("klops.preflight")["nodes"]
    assert "ls -lndL" in script
    assert "/srv/cards/xpu0 " in script
    assert script.endswith("/srv/cards/xpuctrl")


def test_unreadable_cards_are_a_warning_naming_the_assumption() -> None:
    plan = Stage().plan("klops.preflight", {"docker.version": Reply(0, b'{"Server": {"Version": "24"}}')})
    assert any(
        "index and the number in its node's name are assumed to be equal" in text for text in plan.warnings
    )
    assert plan.failure is not None


def test_no_secret_is_in_a_plan() -> None:
    stage = Stage()
    replies = {
        "docker.version": Reply(0, b'{"Server": {"Version": "24"}}'),
        "adopted": Reply(44),
        "container": Reply(0, b'[{"Id": "a", "Name": "/klops", "State": {"Status": "running"}}]'),
        "agent.status": Reply(0, b'{"supervisor": {}, "units": {}}'),
    }
    plan = stage.plan("klops.services", replies)
    assert plan.steps
    assert "made-up-key" not in f"{plan!r} {[step.change() for step in plan.steps]}"
