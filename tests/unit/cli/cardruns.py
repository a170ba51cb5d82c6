"""Runs of the playbooks about cards, as the engine would report them, for what the commands make of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from klops.cli import running
from klops.cli.session import Session
from klops.errors import KlopsError
from klops.playbook.results import PlayRun, RunResult, Status, TaskResult, TaskRun
from klops.secret import Secret


@dataclass
class Ran:
    """What the next run ends with, and what the runs so far were asked. ``secret`` is learned in a run."""

    found: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    errors: dict[str, KlopsError] = field(default_factory=dict)
    secret: str = ""
    playbooks: list[str] = field(default_factory=list)
    extra: list[dict[str, Any]] = field(default_factory=list)
    limits: list[list[str]] = field(default_factory=list)
    checks: list[bool] = field(default_factory=list)

    def result(self, *, check: bool) -> RunResult:
        """As the engine builds it: a task that failed has registered what it knew."""
        hosts = tuple(dict.fromkeys([*self.found, *self.errors]))
        done = {
            host: TaskResult(
                Status.FAILED if host in self.errors else Status.OK,
                values={**self.found.get(host, {}), "changed": False},
                error=self.errors.get(host),
            )
            for host in hosts
        }
        task = TaskRun("look at the cards", "klops.cards", done)
        play = PlayRun("cards", hosts, [task])
        return RunResult("p.yml", check=check, plays=[play], hosts=hosts, errors=dict(self.errors))


def stand_in(monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Take the place of the engine, which has hosts to reach; loading and selection stay as they are."""
    ran = Ran()

    def run_playbook(
        session: Session, path: Any, origin: str, *, limit: Any, extra: Any = None, **_: Any
    ) -> RunResult:
        if ran.secret:
            session.redactor.add(Secret(ran.secret))
        ran.playbooks.append(path.name)
        ran.extra.append(dict(extra or {}))
        ran.limits.append(list(limit))
        ran.checks.append(session.common.check)
        return ran.result(check=session.common.check)

    def run_quietly(session: Session, path: Any, _origin: str, *, limit: Any) -> RunResult:
        run_playbook(session, path, "", limit=limit)
        ran.checks[-1] = True
        return ran.result(check=True)

    monkeypatch.setattr(running, "run_playbook", run_playbook)
    monkeypatch.setattr(running, "run_quietly", run_quietly)
    return ran
