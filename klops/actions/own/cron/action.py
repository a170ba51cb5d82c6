"""``klops.cron``: what has the host run klops' pass again and again, by cron or a timer of systemd.

.. code-block:: yaml

    - klops.cron: {state: present}
    - klops.cron: {state: present, scheduler: systemd}
    - klops.cron: {state: absent}
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from klops.actions.base import Action, Context, Params, Plan, Probe, Seen, Step, View
from klops.actions.own.cron import timer
from klops.actions.own.cron.look import Look, reads, timer_path
from klops.actions.own.cron.steps import ProveFile
from klops.actions.steps import Remove, WriteFile
from klops.actions.system.cron import InstallCrontab
from klops.commands import schedule
from klops.errors import KlopsError, TaskFailed
from klops.remote.placing import NOTHING, digest_of


class CronParams(Params):
    """``scheduler``: in place of that of the settings. ``required``: a host without cron is a failure."""

    state: Literal["present", "absent"] = "present"
    scheduler: Literal["auto", "cron", "systemd"] | None = None
    required: bool = False


class CronAction(Action[CronParams]):
    """One entry for the pass of this host, in one place."""

    name: ClassVar[str] = "klops.cron"
    params = CronParams

    def probe(self, params: CronParams, view: View) -> Probe:
        """Where entries of klops may be; what a reload of systemd would do, where one is asked for."""
        if _scheduler(params, view) == "none":
            return Probe()
        more = timer.reads(view.settings) if _scheduler(params, view) == "systemd" else ()
        return Probe(reads=(*reads(view.settings), *more))

    def plan(self, params: CronParams, view: View, seen: Seen) -> Plan:
        """What is missing is written, what is elsewhere removed."""
        scheduler = _scheduler(params, view)
        if scheduler == "none":
            return Plan(skipped="klops.cleanup.scheduler is none")
        try:
            look = Look.of(seen.replies, view.settings)
            if params.state == "absent":
                return _absent(look, required=params.required)
            if scheduler == "systemd":
                return _by_systemd(look, view, seen)
            return _by_cron(look, view, required=params.required or scheduler == "cron")
        except KlopsError as error:
            return Plan(failure=error)

    def apply(self, plan: Plan, ctx: Context) -> dict[str, Any]:
        """As planned; of the files themselves nothing is registered."""
        super().apply(plan, ctx)
        return {}


def _scheduler(params: CronParams, view: View) -> str:
    if params.scheduler is not None:
        return params.scheduler
    scheduler = view.settings.cleanup.scheduler
    # what was asked for by name is removed even where klops up would install nothing, and installed as auto
    return "auto" if scheduler == "none" and (params.required or params.state == "absent") else scheduler


def _by_cron(look: Look, view: View, *, required: bool) -> Plan:
    if look.by_file:
        return _by_file(look, view, required=required)
    if look.crontab_error is not None:
        if required:
            raise look.crontab_error
        text = f"{_told(look.crontab_error)}: nothing is put into it"
        return Plan(result=look.as_json(), message="no crontab", warnings=(text,))
    if look.has_crontab:
        return _by_crontab(look, view)
    text = "the host has neither /etc/cron.d for root nor a crontab program: nothing runs klops' pass there"
    hint = "install cron there, or set klops.cleanup.scheduler: systemd, or none"
    if required:
        raise TaskFailed(text, hint=hint, code="no-cron")
    return Plan(result=look.as_json(), message="no cron", warnings=(f"{text}; {hint}",))


def _by_file(look: Look, view: View, *, required: bool) -> Plan:
    settings = view.settings
    if look.foreign:
        refused = _shared(look, (look.path,))
        if required:
            raise refused
        return Plan(result=look.as_json(), message=f"{look.path} stays", warnings=(_told(refused),))
    text = schedule.file_text(settings.root, settings.container.name, settings.cleanup.schedule)
    content, steps = text.encode(), []
    if look.file != content or look.refusals:
        known = NOTHING if look.file is None else digest_of(look.file)
        before = "" if look.file is None else look.file.decode("utf-8", "replace")
        owner = (schedule.OWNER, 0)
        steps.append(
            WriteFile(look.path, content, schedule.MODE, before, text, owner, report=False, seen=known)
        )
    others = _removals(look, keep=look.path)
    proof = (ProveFile(look.path),) if steps else ()
    return _plan(look, (*steps, *proof, *others), "cron", look.path, settings.cleanup.schedule)


def _by_crontab(look: Look, view: View) -> Plan:
    settings = view.settings
    after = schedule.with_entry(look.crontab, settings.root, settings.cleanup.schedule)
    steps: tuple[Step, ...] = ()
    if schedule.entries(after, settings.root) != schedule.entries(look.crontab, settings.root):
        steps = (InstallCrontab("", look.crontab, after, seen=look.crontab_digest),)
    others = _removals(look, keep="crontab")
    return _plan(look, (*steps, *others), "cron", "crontab", settings.cleanup.schedule)


def _by_systemd(look: Look, view: View, seen: Seen) -> Plan:
    settings = view.settings
    if not look.root_user:
        hint = "connect as root (ansible_become: true), or set klops.cleanup.scheduler: cron"
        raise TaskFailed("only root can have a timer of systemd", hint=hint, code="systemd")
    steps = timer.steps(look, settings, seen.replies)
    path = timer_path(settings.root)
    return _plan(look, (*steps, *_removals(look, keep=path)), "systemd", path, settings.cleanup.schedule)


def _absent(look: Look, *, required: bool) -> Plan:
    if look.crontab_error is not None and required and not look.by_file:
        raise look.crontab_error
    if look.root_user and look.shared and required:
        raise _shared(look, look.shared)
    result = _after_removal(look).as_json()
    message = {
        True: f"still scheduled by {result['file']}",
        False: "not scheduled",
        None: "whether it is still scheduled can't be told",
    }[result["installed"]]
    steps = _removals(look, keep="")
    return Plan(steps=steps, result=result, message=message, warnings=tuple(_left(look)))


def _after_removal(look: Look) -> Look:
    """What is still there after :func:`_removals` with nothing to keep."""
    rest = replace(look, crontab=schedule.without_entry(look.crontab, look.root))
    if not look.root_user:
        return rest
    file = look.file if look.path in look.shared else None
    return replace(rest, files=look.shared, file=file, units=())


def _shared(look: Look, paths: Sequence[str]) -> TaskFailed:
    lines = f": {'; '.join(look.foreign)}" if look.path in paths and look.foreign else ""
    return TaskFailed(
        f"somebody else has lines beside klops' in {' and '.join(paths)}, which stays as it is{lines}",
        hint="move those lines to a file of their own, or take klops' out by hand; then do this again",
        code="cron-shared",
        values=look.as_json(),
    )


def _removals(look: Look, *, keep: str) -> tuple[Step, ...]:
    """Entries for the same root in any place but the one to keep; what is root's only root removes."""
    steps: list[Step] = []
    if look.root_user:
        own = [path for path in look.files if path not in look.shared]
        steps += [Remove(path, "file") for path in own if path != keep]
        names = sorted({posixpath.splitext(path)[0] for path in look.units})
        if keep not in {f"{name}.timer" for name in names}:
            steps += timer.removal(look.units)
    without = schedule.without_entry(look.crontab, look.root)
    if keep != "crontab" and without != look.crontab:
        steps.append(InstallCrontab("", look.crontab, without, seen=look.crontab_digest))
    return tuple(steps)


