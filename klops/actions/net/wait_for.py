"""``wait_for``: wait until a port answers (or no longer does), or a path is there (or gone).

.. code-block:: yaml

    - wait_for: {port: 8000, timeout: 600}
    - wait_for: {path: /var/log/vllm.log, search_regex: 'startup complete'}
    - wait_for: {timeout: 10}
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from klops.actions.base import Action, Change, Context, Params, Plan, Probe, Progress, Seen, Step, View
from klops.actions.files.attributes import Found, found
from klops.actions.files.content import absolute
from klops.errors import TaskFailed
from klops.remote.base import Replies, Reply
from klops.remote.filereads import TailRead
from klops.remote.reads import FileRead, PathRead, Read

#: bytes of a file that are searched at a time, and of what a port says in all
SEARCH_LIMIT = 8 * 1024 * 1024
#: bytes before the end of what was searched that a match may begin in
OVERLAP = 64 * 1024
_DRAINED = "klops lists no connections of a host: use command: ss -Htn state established, with until"


class WaitForParams(Params):
    """``port`` at ``host`` as seen from the host, or ``path``; neither: it just waits. Times in seconds.

    ``state``: started or present, stopped or absent. ``delay`` passes before the first look. ``search_regex``
    has to be found in the file, or in what the port says.
    """

    host: str = "127.0.0.1"
    port: int | None = Field(default=None, ge=1, le=65535)
    path: str | None = None
    state: Literal["started", "stopped", "present", "absent"] = "started"
    search_regex: str | None = None
    timeout: float = Field(default=300, ge=0)
    delay: float = Field(default=0, ge=0)
    connect_timeout: float = Field(default=5, gt=0)
    sleep: float = Field(default=1, gt=0)
    msg: str | None = None

    @field_validator("state", mode="before")
    @classmethod
    def _not_drained(cls, state: Any) -> Any:
        if state == "drained":
            raise ValueError(f"drained: {_DRAINED}")
        return state

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: str | None) -> str | None:
        return path if path is None else absolute(path)

    @field_validator("search_regex")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                _pattern(value)
            except re.error as error:
                raise ValueError(f"{value!r} is no regular expression: {error}") from error
        return value

    @model_validator(mode="after")
    def _one_subject(self) -> WaitForParams:
        if self.port is not None and self.path is not None:
            raise ValueError("give one of port and path")
        if self.path is not None and self.state == "stopped":
            raise ValueError("a path is absent, not stopped")
        if self.search_regex is not None and (not self.wanted or (self.port is None and self.path is None)):
            raise ValueError("search_regex needs a port or a path that is waited for")
        return self

    @property
    def wanted(self) -> bool:
        """Whether it waits for something to be there."""
        return self.state in ("started", "present")


@dataclass(frozen=True)
class Look:
    """One look: whether it is there, what was found of the path, and what the search matched."""

    there: bool
    path: Found = field(default_factory=Found)
    match: re.Match[bytes] | None = None


@dataclass
class Search:
    """How far a file was searched that grows meanwhile; one that shrank or is another is begun again."""

    pattern: re.Pattern[bytes]
    offset: int = 0
    _file: bytes = b""
    _kept: bytes = b""

    def take(self, reply: Reply) -> tuple[re.Match[bytes] | None, bool]:
        """What the answer to a :class:`TailRead` from ``offset`` on matches, and whether there is more."""
        head, _, data = reply.stdout.partition(b"\0")
        file, _, size = head.partition(b" ")
        if not reply.ok or not size.isdigit():
            self._begin(b"")
            return None, False
        if file != self._file or int(size) < self.offset:
            begun = self.offset > 0
            self._begin(file)
            if begun:
                return None, True
        self.offset += len(data)
        text = self._kept + data
        self._kept = text[-OVERLAP:]
        if len(text) > OVERLAP:
            # ^ is to match where a line begins, not where the rest was cut off
            self._kept = self._kept.partition(b"\n")[2] or self._kept
        return self.pattern.search(text), bool(data) and self.offset < int(size)

    def _begin(self, file: bytes) -> None:
        self.offset, self._file, self._kept = 0, file, b""


@dataclass(frozen=True)
class Wait(Step):
    """Wait for a port or path, or for the time to pass."""

    params: WaitForParams
    changes: ClassVar[bool] = False

    def change(self) -> Change:
        """``wait until ...``."""
        return Change(_waits(self.params))

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Look, sleep, look again."""
        params = self.params
        began = time.monotonic()
        _pause(params.delay, ctx, f"waits {params.delay:g} s before it looks")
        if params.port is None and params.path is None:
            _pause(params.timeout, ctx, _waits(params))
            return {"elapsed": int(time.monotonic() - began)}
        search = Search(_pattern(params.search_regex or ""))
        while (
            look := _look(ctx, params, search, params.timeout - (time.monotonic() - began))
        ).there != params.wanted:
            elapsed = time.monotonic() - began
            if elapsed >= params.timeout:
                raise TaskFailed(
                    params.msg or _timed_out(params),
                    hint="look at what should bring it about, or wait longer: timeout",
                    code="timeout",
                    values={"elapsed": int(elapsed)},
                )
            _pause(min(params.sleep, params.timeout - elapsed), ctx, _waits(params))
        return {**_values(params, look), "elapsed": int(time.monotonic() - began)}


