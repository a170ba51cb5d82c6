"""The agent's verbs that say how far they are, line by line, until the last line tells what was done."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from klops.actions.own.hostreads import agent_argv
from klops.actions.own.services.wait import Lines
from klops.errors import AgentError

if TYPE_CHECKING:
    from klops.actions.base import Context
    from klops.inventory.settings import Settings
    from klops.remote.base import Given

#: What docker says of a program that was ended by SIGKILL, or SIGTERM.
_KILLED = (137, 143)
#: Characters of a line that an error quotes.
_LONGEST = 500

Heard = Callable[[Mapping[str, Any]], None]


def request(value: Mapping[str, Any]) -> bytes:
    """A request as one line, for a verb with ``--while-stdin``."""
    return json.dumps(value).encode("ascii") + b"\n"


def follow(
    ctx: Context,
    settings: Settings,
    verb: Sequence[str],
    stdin: Given,
    *,
    timeout: float,
    heard: Heard,
    what: str = "",
    record: str = "",
) -> Mapping[str, Any]:
    """Run a verb to its end; ``heard`` gets each line, and what the verb has ``done`` is given back.

    Its standard input stays open: it ends with whoever asked. Raises AgentError with the agent's own words
    after ``what``, where they don't say that themselves. ``record``: the file that tells of a verb which was
    killed.
    """
    lines, errors = Lines(), list[bytes]()

    def take(piece: bytes) -> None:
        for said in lines.feed(piece):
            heard(said)

    rc = ctx.remote.stream(
        agent_argv(settings, *verb, stdin=True),
        on_stdout=take,
        on_stderr=errors.append,
        stdin=stdin,
        timeout=timeout,
        keep_stdin=True,
    )
    done, error = lines.last.get("done"), lines.last.get("error")
    if isinstance(done, Mapping) and rc == 0:
        return done
    if isinstance(error, Mapping):
        code = str(error.get("code") or AgentError.code)
        text = ": ".join(filter(None, (what, _short(str(error.get("message"))))))
        raise AgentError(text, hint=str(error.get("hint") or ""), code=code)
    said = b"".join(errors).decode("utf-8", "replace").strip().splitlines()
    text = what or f"the agent did not end its {verb[0]}"
    if rc in _KILLED and not said:
        text += f": it was killed (status {rc}), as when the container is stopped, or memory runs out"
        seen = f", and what is in {record}" if record else ""
        raise AgentError(text, hint=f"see that the container runs{seen}, then repeat it")
    text = f"{text}: {said[-1] if said else f'status {rc}'}"
    raise AgentError(text, hint="docker logs of the container shows what its launcher said")


def _short(text: str) -> str:
    """What a program said may have lines of any length."""
    return "\n".join(line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..." for line in text.split("\n"))
