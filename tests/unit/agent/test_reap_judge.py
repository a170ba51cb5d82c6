"""Who is left behind, who is only in the way, and who is never touched."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klops.agent.processes.procs import Process
from klops.agent.reaping import judge
from klops.agent.reaping.judge import (
    ADOPTED,
    ANSWERS,
    LAUNCHER,
    MADE,
    NOBODY,
    OTHER,
    SILENT,
    Case,
    Member,
    Unit,
    Verdict,
)
from klops.agent.reaping.sight import Seen, Sight

OURS, THEIRS = "a" * 64, "b" * 64
HOST_NS, NS, THEIR_NS, OLD_NS = 1, 2, 3, 4
#: Pids that the host adds to those of the container, in these tests.
FURTHER = 1000
USER = 1000
UPTIME = 10_000.0


def inside(cpid: int, ppid: int, **more: Any) -> Seen:
    """A process of klops' container, seen from the host, an hour old."""
    given_state, uid = more.pop("state", "S"), more.pop("uid", USER)
    inner = Process(cpid, ppid, cpid, cpid, given_state, more.pop("start", 600_000 + cpid), f"p{cpid}")
    outer = inner._replace(pid=FURTHER + cpid, ppid=FURTHER + ppid if ppid else 500)
    return Seen(outer, inner, NS, OURS, uid)._replace(**more)


def outside(pid: int, container: str = "", **more: Any) -> Seen:
    """A process of the host, or of another container."""
    process = Process(pid, 1, pid, pid, "S", 600_000 + pid, f"h{pid}")
    return Seen(process, process, THEIR_NS if container else HOST_NS, container, USER)._replace(**more)


#: Init, launcher, supervisor as a made container has them; a unit's API server, engine and worker.
INIT, LAUNCH, SUPERVISE = inside(1, 0), inside(6, 1), inside(7, 6)
ROOT = inside(20, 7)
ENGINE = inside(21, 20)
WORKER = inside(22, 21, cards=("xpu3",))
KEEPERS = (FURTHER + 6, FURTHER + 7)
UNIT = Unit("llm", "running", "ready", 3, (20, ROOT.inner.start))


def sight(*seen: Seen, mine: frozenset[int] = frozenset((900, 901)), host: bool = True) -> Sight:
    """What these tests look at."""
    return Sight({one.process.pid: one for one in seen}, host, OURS, NS, mine, USER, UPTIME)


def members(*seen: Seen, generation: int = 3, elsewhere: bool = False) -> dict[int, Member]:
    """All of the one unit."""
    return {one.process.pid: Member("llm", generation, elsewhere) for one in seen}


@dataclass
class Given:
    """A case with usual answers; what a test changes is named there."""

    kind: str = MADE
    supervisor: str = ANSWERS
    unit: Unit | None = UNIT
    members: dict[int, Member] = field(default_factory=lambda: members(ROOT, ENGINE, WORKER))
    keepers: tuple[int, ...] = KEEPERS
    strays: tuple[int, ...] = ()
    grace: float = 60.0
    named: tuple[tuple[int, int], ...] = ()

    def case(self) -> Case:
        """As the judge takes it."""
        units = {} if self.unit is None else {"llm": self.unit}
        return Case(
            self.kind,
            self.supervisor,
            units,
            self.members,
            self.keepers,
            self.strays,
            self.grace,
            self.named,
        )


def judged(given_: Given, *seen: Seen, **more: Any) -> Verdict:
    """The verdict on a container with these processes."""
    return judge.judge(sight(*seen, **more), given_.case())


def cpids(verdict: Verdict, name: str) -> list[int]:
    """Inner pids of one list of a verdict."""
    return [one.seen.inner.pid for one in getattr(verdict, name)]


ALL = (INIT, LAUNCH, SUPERVISE, ROOT, ENGINE, WORKER)
LEFT = (INIT, inside(21, 1), inside(22, 1, cards=("xpu3",)))


@pytest.mark.parametrize("state", ["starting", "ready", "unhealthy", "backoff"])
def test_what_a_supervisor_looks_after_is_its_own(state: str) -> None:
    verdict = judged(Given(unit=replace_unit(state=state)), *ALL)
    assert verdict == Verdict([], [], [], [], [], [], [])


def replace_unit(**fields: Any) -> Unit:
    """The unit with other fields."""
    return UNIT._replace(**fields)


