"""What a start is given on standard input: a specification, or the number of a generation that has one."""

from __future__ import annotations

import json
from typing import Any

from klops.agent import store
from klops.agent.errors import VerbError
from klops.agent.units import intake


def take(paths: store.Paths, name: str, text: str) -> dict[str, Any]:
    """Write down what came; nothing came: what is on disk counts. Returns what came of the cards' memory.

    ``{"generation": N, "idle": {...}}``: the unit's specification as it was then; its secrets, which no
    generation has, stay what they are.
    """
    if not text.strip():
        return {}
    try:
        given = json.loads(text)
    except ValueError as error:
        raise VerbError("bad-request", f"standard input is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise VerbError("bad-request", "standard input is a JSON object with spec and secrets")
    number = given.get("generation")
    if number is None:
        return intake.take(paths, name, given)
    if type(number) is not int:
        raise VerbError("bad-request", "generation is a number")
    from klops.agent.generations import kept

    return intake.take(paths, name, {**given, "spec": kept.spec(paths.root, number, name)}, keep_secrets=True)
