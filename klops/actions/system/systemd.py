"""``systemd`` (also ``systemd_service``): a unit that runs or not, starts at boot or not.

.. code-block:: yaml

    - systemd: {name: klops-clean.timer, state: started, enabled: true, daemon_reload: true}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import AliasChoices, Field, field_validator, model_validator

from klops.actions.base import Action, Change, Context, Params, Plan, Probe, Seen, Step, View
from klops.actions.touched import Touched
from klops.commands.systemd import Unit, unit
from klops.errors import TaskFailed
from klops.remote.systemreads import UnitRead


class SystemdParams(Params):
    """As Ansible's. ``scope: global`` is about what starts for every user: it has no state."""

    name: str | None = Field(default=None, validation_alias=AliasChoices("name", "service", "unit"))
    state: Literal["started", "stopped", "restarted", "reloaded"] | None = None
    enabled: bool | None = None
    masked: bool | None = None
    daemon_reload: bool = Field(
        default=False, validation_alias=AliasChoices("daemon_reload", "daemon-reload")
    )
    daemon_reexec: bool = Field(
        default=False, validation_alias=AliasChoices("daemon_reexec", "daemon-reexec")
    )
    scope: Literal["system", "user", "global"] = "system"
    no_block: bool = False
    force: bool = False

    @field_validator("name")
    @classmethod
    def _one_unit(cls, name: str | None) -> str | None:
        if name is not None and (not name or name.startswith("-") or any(one in name for one in "*?[")):
            raise ValueError(f"{name!r} is no name of one unit: patterns are not looked up, write a loop")
        return name

    @model_validator(mode="after")
    def _something_to_do(self) -> SystemdParams:
        about_a_unit = self.state is not None or self.enabled is not None or self.masked is not None
        if not about_a_unit and not self.daemon_reload and not self.daemon_reexec:
            raise ValueError("give one of state, enabled, masked, daemon_reload and daemon_reexec")
        if about_a_unit and self.name is None:
            raise ValueError("state, enabled and masked need name")
        if self.scope == "global" and self.state is not None:
            raise ValueError("scope: global has no state: units of users are started in scope: user")
        return self


@dataclass(frozen=True)
class Systemctl(Step):
    """One call of systemctl. ``words`` come behind its options."""

    words: tuple[str, ...]
    scope: str = "system"
    options: tuple[str, ...] = ()

    #: ``sh -c USER NAME WORDS...``: a user's manager is found by a variable that only a session has
    USER: ClassVar[str] = (
        'export XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-/run/user/$(id -u)}"; exec systemctl "$@"'
    )

    def touches(self) -> tuple[Touched, ...]:
        """The unit that comes behind the verb."""
        return tuple(Touched(UnitRead("", name, self.scope).looks[0]) for name in self.words[1:])

    def change(self) -> Change:
        """``systemctl start NAME``."""
        return Change(" ".join(("systemctl", *self.words)))

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Systemctl; with no time limit of klops' own, a unit's start has one of its own."""
        scope = () if self.scope == "system" else (f"--{self.scope}",)
        argv = (*scope, *self.options, *self.words)
        program = ("sh", "-c", self.USER, "klops-systemctl") if self.scope == "user" else ("systemctl",)
        done = ctx.remote.run([*program, *argv], timeout=None, check=False)
        if done.rc:
            said = (done.error_text or done.text).strip()
            raise TaskFailed(
                f"systemctl {' '.join(self.words)} ended with {done.rc}" + (f": {said}" if said else ""),
                hint="see systemctl status and journalctl -u on the host",
                code="systemd",
            )
        return None


@dataclass(frozen=True)
class ReadAgain(Systemctl):
    """The manager reads its files again: as in Ansible that counts as no change."""

    changes: ClassVar[bool] = False


class Systemd(Action[SystemdParams]):
    """State of one unit."""

    name = "systemd"
    params = SystemdParams

    def probe(self, params: SystemdParams, view: View) -> Probe:
        """What systemd says of the unit."""
        return Probe(() if params.name is None else (UnitRead("unit", params.name, params.scope),))

    def plan(self, params: SystemdParams, view: View, seen: Seen) -> Plan:
        """Reload what the manager knows, then mask, enable and start as far as it isn't so."""
        given = {"--no-block": params.no_block, "--force": params.force}
        options = tuple(option for option, wanted in given.items() if wanted)
        asked = {"daemon-reload": params.daemon_reload, "daemon-reexec": params.daemon_reexec}
        first = [ReadAgain((word,), params.scope, options) for word, wanted in asked.items() if wanted]
        result: dict[str, Any] = {"name": params.name, "status": {}}
        if params.name is None:
            return Plan(tuple(first), result=result)
        there = _unit(params, seen)
        result["status"] = dict(there.status)
        words = _words(params, there, result)
        unknown = ""
        if not there.found and params.scope != "global" and (params.state or params.enabled is not None):
            if not params.daemon_reload:
                raise TaskFailed(
                    f"Could not find the requested service {params.name}: host",
                    hint="is the unit's file there? after it was written: daemon_reload: true",
                    code="absent",
                )
            unknown = f"systemd knows no unit {params.name} before it has read its files again"
        made = [Systemctl((word, params.name), params.scope, options) for word in words]
        return Plan((*first, *made), result=result, unknown=unknown if view.check else "")


class SystemdService(Systemd):
    """The same under its newer name."""

    name = "systemd_service"


def _unit(params: SystemdParams, seen: Seen) -> Unit:
    reply = seen.replies["unit"]
    if reply.rc == 127:
        raise TaskFailed("the host has no systemctl", hint="it isn't run by systemd", code="no-systemd")
    if not reply.ok:
        raise TaskFailed(f"systemd can't be asked: {reply.error_text.strip()}", code="no-systemd")
    there = unit(reply.text)
    if there.found and there.load_error:
        raise TaskFailed(f"Error loading unit file '{params.name}': {there.load_error}", code="systemd")
    return there


def _words(params: SystemdParams, there: Unit, result: dict[str, Any]) -> list[str]:
    """What has to be done, in systemctl's words and in order; notes in ``result`` how the unit will be."""
    words: list[str] = []
    if params.masked is not None and params.masked != there.masked:
        words.append("mask" if params.masked else "unmask")
    if params.enabled is not None:
        result["enabled"] = params.enabled
        if params.enabled != there.enabled:
            words.append("enable" if params.enabled else "disable")
    if params.state is not None:
        result["state"] = "started" if params.state in ("restarted", "reloaded") else params.state
        if params.state == "stopped":
            words += ["stop"] if there.running or there.stopping else []
        elif not there.running:
            words.append("start")
        elif params.state != "started":
            words.append(params.state.removesuffix("ed"))
    return words
