"""Health checks of one unit, in a thread of their own: a server that hangs must never hang the supervisor.

Up means: the port's listener belongs to the unit's lineage, the expected model is listed to the holder of
the key, and, once per generation, a real completion came back. An open port, or a 200 on /health, proves
little. Whether requests progress afterwards is told from /metrics, which is read with each check that goes
well (:mod:`klops.agent.units.progress`).
"""

from __future__ import annotations

import http.client
import json
import queue
import socket
import threading
import time
from dataclasses import replace
from typing import Any, Callable, NamedTuple, Sequence

from klops.agent.processes import clients, listeners, procs
from klops.agent.units import progress
from klops.agent.units.unit import LOST, OK, SLOW, Check

#: Bytes of an answer that are looked at.
_ANSWER = 1 << 20
#: Seconds the first completion of a generation may take: the runtime warms up in it.
SMOKE_TIMEOUT = 180.0


class Target(NamedTuple):
    """What to check. ``pids`` is the living lineage; ``was_ready``: this generation has answered before.

    ``listing``: ask for the models, with the key, even if it has. ``smoke``: ask for a completion, which may
    take ``smoke_timeout`` seconds. ``canary``: ask a server for one that seems idle, if anybody is
    connected, and with ``insist`` also if nobody is.
    """

    port: int
    model: str
    key: str
    timeout: float
    pids: Sequence[int]
    was_ready: bool
    listing: bool
    smoke: bool
    canary: bool = False
    insist: bool = False
    smoke_timeout: float = SMOKE_TIMEOUT


class _Answer(NamedTuple):
    status: int
    data: bytes

    @property
    def body(self) -> Any:
        """What it is as JSON; None when it is none."""
        try:
            return json.loads(self.data)
        except ValueError:
            return None


def _request(
    address: str, target: Target, method: str, path: str, body: Any = None, timeout: float = 0
) -> _Answer:
    connection = http.client.HTTPConnection(address, target.port, timeout=timeout or target.timeout)
    deadline = time.monotonic() + (timeout or target.timeout)
    headers: dict[str, Any] = {"Connection": "close"}
    if target.key:
        headers["Authorization"] = b"Bearer " + target.key.encode("utf-8")
    if body is not None:
        headers["Content-Type"] = "application/json"
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        response = connection.getresponse()
        data = b""
        while len(data) < _ANSWER:
            if time.monotonic() > deadline:
                raise TimeoutError
            part = response.read1(65536)
            if not part:
                break
            data += part
        return _Answer(response.status, data)
    finally:
        connection.close()


def _find_address(target: Target) -> tuple[str, Check | None]:
    """Where to ask: an address at which the unit listens and nobody else, as that one might answer."""
    found = listeners.on_port(target.port)
    if not found:
        if target.was_ready:
            return "", Check(LOST, f"nobody listens on port {target.port} any more")
        return "", Check(SLOW, f"not listening on port {target.port} yet")
    strangers = [one for one in found if not _is_ours(one, target.pids)]
    shared = {one.address for one in strangers}
    ours = [one.address for one in found if one.address not in shared]
    if not ours:
        who = listeners.describe_owner(strangers[0])
        return "", Check(LOST, f"port {target.port} is not this unit's: {who} listens there")
    return ours[0], None


def _is_ours(listener: listeners.Listener, pids: Sequence[int]) -> bool:
    """Whether it belongs to the lineage, or to a process born after that was looked at."""
    if listeners.owner(listener.inode, pids) is not None:
        return True
    processes = procs.table()
    pid = listeners.owner(listener.inode, processes)
    return pid is not None and not set(pids).isdisjoint(procs.ancestors(pid, processes))


def _models(answer: _Answer) -> list[str]:
    if not isinstance(answer.body, dict) or not isinstance(answer.body.get("data"), list):
        return []
    return [str(entry.get("id")) for entry in answer.body["data"] if isinstance(entry, dict)]


def _complete(address: str, target: Target, timeout: float) -> _Answer:
    """A completion of one token, of the kind that the model has."""
    ask = {"model": target.model, "max_tokens": 1, "temperature": 0}
    answer = _request(address, target, "POST", "/v1/completions", {**ask, "prompt": "1"}, timeout)
    if answer.status in (404, 405):
        chat = {**ask, "messages": [{"role": "user", "content": "1"}]}
        answer = _request(address, target, "POST", "/v1/chat/completions", chat, timeout)
    return answer