def test_members_that_no_supervisor_and_no_root_lives_for_are_left_behind() -> None:
    verdict = judged(Given(supervisor=NOBODY, keepers=()), *LEFT)
    assert cpids(verdict, "orphans") == [21, 22]
    assert [one.reason for one in verdict.orphans] == [
        "of unit llm: no supervisor looks after it, and its root is gone"
    ] * 2
    assert set(verdict.due()) == {one.key for one in LEFT[1:]}


@pytest.mark.parametrize("supervisor", [ANSWERS, SILENT, LAUNCHER, NOBODY])
@pytest.mark.parametrize("kind", [MADE, ADOPTED])
def test_ranks_of_a_diagnosis_are_left_behind_once_it_is_over(kind: str, supervisor: str) -> None:
    rank = inside(30, 1, cards=("xpu3",))
    case = Given(kind, supervisor, members={rank.process.pid: Member(judge.RANKS, 1, elsewhere=False)}).case()
    verdict = judge.judge(sight(INIT, LAUNCH, SUPERVISE, rank), case)
    assert [(one.seen.inner.pid, one.unit) for one in verdict.orphans] == [(30, "")]
    assert verdict.orphans[0].reason == "a rank of a diagnosis of cards that is over"
    verdict = judge.judge(sight(INIT, LAUNCH, SUPERVISE, rank), case._replace(diagnosing=True))
    assert (cpids(verdict, "orphans"), cpids(verdict, "observers")) == ([], [30])


@pytest.mark.parametrize("supervisor", [NOBODY, LAUNCHER])
def test_a_wanted_generation_whose_root_lives_waits_for_its_supervisor(supervisor: str) -> None:
    verdict = judged(Given(supervisor=supervisor, keepers=()), INIT, ROOT, ENGINE, WORKER)
    assert (cpids(verdict, "orphans"), cpids(verdict, "unsupervised")) == ([], [20, 21, 22])


@pytest.mark.parametrize(
    "unit",
    [
        replace_unit(desired="stopped"),
        replace_unit(root=(20, 5)),
        replace_unit(root=None),
        replace_unit(generation=4),
        None,
    ],
)
def test_one_that_is_not_wanted_any_more_does_not(unit: Unit) -> None:
    verdict = judged(Given(supervisor=NOBODY, keepers=(), unit=unit), INIT, ROOT, ENGINE, WORKER)
    assert (cpids(verdict, "orphans"), cpids(verdict, "unsupervised")) == ([20, 21, 22], [])


def test_nothing_is_ended_that_a_supervisor_may_only_be_slow_with_or_whose_state_is_lost() -> None:
    silent = judged(Given(supervisor=SILENT), *LEFT)
    assert (cpids(silent, "orphans"), cpids(silent, "unsupervised")) == ([], [21, 22])
    lost = judged(Given(supervisor=NOBODY, unit=replace_unit(desired="", root=None)), *LEFT)
    assert (cpids(lost, "orphans"), cpids(lost, "unsupervised")) == ([], [21, 22])
    # it answers, but could not take the unit over: it shows it without a generation
    not_taken = judged(Given(unit=Unit("llm", "stopped", "failed", 0, None)), *LEFT)
    assert (cpids(not_taken, "orphans"), cpids(not_taken, "unsupervised")) == ([], [21, 22])


def test_what_outlives_a_unit_that_has_failed_or_was_stopped_is_left_behind() -> None:
    for state in ("failed", "stopped"):
        assert cpids(judged(Given(unit=replace_unit(state=state)), *ALL), "orphans") == [20, 21, 22]


def test_the_young_are_spared_and_the_reason_says_so() -> None:
    young = inside(22, 1, start=int(UPTIME * 100) - 1000)
    verdict = judged(Given(supervisor=NOBODY), INIT, young, inside(21, 1))
    assert cpids(verdict, "orphans") == [21, 22]
    # by these words the scheduled pass counts them
    assert verdict.orphans[1].spared.startswith("only 10 s old: it may belong to something")
    assert set(verdict.due()) == {inside(21, 1).key}
    assert len(judged(Given(supervisor=NOBODY, grace=0), INIT, young).due()) == 1


HOLDER = inside(50, 1, cards=("xpu1",))