def _plan(look: Look, steps: tuple[Step, ...], scheduler: str, file: str, when: str) -> Plan:
    now = {"scheduler": scheduler, "file": file, "schedule": when, "installed": True}
    daemon = {"daemon": True} if scheduler == "systemd" else {}
    result = {**look.as_json(when=when), **now, **daemon}
    warnings = []
    if scheduler == "cron" and not look.daemon:
        warnings.append("no cron daemon is seen at work on the host: until one is, nothing runs klops' pass")
    warnings += _left(look, keep=file)
    return Plan(steps=steps, result=result, message=f"{when} by {file}", warnings=tuple(warnings))


def _left(look: Look, *, keep: str = "") -> list[str]:
    """Warnings of entries that stay, but for the one to keep."""
    found = [] if look.crontab_error is None else [f"{_told(look.crontab_error)}: an entry in it would stay"]
    if not look.root_user:
        return found + [_not_ours(path) for path in (*look.files, *look.units)]
    return found + [_more_in(path) for path in look.shared if path != keep]


def _told(error: KlopsError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message


def _more_in(path: str) -> str:
    return f"{path} runs the same pass, and has lines of somebody else: take klops' own out of it"


def _not_ours(path: str) -> str:
    return f"{path} runs the same pass as root, and can't be removed by this user: sudo rm {path}"
