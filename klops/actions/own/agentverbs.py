"""The agent's verbs as steps ask them: what an answer is, and how long one may take."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from klops.actions.own.hostreads import agent_argv
from klops.errors import AgentError

if TYPE_CHECKING:
    from klops.actions.base import Context
    from klops.inventory.settings import Settings
    from klops.remote.base import Completed

#: Seconds that a verb may take beside what it waits for.
MARGIN = 90.0
#: Seconds that the agent's ``quit`` takes at most by itself.
_QUIT = 150.0
#: What a supervisor says to ``quit`` that is the main process, and one of an older klops whatever it is.
_MAIN_PROCESS = ("main-process", "no-unit")


def answer(done: Completed, what: str) -> Mapping[str, Any]:
    """What a verb said. Raises AgentError with the agent's own words when it failed."""
    text = done.text
    try:
        said = json.loads(text[max(text.find("{"), 0) :])
    except ValueError:
        said = None
    error = said.get("error") if isinstance(said, dict) else None
    if done.rc != 0 and isinstance(error, dict):
        code = str(error.get("code") or AgentError.code)
        raise AgentError(f"{what}: {error.get('message')}", hint=str(error.get("hint") or ""), code=code)
    if done.rc != 0 or not isinstance(said, dict):
        lines = done.error_text.strip().splitlines() or text.strip().splitlines() or [f"status {done.rc}"]
        raise AgentError(
            f"{what}: {lines[-1]}", hint="docker logs of the container shows what its launcher said"
        )
    return said


def quit_beside(ctx: Context, settings: Settings) -> bool:
    """End the supervisor beside a container's main process, and all units with it, in order.

    False, and nothing has ended, where the supervisor *is* the main process: that of a container which an
    older klops made. Raises AgentError when something lives on.
    """
    done = ctx.remote.run(agent_argv(settings, "quit"), check=False, timeout=_QUIT + MARGIN)
    try:
        answer(done, "the supervisor could not be ended")
    except AgentError as error:
        if error.code in _MAIN_PROCESS:
            return False
        raise
    return True