def _answers(address: str, target: Target) -> bool | None:
    """Whether it answers a completion at all, in the time of a check; None: nobody could wait for one."""
    if not target.insist and not clients.connected(target.port):
        return None
    try:
        _complete(address, target, target.timeout)
    except (TimeoutError, socket.timeout):
        return False
    except (OSError, http.client.HTTPException):
        return None  # it ends, or is being ended: the next check tells
    return True


def _smoke(address: str, target: Target) -> Check:
    answer = _complete(address, target, target.smoke_timeout)
    if answer.status == 200 and isinstance(answer.body, dict) and answer.body.get("choices"):
        return Check(OK, "the model is listed, and a completion came back", smoked=True, listed=True)
    kind = LOST if answer.status >= 500 else SLOW
    hint = "; set smoke: false for a model that completes nothing" if 400 <= answer.status < 500 else ""
    return Check(kind, f"the model is listed, but a completion gives status {answer.status}{hint}")


def _measured(address: str, target: Target, good: Check) -> Check:
    """A check that went well, with what /metrics says; if it says nothing, the rest counts all the same."""
    try:
        # vLLM asks for no key here, but a proxy before it, or another version, may
        answer = _request(address, target, "GET", "/metrics")
    except (OSError, http.client.HTTPException) as error:
        return replace(good, unmeasured=f"/metrics can't be read: {type(error).__name__}")
    if answer.status != 200:
        return replace(good, unmeasured=f"/metrics answers {answer.status}")
    if len(answer.data) >= _ANSWER:
        return replace(good, unmeasured=f"/metrics is longer than {_ANSWER >> 20} MiB")
    counters = progress.read(answer.data.decode("utf-8", "replace"))
    if counters is None:
        return replace(good, unmeasured="/metrics has no counters of vLLM")
    return replace(good, counters=counters)


def check(target: Target) -> Check:
    """One check, blocking."""
    address, problem = _find_address(target)
    if problem is not None:
        return problem
    result = _check(address, target)
    if result.kind != OK:
        return result
    if target.canary and not result.smoked:
        result = replace(result, answered=_answers(address, target))
    return _measured(address, target, result)


def _check(address: str, target: Target) -> Check:
    try:
        alive = _request(address, target, "GET", "/health")
        if alive.status == 503:
            return Check(LOST, "/health answers 503: the engine is dead")
        if target.was_ready and not target.listing and alive.status == 200:
            return Check(OK, "/health answers")
        listed = _request(address, target, "GET", "/v1/models")
        if listed.status in (401, 403):
            return Check(LOST, f"/v1/models refuses the key (status {listed.status})")
        if listed.status != 200:
            return Check(SLOW, f"/v1/models answers {listed.status}")
        names = _models(listed)
        if target.model not in names:
            return Check(LOST, f"/v1/models lists {', '.join(names) or 'nothing'}, not {target.model}")
        if target.smoke:
            return _smoke(address, target)
    except (TimeoutError, socket.timeout):  # two classes before Python 3.10
        return Check(SLOW, f"no answer on port {target.port} within {target.timeout:g} s")
    except (OSError, http.client.HTTPException) as error:
        return Check(SLOW, f"no answer on port {target.port}: {type(error).__name__}")
    except ValueError:
        # http.client names the value in its message: not to be repeated
        return Check(LOST, "the API key can't be sent in a header (a line break in it?)")
    return Check(OK, "the model is listed", listed=True)


class Checker:
    """Checks one unit when asked to, one check at a time; ``done`` is called in the checking thread."""

    def __init__(self, name: str, done: Callable[[], None]) -> None:
        self._asked: queue.SimpleQueue[tuple[int, Target] | None] = queue.SimpleQueue()
        self._done = done
        self._result: tuple[int, Check] | None = None
        self.busy = False
        self._thread = threading.Thread(target=self._work, name=f"health-{name}", daemon=True)
        self._thread.start()

    def ask(self, generation: int, target: Target) -> bool:
        """Begin a check of a generation, unless one is going on; whether it was begun."""
        if self.busy:
            return False
        self.busy = True
        self._asked.put((generation, target))
        return True

    def take(self, generation: int) -> Check | None:
        """The outcome of a check of this generation, once; older generations' outcomes are dropped."""
        if self._result is None:
            return None
        (asked, result), self._result, self.busy = self._result, None, False
        return result if asked == generation else None

    def close(self) -> None:
        """End the thread when its check is done."""
        self._asked.put(None)

    def _work(self) -> None:
        while True:
            asked = self._asked.get()
            if asked is None:
                return
            generation, target = asked
            try:
                result = check(target)
            except Exception as error:
                result = Check(SLOW, f"the check itself failed: {type(error).__name__}: {error}")
            self._result = (generation, result)
            self._done()
