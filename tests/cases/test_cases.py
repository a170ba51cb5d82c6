"""Runs every case file; see harness.py for what one holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from klops.actions.base import Action, Plan
from klops.actions.catalog import catalog
from klops.errors import TaskFailed
from tests.cases.harness import OUTCOMES, Case, cases, lines, matches

ACTIONS = dict(catalog())


def outcome(case: Case, action: Action[Any], replies: Mapping[str, Any]) -> Plan:
    """The plan; a failure that was raised is turned into one that was planned, as the engine does."""
    try:
        return case.plan(action, replies)
    except TaskFailed as error:
        return Plan(failure=error)


@pytest.mark.parametrize("path", cases(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_case(path: Path) -> None:
    case = Case.load(path)
    given = case.given
    assert any(key in given for key in OUTCOMES), f"a case expects one of {OUTCOMES}"
    action = ACTIONS[given["action"]]
    assert path.parent.name == action.name, "a case lives in the folder of its action"
    replies = given.get("replies") or {}
    plan = outcome(case, action, replies)
    if "warns" in given:
        piece = given["warns"]
        assert any(piece in text for text in plan.warnings) if piece else not plan.warnings, plan.warnings
    if plan.failure is not None:
        failure = plan.failure
        assert given.get("failure") == failure.code, f"{failure.code}: {failure}"
        assert str(given.get("message", "")) in f"{failure} {failure.hint}"
        return
    assert "failure" not in given, f"no failure; steps: {lines(plan, changing=False)}"
    if "steps" in given:
        assert lines(plan, changing=False) == (given["steps"] or [])
    if "changes" in given:
        assert lines(plan, changing=True) == (given["changes"] or [])
    assert matches(given.get("unknown", ""), plan.unknown), plan.unknown
    assert matches(given.get("skipped", ""), plan.skipped), plan.skipped
    assert str(given.get("message", "")) in plan.message
    for key, value in (given.get("result") or {}).items():
        assert plan.result.get(key) == value, f"result.{key} is {plan.result.get(key)!r}"
    assert case.plan(action, replies) == plan, "the same arguments give an equal plan"
    if lines(plan, changing=True):
        assert ("then" in given) != ("not_idempotent" in given), "say `then`, or `not_idempotent` and why"
    if "then" in given:
        afterwards = case.plan(action, {**replies, **given["then"]})
        assert lines(afterwards, changing=True) == []
        assert afterwards.failure is None, afterwards.failure
