"""From what went wrong to the result of a task: where the mistake stands, and what may be said of it."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from klops.actions.base import Change
from klops.errors import Interrupted, KlopsError
from klops.log import get_logger
from klops.playbook.model import Task
from klops.playbook.results import TaskResult
from klops.playbook.tasks.outcome import failed, unknown
from klops.playbook.tasks.surroundings import Surroundings

#: codes of failures that an earlier task may prevent by what it makes
_MAY_COME = ("absent", "no-such-user", "no-such-group")
#: codes of mistakes in what the author wrote
_WRITTEN = ("template", "undefined", "parameters", "condition", "loop", "keyword", "delegate")


@dataclass
class Failures:
    """For one host of a play. ``tentative``: check mode, and an earlier task would have changed something or
    may have."""

    host: str
    around: Surroundings
    tentative: bool = False

    def result(
        self,
        error: KlopsError,
        task: Task,
        warnings: Sequence[str] = (),
        done: Sequence[Change] = (),
        values: Mapping[str, Any] | None = None,
    ) -> TaskResult:
        """The task failed after it had ``done`` something; ``values`` are what its plan registers."""
        if self.tentative and error.code in _MAY_COME:
            return unknown(
                f"as things are it would fail, but an earlier task may change that: {error.message}"
            )
        return failed(placed(error, task), warnings, done, values)

    def of_any(self, error: Exception, task: Task) -> KlopsError:
        """What is to be told of an exception, whatever it is."""
        if self.around.cancelled.is_set():
            # connections were closed under the task: whatever that looks like, this is what it is
            return error if isinstance(error, Interrupted) else Interrupted("interrupted")
        if isinstance(error, KlopsError):
            return placed(error, task)
        # of a task with no_log not even the error's text, which may show what the task is about
        lines = traceback.format_tb(error.__traceback__) if task.no_log else traceback.format_exception(error)
        trace = self.around.redactor("".join(lines))
        log = get_logger("klops.playbook")
        log.debug("fault of klops", host=self.host, task=self.around.redactor(task.name), traceback=trace)
        text = f"a fault of klops in {task.action.name}: {type(error).__name__}"
        if not task.no_log:
            text = f"{text}: {error}"
        return KlopsError(text, hint="run it again with -v and report what it shows", code="internal")


def placed(error: KlopsError, task: Task) -> KlopsError:
    """Mistakes in what the author wrote say where that is."""
    where = f"{task.location}: "
    if error.code in _WRITTEN and not error.message.startswith(where):
        return error.but(message=where + error.message)
    return error
