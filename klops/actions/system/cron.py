"""``cron``: one entry of a crontab, or one variable in it, known by its name.

.. code-block:: yaml

    - cron: {name: clean up, minute: "15", hour: "3", job: /opt/klops/clean}
    - cron: {name: clean up, state: absent}
    - cron: {name: MAILTO, env: true, value: root, cron_file: klops, user: root}
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import AliasChoices, Field, field_validator, model_validator

from klops.actions.base import Action, Change, Context, Params, Plan, Probe, Seen, Step, View
from klops.actions.files.attributes import found
from klops.actions.steps import Remove, WriteFile
from klops.actions.touched import Becomes, Touched
from klops.commands import cron
from klops.errors import CommandFailed, TaskFailed
from klops.remote.base import Reply
from klops.remote.placing import CHANGED, NOTHING, PLACING, changed_meanwhile, digest_of, put_input
from klops.remote.reads import FileRead, PathRead
from klops.remote.systemreads import CrontabRead

Special = Literal["annually", "daily", "hourly", "monthly", "reboot", "weekly", "yearly"]
_TIMES = ("minute", "hour", "day", "month", "weekday")
_FOLDER = "/etc/cron.d"
#: bytes of a crontab; a larger one is none
SIZE_LIMIT = 1024 * 1024


class CronParams(Params):
    """``name`` is the entry's, or the variable's (``env``). ``cron_file``: a file below ``/etc/cron.d``."""

    name: str
    job: str | None = Field(default=None, validation_alias=AliasChoices("job", "value"))
    state: Literal["present", "absent"] = "present"
    user: str | None = None
    cron_file: str | None = None
    backup: bool = False
    minute: str = "*"
    hour: str = "*"
    day: str = Field(default="*", validation_alias=AliasChoices("day", "dom"))
    month: str = "*"
    weekday: str = Field(default="*", validation_alias=AliasChoices("weekday", "dow"))
    special_time: Special | None = None
    disabled: bool = False
    env: bool = False
    insertafter: str | None = None
    insertbefore: str | None = None

    @field_validator(*_TIMES)
    @classmethod
    def _one_field(cls, value: str) -> str:
        if not value or value.split() != [value]:
            raise ValueError(f"{value!r} is no field of a crontab: one word, such as 0,30 or */5")
        return value

    @field_validator("cron_file")
    @classmethod
    def _would_run(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if value == "/etc/crontab":
            raise ValueError("/etc/crontab is the system's own: give a name, which is put into /etc/cron.d")
        name = posixpath.basename(value)
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            raise ValueError(
                f"cron never runs a file called {name!r}: only letters, digits, _ and - will do (no dot)"
            )
        return value

    @model_validator(mode="after")
    def _fit_together(self) -> CronParams:
        self._check_texts()
        if self.special_time and any(getattr(self, one) != "*" for one in _TIMES):
            raise ValueError(f"special_time goes with none of {', '.join(_TIMES)}")
        if self.state == "present":
            if self.job is None:
                raise ValueError("state: present needs job (for a variable: value)")
            if self.cron_file is not None and self.user is None:
                raise ValueError("cron_file needs user: who the job runs as")
        if self.insertafter is not None and self.insertbefore is not None:
            raise ValueError("give one of insertafter and insertbefore")
        if not self.env and (self.insertafter is not None or self.insertbefore is not None):
            raise ValueError("insertafter and insertbefore go with env: true")
        if self.env and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.name):
            raise ValueError(f"{self.name!r} is no name of a variable")
        return self

    def _check_texts(self) -> None:
        if "\n" in self.name or "\r" in self.name or not self.name.strip():
            raise ValueError("name is one line of text")
        if self.job is not None and re.search(r"[\r\n]", self.job.strip("\r\n")):
            raise ValueError(
                "a job is one line, what follows would be read as entries of their own: "
                "join the commands with ; or put them into a script"
            )

    @property
    def path(self) -> str | None:
        """The file, when it is no user's crontab."""
        return None if self.cron_file is None else posixpath.join(_FOLDER, self.cron_file)