class WaitFor(Action[WaitForParams]):
    """Wait for a port or path."""

    name = "wait_for"
    params = WaitForParams
    refused: ClassVar[Mapping[str, str]] = {"exclude_hosts": _DRAINED, "active_connection_states": _DRAINED}

    def probe(self, params: WaitForParams, view: View) -> Probe:
        """The path; a port is asked while waiting only."""
        return Probe(_reads(params))

    def plan(self, params: WaitForParams, view: View, seen: Seen) -> Plan:
        """Nothing when a path already is as wanted, else the waiting."""
        result: dict[str, Any] = {
            "state": params.state,
            "port": params.port,
            "path": params.path,
            "search_regex": params.search_regex,
            "match_groups": [],
            "match_groupdict": {},
            "elapsed": 0,
        }
        if params.path is not None and not params.delay:
            look = _at(params, seen.replies)
            if look.there == params.wanted:
                return Plan(result={**result, **_values(params, look)})
        return Plan((Wait(params),), result=result, unknown=f"it would {_waits(params)}")


def _reads(params: WaitForParams) -> tuple[Read, ...]:
    if params.path is None:
        return ()
    path = PathRead("path", (params.path,))
    if params.search_regex is None:
        return (path,)
    return FileRead("content", params.path, SEARCH_LIMIT), path


def _at(params: WaitForParams, replies: Replies) -> Look:
    """What the replies say of the path."""
    path = found(replies["path"])
    if params.search_regex is None or path.target is None:
        return Look(path.target is not None, path)
    content = replies["content"].stdout
    match = _pattern(params.search_regex).search(content)
    return Look(match is not None, path, match)


def _look(ctx: Context, params: WaitForParams, search: Search, left: float) -> Look:
    if params.path is not None and params.search_regex is not None:
        return _searched(ctx, params, params.path, search, left)
    if params.path is not None:
        return _at(params, ctx.remote.read(_reads(params)))
    return _port(ctx, params, params.port or 0, left)


def _searched(ctx: Context, params: WaitForParams, path: str, search: Search, left: float) -> Look:
    """Search what came to the file since the last look, piece by piece."""
    until = time.monotonic() + left
    while True:
        # the path last: what is said of it is never older than what was found in it
        asked: list[Read] = [TailRead("tail", path, search.offset, SEARCH_LIMIT), PathRead("path", (path,))]
        replies = ctx.remote.read(asked)
        match, more = search.take(replies["tail"])
        if match is not None or not more or time.monotonic() >= until:
            return Look(match is not None, found(replies["path"]), match)
        ctx.progress(Progress(_waits(params)))


def _port(ctx: Context, params: WaitForParams, port: int, left: float) -> Look:
    """Try the port; with a search, listen to it until it has said that, or for ``left`` seconds."""
    try:
        stream = ctx.remote.connect(params.host, port, timeout=params.connect_timeout)
    except PermissionError as error:
        # nobody has looked, nor ever will: that is neither here nor gone
        raise TaskFailed(
            f"{params.host}:{port} can't be tried from the host: {error.strerror or error}",
            hint="let sshd there forward connections: AllowTcpForwarding",
            code="not-tried",
        ) from error
    except OSError:
        # a host that starts is not to be reached at first, and its name may not be known yet
        return Look(there=False)
    try:
        if params.search_regex is None:
            return Look(there=True)
        pattern, said, until = _pattern(params.search_regex), b"", time.monotonic() + max(left, 0.1)
        while (rest := until - time.monotonic()) > 0 and len(said) < SEARCH_LIMIT:
            ctx.progress(Progress(_waits(params)))
            stream.settimeout(min(rest, 0.5))
            try:
                data = stream.recv(4096)
            except TimeoutError:
                continue
            except OSError:
                break
            if not data:
                break
            said += data
            if match := pattern.search(said):
                return Look(there=True, match=match)
        return Look(there=False)
    finally:
        stream.close()


def _values(params: WaitForParams, look: Look) -> dict[str, Any]:
    """What is registered of the last look, as Ansible does: of a path also what it is."""
    values: dict[str, Any] = {} if params.path is None else look.path.values
    if look.match is not None:
        values = {
            **values,
            "match_groups": [_text(group) for group in look.match.groups()],
            "match_groupdict": {key: _text(group) for key, group in look.match.groupdict().items()},
        }
    return values


def _text(group: bytes | None) -> str | None:
    return None if group is None else group.decode("utf-8", "replace")


def _pattern(text: str) -> re.Pattern[bytes]:
    return re.compile(text.encode("utf-8", "surrogateescape"), re.MULTILINE)


def _waits(params: WaitForParams) -> str:
    if params.path is None and params.port is None:
        return f"wait {params.timeout:g} s"
    if params.path is not None:
        goal = f"{params.path} is {'there' if params.wanted else 'gone'}"
    else:
        goal = f"{params.host}:{params.port} {'answers' if params.wanted else 'no longer answers'}"
    return f"wait until {goal}" + (f" with {params.search_regex}" if params.search_regex else "")


def _timed_out(params: WaitForParams) -> str:
    """Ansible's words."""
    place = f"{params.host}:{params.port}"
    if params.search_regex is not None:
        return f"Timeout when waiting for search string {params.search_regex} in {params.path or place}"
    if params.wanted:
        return f"Timeout when waiting for {place if params.path is None else f'file {params.path}'}"
    return "Timeout when waiting for " + (
        f"{place} to stop." if params.path is None else f"{params.path} to be absent."
    )


def _pause(seconds: float, ctx: Context, message: str) -> None:
    """Sleep in short pieces: a progress line is also where an interrupted run ends."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        ctx.progress(Progress(message))
        time.sleep(min(left, 0.5))