def test_a_holder_that_came_from_an_exec_which_is_gone_is_left_behind_in_a_made_container_only() -> None:
    assert cpids(judged(Given(), *ALL, HOLDER), "orphans") == [50]
    adopted = judged(Given(kind=ADOPTED), *ALL, HOLDER)
    assert (cpids(adopted, "orphans"), cpids(adopted, "unowned")) == ([], [50])
    other = judged(Given(kind=OTHER), *ALL, HOLDER)
    assert (cpids(other, "orphans"), cpids(other, "foreign")) == ([], [22, 50])


@pytest.mark.parametrize(
    ("holder", "more", "why"),
    [
        (HOLDER._replace(uid=7), (), "as another user"),
        (inside(50, 49, cards=("xpu1",)), (inside(49, 0),), "docker exec"),
        (inside(50, 0, cards=("xpu1",)), (), "docker exec"),
        (inside(50, 48, cards=("xpu1",)), (), "docker exec"),
        (inside(50, 30, cards=("xpu1",)), (inside(30, 7),), "below the supervisor"),
    ],
)
def test_a_holder_that_somebody_may_look_after_is_only_named(
    holder: Seen, more: tuple[Seen, ...], why: str
) -> None:
    if holder.inner.ppid == 48:  # its parent ended: what is above it can't be seen
        holder = holder._replace(inner=holder.inner._replace(ppid=0))
    verdict = judged(Given(), *ALL, holder, *more)
    assert (cpids(verdict, "orphans"), cpids(verdict, "unowned")) == ([], [50])
    assert why in verdict.unowned[0].reason


def test_a_child_of_the_supervisor_is_its_own_business_but_a_stray_is_named() -> None:
    tester = inside(50, 7, cards=("xpu1",))
    assert cpids(judged(Given(), *ALL, tester), "unowned") == []
    verdict = judged(Given(strays=(tester.process.pid,)), *ALL, tester)
    assert (cpids(verdict, "orphans"), cpids(verdict, "unowned")) == ([], [50])


STRAY = inside(50, 6, cards=("xpu1",))


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ({"state": "stopped"}, True),
        ({"state": "failed"}, True),
        # it could not be taken over, so that it may run
        ({"state": "failed", "generation": 0}, False),
        *(({"state": state}, False) for state in ("starting", "ready", "unhealthy", "backoff")),
    ],
)
def test_what_may_be_any_units_is_left_behind_once_none_of_them_runs(
    fields: dict[str, Any], left: bool
) -> None:
    below = inside(51, 50, cards=("xpu2",))
    given_ = Given(unit=replace_unit(**fields), members={}, strays=(STRAY.process.pid,))
    verdict = judged(given_, INIT, LAUNCH, SUPERVISE, STRAY, below)
    assert (cpids(verdict, "orphans"), cpids(verdict, "unowned")) == (
        ([50, 51], []) if left else ([], [50, 51])
    )
    young = STRAY._replace(inner=STRAY.inner, process=STRAY.process._replace(start=int(UPTIME * 100) - 1000))
    assert not judged(given_, INIT, LAUNCH, SUPERVISE, young).due()


def test_what_may_be_any_units_is_not_left_behind_where_a_record_can_t_be_read() -> None:
    given_ = Given(unit=replace_unit(state="stopped"), members={}, strays=(STRAY.process.pid,))
    case = given_.case()._replace(faults=["a line"])
    assert judge.judge(sight(INIT, LAUNCH, SUPERVISE, STRAY), case).orphans == []


@pytest.mark.parametrize("supervisor", [SILENT, LAUNCHER])
def test_a_child_of_a_keeper_is_named_where_no_supervisor_says_whose_it_is(supervisor: str) -> None:
    given_ = Given(supervisor=supervisor, members={})
    verdict = judged(given_, INIT, LAUNCH, STRAY)
    assert (cpids(verdict, "orphans"), cpids(verdict, "unowned")) == ([], [50])
    # one that opens nodes for the supervisor does so for a moment
    young = STRAY._replace(process=STRAY.process._replace(start=int(UPTIME * 100) - 1000))
    assert judged(given_, INIT, LAUNCH, young).unowned == []
    assert judged(Given(members={}), INIT, LAUNCH, SUPERVISE, STRAY).unowned == []


def test_where_the_launcher_is_the_main_process_what_came_to_it_is_left_behind() -> None:
    launcher, supervisor = inside(1, 0), inside(7, 1)
    given_ = Given(keepers=(FURTHER + 1, FURTHER + 7), members={})
    assert cpids(judged(given_, launcher, supervisor, HOLDER), "orphans") == [50]


