"""``wait_for``: wait until a port answers (or no longer does), or a path is there (or gone).

.. code-block:: yaml

    - wait_for: {port: 8000, timeout: 600}
    - wait_for: {path: /run/ready, state: present}
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from klops.actions.base import Action, Change, Context, Params, Plan, Probe, Progress, Seen, Step, View
from klops.commands.listing import parse
from klops.errors import TaskFailed
from klops.remote.reads import ListRead


class WaitForParams(Params):
    """``port`` at ``host`` as seen from the host, or ``path``; all times in seconds.

    ``state``: started or present, stopped or absent. ``delay`` passes before the first look.
    """

    host: str = "127.0.0.1"
    port: int | None = Field(default=None, ge=1, le=65535)
    path: str | None = None
    state: Literal["started", "stopped", "present", "absent"] = "started"
    timeout: float = Field(default=300, ge=0)
    delay: float = Field(default=0, ge=0)
    connect_timeout: float = Field(default=5, gt=0)
    sleep: float = Field(default=1, gt=0)
    msg: str | None = None

    @model_validator(mode="after")
    def _one_subject(self) -> WaitForParams:
        if (self.port is None) == (self.path is None):
            raise ValueError("give one of port and path")
        return self

    @property
    def wanted(self) -> bool:
        """Whether it waits for something to be there."""
        return self.state in ("started", "present")


@dataclass(frozen=True)
class Wait(Step):
    """Wait for a port or path."""

    params: WaitForParams
    changes: ClassVar[bool] = False

    def change(self) -> Change:
        """``wait until ...``."""
        return Change(f"wait until {_goal(self.params)}")

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Look, sleep, look again."""
        params = self.params
        began = time.monotonic()
        _pause(params.delay, ctx, f"waits {params.delay:g} s before it looks")
        look: Callable[[], bool] = (
            (lambda: _path_there(ctx, params)) if params.path else lambda: _answers(ctx, params)
        )
        while look() != params.wanted:
            elapsed = time.monotonic() - began
            if elapsed >= params.timeout:
                text = params.msg or f"after {params.timeout:g} s it is still not so that {_goal(params)}"
                raise TaskFailed(
                    text, hint="look at what should bring it about, or wait longer: timeout", code="timeout"
                )
            _pause(min(params.sleep, params.timeout - elapsed), ctx, f"waits until {_goal(params)}")
        return {"elapsed": int(time.monotonic() - began)}


class WaitFor(Action[WaitForParams]):
    """Wait for a port or path."""

    name = "wait_for"
    params = WaitForParams

    def probe(self, params: WaitForParams, view: View) -> Probe:
        """The path; a port is asked while waiting only."""
        return Probe((ListRead("path", (params.path,), follow=True),)) if params.path else Probe()

    def plan(self, params: WaitForParams, view: View, seen: Seen) -> Plan:
        """Nothing when a path already is as wanted, else the waiting."""
        result = {"state": params.state, "port": params.port, "path": params.path, "elapsed": 0}
        if params.path and not params.delay and bool(parse(seen.replies["path"].text)) == params.wanted:
            return Plan(result=result)
        return Plan((Wait(params),), result=result, unknown=f"it would wait until {_goal(params)}")


def _goal(params: WaitForParams) -> str:
    if params.path:
        return f"{params.path} is {'there' if params.wanted else 'gone'}"
    return f"{params.host}:{params.port} {'answers' if params.wanted else 'no longer answers'}"


def _answers(ctx: Context, params: WaitForParams) -> bool:
    assert params.port is not None  # noqa: S101 - one of port and path is given
    try:
        ctx.remote.connect(params.host, params.port, timeout=params.connect_timeout).close()
    except (ConnectionRefusedError, TimeoutError):
        return False
    except OSError as error:
        # nobody has looked: that is neither here nor gone
        raise TaskFailed(
            f"{params.host}:{params.port} can't be tried from the host: {error.strerror or error}",
            hint="does sshd there allow forwarding (AllowTcpForwarding), and does the name resolve?",
            code="not-tried",
        ) from error
    return True


def _path_there(ctx: Context, params: WaitForParams) -> bool:
    read = ListRead("path", (params.path or "",), follow=True)
    return bool(parse(ctx.remote.read([read])["path"].text))


def _pause(seconds: float, ctx: Context, message: str) -> None:
    """Sleep in short pieces: a progress line is also where an interrupted run ends."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        ctx.progress(Progress(message))
        time.sleep(min(left, 0.5))
