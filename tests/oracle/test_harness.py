"""What the comparison itself finds, and doesn't let pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle.case import load_case
from tests.oracle.hosts import files, make_root, times
from tests.oracle.observed import TaskSeen, differences, observation, undeclared
from tests.oracle.predicted import mispredicted


def seen(*tasks: TaskSeen, changed: int = 0, root: str = "/r") -> dict[str, object]:
    recap = {"h1": {"ok": len(tasks), "changed": changed}, "idle": {"ok": 0}}
    return observation(ended="ok", recap=recap, tasks=tasks, files={}, root=root)


def test_equal_runs_have_no_differences_wherever_they_took_place() -> None:
    one = seen(TaskSeen("h1", "Write /a/x", "ok", '{"dest": "/a/x"}'), root="/a")
    other = seen(TaskSeen("h1", "Write /b/x", "ok", '{"dest": "/b/x"}'), root="/b")
    assert differences(one, other) == {}
    assert not any(path.startswith("recap/idle") for path in one)


def test_a_difference_has_to_be_declared_with_what_klops_gives() -> None:
    ansible, klops = seen(TaskSeen("h1", "Run", "changed"), changed=1), seen(TaskSeen("h1", "Run", "ok"))
    found = differences(ansible, klops)
    assert set(found) == {"recap/h1/changed", "tasks/h1/Run#1"}
    assert len(undeclared(found, {}, klops)) == 2
    assert undeclared(found, {"recap/h1/changed": 0, "tasks/h1/Run#1": "ok"}, klops) == []
    assert "gives" in undeclared(found, {"recap/h1/changed": 3, "tasks/h1/Run#1": "ok"}, klops)[0]


def test_a_declared_difference_that_does_not_show_is_an_error() -> None:
    same = seen(TaskSeen("h1", "Run", "ok"))
    assert undeclared({}, {"recap/h1/ok": 1}, same) == ["recap/h1/ok: declared to be different, and it isn't"]


def test_one_is_not_true_and_a_text_is_not_a_number() -> None:
    ansible = seen(TaskSeen("h1", "Tell", "ok", '{"a": 1, "b": "2"}'))
    klops = seen(TaskSeen("h1", "Tell", "ok", '{"a": true, "b": 2}'))
    assert list(differences(ansible, klops)) == ["said/h1/Tell#1"]


def test_tasks_of_one_name_are_told_apart() -> None:
    ansible = seen(TaskSeen("h1", "Same", "ok"), TaskSeen("h1", "Same", "changed"))
    klops = seen(TaskSeen("h1", "Same", "ok"), TaskSeen("h1", "Same", "ok"))
    assert list(differences(ansible, klops)) == ["tasks/h1/Same#2"]


@pytest.mark.parametrize(
    ("planned", "real", "wrong"),
    [
        ("changed", "changed", {}),
        ("changed", "ok", {("T", "h1"): "h1: changed, then ok"}),
        ("ok", "changed", {("T", "h1"): "h1: ok, then changed"}),
        ("skipped", "ok", {("T", "h1"): "h1: skipped, then ok"}),
        ("unknown", "changed", {}),
        ("unknown", "failed", {}),
    ],
)
def test_what_a_dry_run_tells(planned: str, real: str, wrong: dict[tuple[str, str], str]) -> None:
    found, missed, _ = mispredicted([TaskSeen("h1", "T", planned)], [TaskSeen("h1", "T", real)])
    assert (found, missed) == (wrong, [])


def test_what_a_dry_run_leaves_out_may_only_follow_what_it_does_not_know() -> None:
    ran = [TaskSeen("h1", "T", "changed"), TaskSeen("h1", "Handler", "ok")]
    assert mispredicted([TaskSeen("h1", "T", "changed")], ran)[1] == ["h1: Handler#1"]
    assert mispredicted([TaskSeen("h1", "T", "unknown")], ran)[1] == []
    gone = mispredicted(
        [TaskSeen("h1", "T", "ok"), TaskSeen("h1", "More", "ok")], [TaskSeen("h1", "T", "ok")]
    )
    assert gone[0] == {("More", "h1"): "h1: ok, then not run"}


def test_hosts_are_made_anew_and_alike(tmp_path: Path) -> None:
    make_root(tmp_path / "a")
    (tmp_path / "a/h1/etc/app.conf").write_text("touched")
    (tmp_path / "a/h1/more").write_text("more")
    make_root(tmp_path / "a")
    make_root(tmp_path / "b")
    assert files(tmp_path / "a") == files(tmp_path / "b")
    before = times(tmp_path / "a")
    assert times(tmp_path / "a") == before
    (tmp_path / "a/h1/etc/app.conf").chmod(0o600)
    assert times(tmp_path / "a") != before
    assert files(tmp_path / "a") != files(tmp_path / "b")


def test_a_mistake_in_a_case_is_told(tmp_path: Path) -> None:
    (tmp_path / "play.yml").write_text("# shows nothing\n[]\n")
    assert [case.name for case in load_case(tmp_path)] == [tmp_path.name]
    (tmp_path / "case.yml").write_text("run: {}\n")
    with pytest.raises(ValueError, match="run"):
        load_case(tmp_path)
    (tmp_path / "case.yml").write_text("")
    (tmp_path / "play.yml").write_text("[]\n")
    with pytest.raises(ValueError, match="comment"):
        load_case(tmp_path)
