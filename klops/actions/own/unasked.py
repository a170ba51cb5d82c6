"""What an action plans that works in the container, where nobody there can be asked. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from klops.actions.base import Plan, View
from klops.actions.own import hostview
from klops.actions.own.hostview import HostView
from klops.errors import AgentError, KlopsError, TaskFailed
from klops.remote.base import Replies, Reply

#: How an agent begins that doesn't know a verb, or an option of it.
_UNKNOWN = ("verbs: ", "unknown option ")


def unasked(view: View, host: HostView, what: str) -> Plan | None:
    """The plan instead; None where the agent answers. ``what`` would be done, were it there.

    In check mode an earlier task may make or start the container, so that nothing can be told.
    """
    trouble = host.trouble()
    if trouble is not None:
        return Plan(failure=trouble)
    if not (host.at_rest or host.agent is None or not host.ours):
        return None
    failure: KlopsError = host.silent_agent()
    if host.at_rest:
        where = "isn't there" if host.container is None else f"is {host.container.state}"
        text, hint = f"the container {where}", f"klops up {view.host} makes and starts it"
        failure = TaskFailed(text, code="container-absent", hint=hint)
    return Plan(unknown=f"{what}: {failure.message}") if view.check else Plan(failure=failure)


def answer(view: View, replies: Replies, key: str, holds: str, what: str) -> Mapping[str, Any] | Plan:
    """What a verb of the agent says that only reads, an object with ``holds``; else the plan instead.

    ``what`` it looks at.
    """
    nobody = unasked(view, hostview.look(replies, view.settings), f"{what} would be looked at")
    if nobody is not None:
        return nobody
    reply = hostview.reply(replies, key)
    said = reply.json() if reply.stdout else None
    if not reply.ok or not isinstance(said, Mapping) or holds not in said:
        return refused(view, reply, f"{what} can't be told")
    return said


def refused(view: View, reply: Reply, what: str) -> Plan:
    """The plan where a verb of the agent that only reads gave no answer: in its words, after ``what``."""
    said = reply.json() if reply.stdout else None
    error = said.get("error") if isinstance(said, dict) else None
    text = str(error.get("message")) if isinstance(error, dict) else ""
    if isinstance(error, dict) and error.get("code") == "usage" and text.startswith(_UNKNOWN):
        text = f"{what}: the agent there is of another klops, and knows nothing of it"
        hint = f"klops up {view.host} puts this one's in place"
        # in a dry run the task that does so has only said that it would
        return (
            Plan(unknown=text) if view.check else Plan(failure=AgentError(text, hint=hint, code="agent-old"))
        )
    if isinstance(error, dict):
        code = str(error.get("code") or AgentError.code)
        text, hint = f"{what}: {error.get('message')}", str(error.get("hint") or "")
        return Plan(failure=AgentError(text, hint=hint, code=code))
    lines = reply.error_text.strip().splitlines() or reply.text.strip().splitlines()
    return Plan(failure=AgentError(f"{what}: {lines[-1] if lines else f'status {reply.rc}'}"))