@dataclass(frozen=True)
class InstallCrontab(Step):
    """Give a user another crontab: ``crontab -`` checks it and takes it whole, or leaves the old one."""

    user: str
    before: str
    after: str
    backup: bool = False
    #: sha256 of the crontab as it was listed; "" for whatever it is
    seen: str = ""

    #: ``sh -c BACKUP``: standard input in a file of its own among the temporary ones, as Ansible does
    BACKUP: ClassVar[str] = r"""
umask 077
f=$(mktemp "${TMPDIR:-/tmp}/crontabXXXXXXXX") && cat >"$f" && printf %s "$f"
"""

    #: ``sh -c INSTALL NAME USER``, what was seen (one line) and the new one on standard input; -u is for root
    #: only, even for one's own
    INSTALL: ClassVar[str] = (
        PLACING
        + r"""
user=$1
set --
if [ -n "$user" ] && [ "$(id -un)" != "$user" ]; then set -- -u "$user"; fi
IFS= read -r seen || exit 74
if [ -n "$seen" ]; then
  now=$(crontab "$@" -l 2>/dev/null </dev/null | digest)
  [ -z "$now" ] || [ "$now" = "$seen" ] || exit 75
fi
exec crontab "$@" -
"""
    )

    def touches(self) -> tuple[Touched, ...]:
        """The crontab, whole."""
        (crontab,) = CrontabRead("", self.user).looks
        return (Touched(crontab, Becomes.FILE, content=self.after.encode()),)

    def change(self) -> Change:
        """``crontab of USER``."""
        return Change(f"crontab of {self.user or 'this user'}", self.before, self.after)

    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Crontab reads it from standard input."""
        result: dict[str, Any] = {}
        if self.backup:
            argv = ["sh", "-c", self.BACKUP]
            result["backup_file"] = ctx.remote.run(argv, stdin=self.before.encode()).text
        argv = ["sh", "-c", self.INSTALL, "klops-crontab", self.user]
        done = ctx.remote.run(argv, stdin=put_input(self.after.encode(), self.seen), check=False)
        if done.rc == CHANGED:
            if self.backup:
                # the next plan makes its own
                ctx.remote.run(["rm", "-f", "--", result["backup_file"]], check=False)
            raise changed_meanwhile(self.change().what)
        if done.rc:
            said = done.error_text.strip()
            raise CommandFailed(f"{self.change().what} was not installed: {said}", rc=done.rc, stderr=said)
        return result


class Cron(Action[CronParams]):
    """One entry or variable of a crontab."""

    name = "cron"
    params = CronParams

    def probe(self, params: CronParams, view: View) -> Probe:
        """The crontab."""
        if params.path is not None:
            crontab = FileRead("crontab", params.path, SIZE_LIMIT + 1)
            return Probe((PathRead("entry", (params.path,)), crontab))
        return Probe((CrontabRead("crontab", params.user or ""),))

    def plan(self, params: CronParams, view: View, seen: Seen) -> Plan:
        """Write the crontab if what is wanted changes it."""
        had = _text(params, seen)
        lines = cron.lines_of(had, listed=params.path is None)
        before = had if params.path is not None else "\n".join(lines) + ("\n" if had.endswith("\n") else "")
        new = _edited(params, lines)
        cron_file = {"cron_file": params.cron_file} if params.cron_file is not None else {}
        emptied = params.state == "absent" and not params.env and new != lines
        if params.path is not None and emptied and not any(map(str.strip, new)):
            return Plan((Remove(params.path, "file"),), result={**cron_file, "state": "absent"})
        result: dict[str, Any] = {"jobs": cron.names(new), "envs": cron.variables(new), **cron_file}
        if new == lines and (not before or before.endswith("\n")):
            return Plan(result=result)
        after = cron.text_of(new)
        if params.path is None:
            known = digest_of(seen.replies["crontab"].stdout)
            step: Step = InstallCrontab(params.user or "", before, after, params.backup, known)
        else:
            there = found(seen.replies["entry"]).target
            mode = there.mode if there else 0o644
            owner = (there.uid, there.gid) if there else None
            backup = params.path if params.backup and there is not None else ""
            known = NOTHING
            if seen.replies["entry"].ok:
                known = digest_of(seen.replies["crontab"].stdout)
            content = after.encode()
            step = WriteFile(
                params.path, content, mode, before, after, owner, backup, report=False, seen=known
            )
        return Plan((step,), result=result)

    def apply(self, plan: Plan, ctx: Context) -> dict[str, Any]:
        """As planned; of the file itself nothing is registered."""
        added = super().apply(plan, ctx)
        return {"backup_file": added["backup_file"]} if "backup_file" in added else {}


def _text(params: CronParams, seen: Seen) -> str:
    """The crontab as it is; "" for none. Raises :class:`TaskFailed` when that can't be told."""
    reply = seen.replies["crontab"]
    if reply.ok or params.path is None:
        return listed(reply)
    if not seen.replies["entry"].ok:
        return ""
    raise TaskFailed(f"{params.path} can't be read: {reply.error_text.strip()}", code="unreadable")


def listed(reply: Reply) -> str:
    """The crontab that was read; "" for none. Raises :class:`TaskFailed` when that can't be told."""
    if len(reply.stdout) > SIZE_LIMIT:
        hint = "is it a crontab? what is beyond that would be lost"
        raise TaskFailed(f"the crontab is larger than {SIZE_LIMIT >> 20} MiB", hint=hint, code="too-large")
    if reply.ok:
        try:
            return reply.stdout.decode("utf-8")
        except UnicodeDecodeError as error:
            hint = "klops would spoil it: change it by hand, to UTF-8 first"
            raise TaskFailed("the crontab is not UTF-8 text", hint=hint, code="unreadable") from error
    if reply.rc == 127:
        raise TaskFailed("the host has no crontab program", hint="install cron there", code="no-cron")
    said = reply.error_text.strip()
    if reply.rc == 1 and (not said or "no crontab" in said.lower() or "can't open" in said.lower()):
        return ""
    raise TaskFailed(f"the crontab can't be read: {reply.error_text.strip()}", code="unreadable")


def _edited(params: CronParams, lines: list[str]) -> list[str]:
    if params.env:
        if params.state == "absent":
            return cron.without_variable(lines, params.name)
        try:
            return cron.with_variable(
                lines, params.name, params.job or "", after=params.insertafter, before=params.insertbefore
            )
        except cron.NoSuchVariableError as error:
            raise TaskFailed(f"Variable named '{error}' not found.", code="absent") from error
    if params.state == "absent":
        return cron.without_entry(lines, params.name)
    special = params.special_time or ""
    schedule = cron.Schedule(params.minute, params.hour, params.day, params.month, params.weekday, special)
    user = params.user or "" if params.path is not None else ""
    job = (params.job or "").strip("\r\n")
    return cron.with_entry(lines, params.name, schedule.line(job, user=user, disabled=params.disabled))
