"""The way back from a recreation that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klops.actions.base import Context, Progress
from klops.actions.own.container.aside import Aside, way_back
from klops.actions.own.container.calm import calm
from klops.actions.own.records import Recreation
from klops.actions.own.services.wait import WaitReady
from klops.errors import HostUnreachable, Interrupted, KlopsError, LockHeld, TaskFailed

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

CODE = "recreate-failed"


def go_back(ctx: Context, settings: Settings, record: Recreation, why: KlopsError) -> KlopsError:
    """Put the old container back with its units, and return the error that tells of both.

    Only the waiting for units can be interrupted: they start by themselves. Raises
    :class:`HostUnreachable` when the host is gone, and :class:`LockHeld` when somebody else may be at work;
    the record on it then tells what is left to do.
    """
    old = f"the old container {record.name} ({record.id[:12]})"
    try:
        with calm(ctx) as quiet:
            quiet.progress(Progress(f"putting the old container {record.name} back"))
            aside = Aside(quiet, settings, record)
            aside.give_back()
            aside.revive()
            if record.ran and record.units:
                aside.forget()
            else:
                aside.drop()
    except (HostUnreachable, LockHeld):
        raise
    except KlopsError as second:
        return _stuck(ctx, record, why, second, f"{old} could not be put back: {second.message}")
    if isinstance(why, Interrupted):
        return why.but(message=f"interrupted; {_back(ctx, old, record)}")
    lacking = _lacking(ctx, settings, record)
    if isinstance(lacking, Interrupted):
        return lacking.but(message=f"{_failed(record, why)}; {old} is back; {lacking.message}")
    if lacking is not None:
        message = f"{_failed(record, why)}\n{old} is back and runs, but: {lacking.message}"
        return TaskFailed(message, code=CODE, hint=lacking.hint)
    serves = f"{old} is back" + (f", and serves: {', '.join(record.units)}" if record.units else "")
    if not record.ran:
        serves = _stopped(ctx, old, record)
    return TaskFailed(f"{_failed(record, why)}\n{serves}", code=CODE, hint=why.hint)


def _failed(record: Recreation, why: KlopsError) -> str:
    return f"container {record.name} was not made anew: {why.message}"


def _back(ctx: Context, old: str, record: Recreation) -> str:
    if not record.ran:
        return _stopped(ctx, old, record)
    units = f", its services are starting: {', '.join(record.units)}" if record.units else ""
    return f"{old} is back{units}"


def _stopped(ctx: Context, old: str, record: Recreation) -> str:
    """Of one that didn't run: no agent could keep its units, and none is there to bring them back."""
    text = f"{old} has its name again, stopped as it was"
    if not record.units:
        return text
    return (
        f"{text}; its services ({', '.join(record.units)}) may have the settings of this run now, and be "
        f"recorded as stopped: klops up {ctx.view.host} starts them"
    )


def _stuck(ctx: Context, record: Recreation, why: KlopsError, second: KlopsError, text: str) -> KlopsError:
    hint = way_back(record, ctx.view.host, second)
    if isinstance(why, Interrupted):
        return why.but(message=f"{why.message}; {text}", hint=hint)
    return TaskFailed(f"{_failed(record, why)}\n{text}", code=CODE, hint=hint)


def _lacking(ctx: Context, settings: Settings, record: Recreation) -> KlopsError | None:
    """Wait until the units are ready; why they aren't, None when they are."""
    if not record.ran:
        return None
    try:
        for name in record.units:
            # of one that is no longer in the settings nobody knows how long it may take
            if name in settings.services:
                WaitReady(settings, ctx.view.host, name).carry_out(ctx)
    except HostUnreachable:
        raise
    except KlopsError as error:
        return error
    return None
