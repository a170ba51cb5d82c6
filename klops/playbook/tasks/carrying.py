"""Carrying a plan out: the lock, the hook of the handlers, the steps, and a connection lost among them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from klops.actions.base import Context, Plan, Progress
from klops.errors import (
    ChangedMeanwhile,
    ConnectionLost,
    HostUnreachable,
    Interrupted,
    KlopsError,
    LockHeld,
    ReadOnlyViolation,
)
from klops.playbook.model import Task
from klops.playbook.tasks.outcome import Done
from klops.playbook.tasks.place import Place
from klops.playbook.tasks.rendering import Ready
from klops.playbook.tasks.surroundings import Notes
from klops.playbook.tasks.taking import Taking


@dataclass(frozen=True)
class Carrying:
    """How the plans of one task on one host are carried out.

    ``look`` plans the task anew by what the host says now; ``done`` takes down what was changed and said.
    """

    task: Task
    home: Place
    look: Callable[[Ready], Plan]
    done: Done
    progress: Callable[[Progress], None]
    cancelled: threading.Event
    notes: Notes | None

    def apply(self, ready: Ready, plan: Plan) -> tuple[dict[str, Any], str | None]:
        """What the steps add to the result, and a message in place of the plan's own."""
        try:
            return self._carry_out(ready, plan), None
        except (ConnectionLost, ChangedMeanwhile) as error:
            if self.cancelled.is_set():
                raise
            lost = isinstance(error, ConnectionLost)
            again = self._plan_again(ready, error)
            why = "the connection was lost in mid-change" if lost else "somebody else made a change meanwhile"
            message = f"{why}; the host was asked again, and " + (
                "the rest was done by a new plan" if again.steps else "nothing was left to do"
            )
            return self._carry_out(ready, again) if again.steps else dict(again.result), message

    def _plan_again(self, ready: Ready, lost: ConnectionLost | ChangedMeanwhile) -> Plan:
        """What is left to do. A change is never repeated without having looked."""
        ready.place.changed()
        try:
            again = self.look(ready)
        except HostUnreachable as error:
            text = f"{lost.message}; the host could not be asked again: {error.message}"
            raise ConnectionLost(text, hint=error.hint) from error
        if again.unknown and isinstance(lost, ConnectionLost):
            # nothing on the host tells whether it had its effect
            text = f"{lost.message}: whether {again.steps[0].change().what!r} had its effect is not known"
            raise ConnectionLost(text, hint="look at the host before you run it again") from lost
        if again.failure is not None:
            raise again.failure
        return again

    def _carry_out(self, ready: Ready, plan: Plan) -> dict[str, Any]:
        place, lock = ready.place, Taking(ready.place.lock)
        changing = [step for step in plan.steps if step.changes and step.on_host]
        if changing and changing[0].awaits_lock:
            lock.begin()
        elif changing:
            lock.wait()
        if self.notes is not None and self.task.notify and plan.changes:
            # the note is kept on the host itself, wherever the task runs
            self.home.lock()
            self.notes.before_change(self.task)
        try:
            context = Context(
                place.remote(),
                ready.view,
                self._heard,
                self.done.said.append,
                self.done.changes,
                place.host.restarting,
                place.host.still_ours,
                lock.wait,
            )
            told = self.task.action.apply(plan, context)
        finally:
            # without it nothing was done
            if not changing or lock.held():
                self.done.times += 1
                place.changed()
        place.host.told = told
        return told

    def _heard(self, now: Progress) -> None:
        if self.cancelled.is_set():
            raise Interrupted("interrupted")
        self.progress(now)


def of_the_module(error: KlopsError) -> bool:
    """Whether a task's own conditions may judge an error; others are klops' own."""
    return not isinstance(error, (LockHeld, ReadOnlyViolation, Interrupted)) and error.code != "internal"
