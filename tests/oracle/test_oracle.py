"""ansible-playbook and klops are given the same playbooks on the same scratch hosts and do the same.

And over the same playbooks: a dry run tells what the run changes, and a second run changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.oracle import hosts, tally
from tests.oracle.case import Case, load_cases
from tests.oracle.lab import Lab
from tests.oracle.observed import differences, undeclared
from tests.oracle.predicted import mispredicted
from tests.oracle.sides import Seen

pytestmark = pytest.mark.host
CASES = load_cases()
_EN = Path(__file__).resolve().parents[2] / "docs" / "en"
DOCS = [_EN / "playbooks.md", _EN / "modules.md"]
Run = Callable[..., Seen]


@dataclass
class Runs:
    """What klops did with one case: the dry run on a fresh seed, the run on a fresh one, and once more."""

    checked: Seen
    untouched: bool
    first: Seen
    second: Seen


@dataclass
class Kept:
    """Runs of klops are made once for all tests of a case."""

    klops: Run
    lab: Lab
    runs: dict[str, Runs] = field(default_factory=dict)

    def __call__(self, case: Case) -> Runs:
        if case.name not in self.runs:
            root = self.lab.root("klops", case)
            hosts.make_root(root, case.folder / "seed")
            before = hosts.times(root)
            checked = self.klops(case, check=True, fresh=False)
            untouched = hosts.times(root) == before
            first = self.klops(case)
            self.runs[case.name] = Runs(checked, untouched, first, self.klops(case, fresh=False))
        return self.runs[case.name]


@pytest.fixture(scope="package")
def runs(klops: Run, lab: Lab) -> Kept:
    """``runs(case)``."""
    return Kept(klops, lab)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_klops_does_what_ansible_does(case: Case, ansible: Run, runs: Kept) -> None:
    theirs, ours = ansible(case), runs(case).first
    tally.playbooks.add(case.folder.name)
    assert theirs.ended.rc != -1, f"ansible did not end\n{theirs.ended.stderr}"
    shown = f"\n{ours.refusal}{ours.ended.stderr[-3000:]}\n--- ansible\n{theirs.ended.stderr[-2000:]}"
    if case.refused is not None:
        assert theirs.observed["exit"] != "load", f"Ansible refuses it too{shown}"
        assert ours.observed["exit"] == "load", f"klops should refuse it{shown}"
        assert case.refused.load in ours.refusal
        tally.counts["different"] += 1
        return
    declared = {path: value for difference in case.differs for path, value in difference.paths.items()}
    found = differences(theirs.observed, ours.observed)
    wrong = undeclared(found, declared, ours.observed)
    assert not wrong, "\n".join([*wrong, shown])
    tally.counts["different" if declared else "equal"] += 1


@pytest.mark.parametrize("case", [case for case in CASES if case.differs], ids=str)
def test_differences_are_in_the_documents(case: Case) -> None:
    lines = [line for document in DOCS for line in document.read_text("utf-8").splitlines()]
    rows = [line for line in lines if line.startswith("|")]
    lacking = [each.row for each in case.differs if not any(each.row in line for line in rows)]
    assert not lacking, f"no row of the tables has {lacking}"


@pytest.mark.parametrize("case", [case for case in CASES if not case.refused], ids=str)
def test_a_dry_run_tells_what_the_run_changes(case: Case, runs: Kept) -> None:
    done = runs(case)
    assert done.untouched, "the dry run wrote something"
    if case.checks:
        return
    wrong, missed, counted = mispredicted(done.checked.tasks, done.first.tasks)
    tally.counts.update(counted)
    said = {name: text for (name, _), text in wrong.items()}
    undeclared_ones = {name: text for name, text in said.items() if name not in case.unpredicted}
    assert not undeclared_ones, f"{undeclared_ones}\n{done.checked.ended.stderr[-3000:]}"
    assert not set(case.unpredicted) - set(said), "declared not to be predicted, but it was"
    assert not missed


@pytest.mark.parametrize("case", [case for case in CASES if not (case.refused or case.checks)], ids=str)
def test_a_second_run_changes_nothing(case: Case, runs: Kept) -> None:
    done = runs(case)
    changed = {task.name for task in done.second.tasks if task.status == "changed"}
    declared = set(case.again) & {task.name for task in done.first.tasks}
    assert changed == declared, f"changed again: {sorted(changed)}; declared: {sorted(declared)}"