def test_an_unowned_holder_is_ended_when_it_is_named_and_only_then() -> None:
    given_ = Given(kind=ADOPTED, named=(HOLDER.key,), grace=10**6)
    assert list(judged(given_, *ALL, HOLDER).due()) == [HOLDER.key]
    reused = (HOLDER.process.pid, HOLDER.process.start + 1)
    assert not judged(replace(given_, named=(reused,)), *ALL, HOLDER).due()
    foreign = outside(300, THEIRS, cards=("xpu1",))
    assert not judged(replace(given_, named=(foreign.key,)), *ALL, foreign).due()


def test_a_main_process_with_a_card_is_named_and_never_ended() -> None:
    main = inside(1, 0, cards=("xpu1",))
    verdict = judged(Given(kind=ADOPTED, keepers=(), named=(main.key,), members={}), main)
    assert (cpids(verdict, "orphans"), cpids(verdict, "unowned")) == ([], [1])
    assert "main process" in judged(Given(keepers=(), members={}), main).unowned[0].reason


def test_strangers_observers_and_what_can_not_be_read() -> None:
    host = outside(300, cards=("xpu1",))
    theirs = outside(301, THEIRS, cards=("xpu2",))
    hidden = outside(302, unreadable=True)
    tool = inside(60, 1, cards=("xpu1",), observer=True)
    verdict = judged(Given(), *ALL, host, theirs, hidden, tool)
    assert cpids(verdict, "foreign") == [300, 301]
    assert "outside klops' container" in verdict.foreign[0].reason
    assert f"in container {THEIRS[:12]}" in verdict.foreign[1].reason
    assert (cpids(verdict, "unknown"), cpids(verdict, "observers")) == ([302], [60])
    assert verdict.orphans == []


def test_who_has_shared_memory_of_a_unit_is_left_behind_but_in_nobodys_way_elsewhere() -> None:
    assert cpids(judged(Given(), *ALL, inside(50, 1, files=True)), "orphans") == [50]
    verdict = judged(Given(kind=ADOPTED), *ALL, inside(50, 1, files=True))
    assert (cpids(verdict, "orphans"), cpids(verdict, "unowned")) == ([], [])


def test_a_member_that_outlived_its_container_is_still_ours() -> None:
    stuck = inside(22, 0, state="D")._replace(ns=OLD_NS, container=THEIRS)
    given_ = Given(members=members(stuck, elsewhere=True))
    table = (INIT, LAUNCH, SUPERVISE, first(ending=True), stuck)
    verdict = judged(given_, *table)
    assert cpids(verdict, "orphans") == [22]
    assert "an earlier life of its container" in verdict.orphans[0].reason
    # only by its identity: a relation to members of before says nothing there
    given_ = Given(members=members(stuck, elsewhere=True, generation=0))
    assert cpids(judged(given_, *table), "orphans") == []


def first(*, ending: bool = False) -> Seen:
    """The main process of another container that has or had the same root."""
    return outside(2001, THEIRS)._replace(inner=Process(1, 0, 1, 1, "S", 1, "init"), ns=OLD_NS, ending=ending)


@pytest.mark.parametrize("supervisor", [ANSWERS, SILENT, LAUNCHER, NOBODY])
@pytest.mark.parametrize(
    ("main", "why"),
    [
        ((first(),), "that lives, but is not the one that was looked for"),
        ((), "it can't be told whether it lives"),
    ],
)
def test_a_member_in_another_container_that_may_live_is_only_named(
    supervisor: str, main: tuple[Seen, ...], why: str
) -> None:
    there = inside(22, 1, cards=("xpu3",))._replace(ns=OLD_NS, container=THEIRS)
    given_ = Given(supervisor=supervisor, unit=None, members=members(there, elsewhere=True))
    # as when no container was found, or another one
    for seen in (sight(*main, there)._replace(container="", ns=0), sight(INIT, *main, there)):
        verdict = judge.judge(seen, given_.case())
        assert (cpids(verdict, "orphans"), cpids(verdict, "unsupervised")) == ([], [22])
        assert why in verdict.unsupervised[0].reason


