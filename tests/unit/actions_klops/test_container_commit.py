"""The image of what was written in an old container, and the secrets that may lie in there."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from klops.actions.own import supervision
from klops.remote.base import Reply
from klops.remote.fake import Call, reply

from .enginehost import ROOT, EngineHost, settings


@dataclass
class Unmounted(EngineHost):
    """Nothing of the host's is mounted over klops' folder in the old container."""

    def read(self, call: Call) -> Reply:
        found = super().read(call)
        if call.read is None or call.read.key != "container" or not found.ok:
            return found
        (shown,) = json.loads(found.text)
        host = shown["HostConfig"]
        host["Binds"] = [bind for bind in host.get("Binds") or () if f":{ROOT}" not in bind]
        shown["Mounts"] = [one for one in shown.get("Mounts") or () if one["Destination"] != ROOT]
        return reply(json.dumps([shown]))


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "_PAUSE", 0.0)


@pytest.mark.parametrize(("host", "made"), [(EngineHost, True), (Unmounted, False)])
def test_no_image_is_made_of_secrets(host: type[EngineHost], made: bool) -> None:
    stage = host(settings(commit=True), adopted=True, replies={"agent.holders": reply('{"holders": []}')})
    result = stage.up("allow")
    assert ("commit" in stage.words) == ("image" in result) == made
    said = [text for text in stage.warnings if "no image is made of klops: the secrets" in text]
    assert len(said) == (0 if made else 1)
    assert not said or ROOT in said[0]
