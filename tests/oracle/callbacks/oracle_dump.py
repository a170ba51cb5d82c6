"""A callback of ansible-playbook that writes what happened as JSON lines to the file ``$ORACLE_DUMP``.

One line an event: ``{"play"}``, ``{"task", "action", "host", "status", "ignored", "result"}``,
``{"recap": {HOST: {...}}}``.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: oracle_dump
type: stdout
short_description: writes results as JSON lines
description: For tests.
"""

_COUNTS = ("ok", "changed", "unreachable", "failures", "skipped", "rescued", "ignored")


class CallbackModule(CallbackBase):  # type: ignore[misc] # ansible has no types
    """Results in the order in which they come."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "oracle_dump"

    def _write(self, **event: Any) -> None:
        with open(os.environ["ORACLE_DUMP"], "a", encoding="utf-8") as sink:  # noqa: PTH123 - one line
            sink.write(json.dumps(event, default=str) + "\n")

    def _task(self, result: Any, status: str, ignored: bool = False) -> None:
        task = result._task
        self._write(
            task=task.get_name().strip(),
            action=task.action,
            host=result._host.get_name(),
            status=status,
            ignored=ignored,
            result=json.loads(json.dumps(result._result, default=str)),
        )

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """A play, or a batch of one."""
        self._write(play=play.get_name().strip())

    def v2_runner_on_ok(self, result: Any) -> None:
        """Ok or changed."""
        self._task(result, "changed" if result._result.get("changed") else "ok")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Failed, and perhaps ignored."""
        self._task(result, "failed", bool(ignore_errors))

    def v2_runner_on_skipped(self, result: Any) -> None:
        """Skipped."""
        self._task(result, "skipped")

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Unreachable."""
        self._task(result, "unreachable")

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """The recap."""
        hosts = sorted(stats.processed)
        self._write(
            recap={
                host: {name.replace("failures", "failed"): stats.summarize(host)[name] for name in _COUNTS}
                for host in hosts
            }
        )