def test_zombies_are_counted_by_who_should_reap_them() -> None:
    dead = [inside(number, 1, state="Z", cards=("xpu1",)) for number in (70, 71)]
    verdict = judged(Given(supervisor=NOBODY, members=members(*dead)), INIT, *dead)
    assert verdict.zombies == [(1, "p1", 2)]
    assert verdict.orphans == []


# -- whatever the table looks like


PIDS = st.integers(1, 12)


def anybody(cpid: int, ppid: int, where: str, old_ns: bool, state: str, **more: Any) -> Seen:
    """A process anywhere."""
    seen = inside(cpid, ppid, state=state, **more) if where == OURS else outside(cpid, where, **more)
    return seen._replace(ns=OLD_NS) if old_ns else seen


SEEN = st.builds(
    anybody,
    PIDS,
    st.integers(0, 12),
    st.sampled_from([OURS, OURS, THEIRS, ""]),
    st.booleans(),
    st.sampled_from("SRDTZX"),
    uid=st.sampled_from([USER, 0]),
    cards=st.sampled_from([(), ("xpu1",)]),
    files=st.booleans(),
    unreadable=st.booleans(),
    observer=st.sampled_from([False, False, False, True]),
    keeper=st.sampled_from(["", "", "", "hold", "supervise"]),
    ending=st.booleans(),
)
UNITS = st.builds(
    Unit,
    st.just("llm"),
    st.sampled_from(["", "running", "stopped"]),
    st.sampled_from(["stopped", "starting", "ready", "unhealthy", "backoff", "failed"]),
    st.integers(0, 3),
    st.one_of(st.none(), st.builds(lambda pid: (pid, 600_000 + pid), PIDS)),
)
ANY_PID = st.one_of(PIDS, st.integers(FURTHER + 1, FURTHER + 12))
CASES = st.builds(
    Given,
    kind=st.sampled_from(judge.KINDS),
    supervisor=st.sampled_from([ANSWERS, SILENT, LAUNCHER, NOBODY]),
    unit=st.one_of(st.none(), UNITS),
    keepers=st.lists(ANY_PID, max_size=3).map(tuple),
    strays=st.lists(ANY_PID, max_size=3).map(tuple),
    grace=st.sampled_from([0.0, 60.0]),
    named=st.lists(st.tuples(ANY_PID, st.integers(600_001, 600_012)), max_size=3).map(tuple),
)


#: A process, and whose member it is.
PLACED = st.tuples(
    SEEN, st.one_of(st.none(), st.builds(Member, st.just("llm"), st.integers(0, 3), st.booleans()))
)


@given(
    st.lists(PLACED, max_size=14, unique_by=lambda one: one[0].process.pid),
    st.frozensets(ANY_PID, max_size=3),
    CASES,
    st.booleans(),
)
def test_whatever_there_is_these_are_never_candidates(
    placed: list[tuple[Seen, Member | None]], mine: frozenset[int], given_: Given, host: bool
) -> None:
    table = [one for one, _ in placed]
    seen = sight(*table, mine=mine, host=host)
    belongs = {one.process.pid: member for one, member in placed if member is not None}
    case = replace(given_, members=belongs).case()
    for one in judge.judge(seen, case).orphans:
        who, member = one.seen, case.members.get(one.seen.process.pid)
        assert who.process.pid not in mine
        assert min(who.process.pid, who.inner.pid) > 1
        assert who.process.alive
        assert not who.observer
        assert not who.keeper
        assert who.process.pid not in case.keepers
        by_record = member is not None and member.elsewhere and member.generation > 0 and who.ns != NS
        if by_record:
            main = [one for one in table if one.ns == who.ns and one.inner.pid == 1]
            assert any(one.ending or not one.process.alive for one in main)
        else:
            # another container's, the host's, or one's that klops has nothing to do with
            assert who.container == OURS
            assert case.kind != OTHER
        if one.unit:
            assert member is not None
            unit = case.units.get("llm")
            running = unit is not None and unit.state not in ("stopped", "failed")
            nobody = case.supervisor in (NOBODY, LAUNCHER)
            assert member.elsewhere or nobody or not running
            assert member.elsewhere or case.supervisor != SILENT
        elif who.key not in case.named:
            assert (case.kind, who.uid) == (MADE, USER)
            assert who.holds
            if who.process.pid in case.strays:
                unit = case.units.get("llm")
                assert unit is None or unit.state in ("stopped", "failed")
                assert case.supervisor == ANSWERS
