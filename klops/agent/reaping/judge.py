"""Who is an orphan, and who only is in the way. Pure: it decides by what was seen and what is on record."""

from __future__ import annotations

from typing import Collection, Iterable, Mapping, NamedTuple

from klops.agent.processes import procs
from klops.agent.reaping.sight import Seen, Sight

#: What members of the record of diagnoses are said to be of: no unit can be called that.
RANKS = "diagnosis of cards"
MADE, ADOPTED, OTHER = KINDS = ("made", "adopted", "other")
#: How far a supervisor is there: it answers; one lives that doesn't, or one that starts it; nobody does.
ANSWERS, SILENT, LAUNCHER, NOBODY = "answers", "silent", "launcher", "nobody"

#: Seconds after which one is no child of the supervisor's own: those it gives up after ten.
_MOMENT = 60.0


class Unit(NamedTuple):
    """What is known of a unit: from its supervisor, else from the disk."""

    name: str
    #: "" when it can't be told
    desired: str
    state: str
    generation: int
    #: pid and start in the container's numbers
    root: tuple[int, int] | None


class Member(NamedTuple):
    """A living process that a lineage knows."""

    unit: str
    #: 0 for one that was not on record yet
    generation: int
    #: it is of another pid namespace than the container's that was looked at
    elsewhere: bool


class Case(NamedTuple):
    """All that is known, but for the processes themselves."""

    kind: str
    supervisor: str
    units: Mapping[str, Unit]
    #: by the viewer's pid
    members: Mapping[int, Member]
    #: viewer's pids of launchers and supervisors
    keepers: Collection[int]
    #: viewer's pids that the supervisor itself says it can't place
    strays: Collection[int] = ()
    #: seconds that a candidate must have lived
    grace: float = 60.0
    #: pid and start, in the viewer's numbers, of unowned ones that were named to be ended
    named: Collection[tuple[int, int]] = ()
    #: what of the records could not be read
    faults: Collection[str] = ()
    #: a diagnosis is at work, whose ranks end by themselves
    diagnosing: bool = False


class Finding(NamedTuple):
    """A process with what is thought of it."""

    seen: Seen
    unit: str
    reason: str
    #: why it is not ended this time though it is to be; "" for one that is
    spared: str = ""


class Verdict(NamedTuple):
    """Everybody who matters, by what they are."""

    orphans: list[Finding]
    unowned: list[Finding]
    foreign: list[Finding]
    unsupervised: list[Finding]
    unknown: list[Finding]
    observers: list[Finding]
    #: (parent's inner pid, its name, how many children of it have ended and were not reaped)
    zombies: list[tuple[int, str, int]]

    def due(self) -> dict[tuple[int, int], Finding]:
        """Those to be ended now, by pid and start."""
        return {one.seen.key: one for one in self.orphans if not one.spared}


def judge(sight: Sight, case: Case) -> Verdict:
    """Judge everybody that is in sight."""
    verdict = Verdict([], [], [], [], [], [], _zombies(sight))
    for pid in sorted(sight.processes):
        seen = sight.processes[pid]
        if not seen.process.alive or seen.process.kernel or _keeps_units(seen, sight, case):
            continue
        if seen.observer:
            if seen.holds or seen.unreadable:
                verdict.observers.append(Finding(seen, "", "it reads the cards, and lets go by itself"))
        elif pid in case.members and _is_ours(seen, case.members[pid], sight, case):
            _judge_member(seen, case.members[pid], sight, case, verdict)
        elif seen.unreadable:
            why = "it waits in the kernel (state D): what it has mapped can't be read"
            read = "what it holds can't be read"
            verdict.unknown.append(Finding(seen, "", why if seen.process.state == "D" else read))
        elif seen.holds:
            _judge_holder(seen, sight, case, verdict)
    return verdict


def _keeps_units(seen: Seen, sight: Sight, case: Case) -> bool:
    """Launchers, supervisors, and what these do themselves: a child may have a card open for a moment."""
    pid, above = seen.process.pid, seen.process.ppid
    if pid in case.keepers or seen.keeper:
        return True
    if pid in case.members or pid in case.strays or above not in case.keepers:
        return False
    if case.supervisor != ANSWERS and sight.age(seen.process) >= _MOMENT:
        return False  # nobody says whether it is a child of the supervisor's own
    # what has no other parent left comes to a launcher that is the main process
    parent = sight.processes.get(above)
    return parent is None or parent.inner.pid != 1


def _never(seen: Seen, sight: Sight) -> str:
    """Why a process is not to be ended, whatever else is thought of it; "" for nothing."""
    if seen.process.pid in sight.mine:
        return "this clean-up itself runs below it"
    if seen.process.pid <= 1 or seen.inner.pid <= 1:
        return "it is the main process of its container"
    return ""


def _inside(seen: Seen, sight: Sight) -> bool:
    """Whether it lives in klops' container: by its control group, from inside what has none is, too."""
    if sight.host:
        return bool(sight.container) and seen.container == sight.container
    return seen.ns == sight.ns and seen.container == sight.container


def _is_ours(seen: Seen, member: Member, sight: Sight, case: Case) -> bool:
    """Whether a lineage's word counts: inside the container, or by identity alone in another."""
    if member.elsewhere:
        return seen.ns != sight.ns and member.generation > 0
    return case.kind != OTHER and _inside(seen, sight)


def _judge_member(seen: Seen, member: Member, sight: Sight, case: Case, verdict: Verdict) -> None:
    unit = case.units.get(member.unit)
    never = _never(seen, sight)
    if never:
        verdict.unsupervised.append(Finding(seen, member.unit, f"of unit {member.unit}; {never}"))
        return
    if member.elsewhere:
        _judge_elsewhere(seen, member, sight, case, verdict)
        return
    if member.unit == RANKS:
        _judge_rank(seen, sight, case, verdict)
        return
    if case.supervisor == ANSWERS and unit is not None and unit.state not in ("stopped", "failed"):
        return  # the supervisor's: it serves, or is being ended
    taken = _will_be_taken_over(member, unit, sight, case)
    if taken:
        verdict.unsupervised.append(Finding(seen, member.unit, taken))
        return
    what = "no unit of that name is left" if unit is None else f"the unit is {unit.state}"
    if unit is not None and case.supervisor != ANSWERS:
        wanted = "it is not wanted" if unit.desired != "running" else "its root is gone"
        what = f"no supervisor looks after it, and {wanted}"
    verdict.orphans.append(_candidate(seen, member.unit, f"of unit {member.unit}: {what}", sight, case))


def _judge_rank(seen: Seen, sight: Sight, case: Case, verdict: Verdict) -> None:
    """Of a diagnosis: no supervisor's, and nobody's once that is over."""
    if case.diagnosing:
        verdict.observers.append(Finding(seen, "", "a diagnosis of cards is at work, and ends it by itself"))
        return
    reason = "a rank of a diagnosis of cards that is over"
    verdict.orphans.append(_candidate(seen, "", reason, sight, case))


def _judge_elsewhere(seen: Seen, member: Member, sight: Sight, case: Case, verdict: Verdict) -> None:
    """A member in another pid namespace: of an earlier life of the container, or in one not looked for.

    It is left behind only where that life is over. Else the container has got another name, or two have one
    root, and who looks after it there isn't known here.
    """
    over = sight.over(seen.ns)
    if over:
        reason = f"of unit {member.unit}, left from an earlier life of its container"
        verdict.orphans.append(_candidate(seen, member.unit, reason, sight, case))
        return
    where = "in a container that lives, but is not the one that was looked for"
    if over is None:
        where = "in a container of which it can't be told whether it lives"
    verdict.unsupervised.append(Finding(seen, member.unit, f"of unit {member.unit}, {where}"))


def _will_be_taken_over(member: Member, unit: Unit | None, sight: Sight, case: Case) -> str:
    """Why nobody but a supervisor is to touch a member that none answers for; "" otherwise."""
    if case.supervisor == ANSWERS:
        # one that was launched has a generation: what the supervisor couldn't take over it shows without
        failed = unit is not None and not unit.generation
        return f"of unit {member.unit}, which its supervisor can't take over" if failed else ""
    if case.supervisor == SILENT:
        return f"of unit {member.unit}, whose supervisor lives but doesn't answer"
    if unit is None:
        return ""
    if not unit.desired:
        return f"of unit {member.unit}, whose state is lost: nobody can tell whether it is wanted"
    current = member.generation in (0, unit.generation)
    if unit.desired != "running" or not current or not _lives(unit.root, sight):
        return ""
    soon = " (one is about to be started)" if case.supervisor == LAUNCHER else ""
    return f"of unit {member.unit}, which is wanted and whose root lives: a supervisor takes it over{soon}"


def _lives(root: tuple[int, int] | None, sight: Sight) -> bool:
    if root is None:
        return False
    process = sight.table(sight.ns).get(root[0])
    return process is not None and process.start == root[1] and process.alive


def _judge_holder(seen: Seen, sight: Sight, case: Case, verdict: Verdict) -> None:
    """A holder that no lineage knows."""
    what = "it holds a card" if seen.cards else "it holds shared memory of a unit"
    if not _inside(seen, sight) or case.kind == OTHER:
        if seen.cards:
            where = f"in container {seen.container[:12]}" if seen.container else "outside klops' container"
            verdict.foreign.append(Finding(seen, "", f"{what}, {where}"))
        return
    why = _not_left_behind(seen, sight, case)
    if not why:
        stray = _is_stray(seen, sight, case)
        whose = "descends from a unit, none of which runs" if stray else "belongs to no unit"
        reason = f"{what}, {whose}, and no docker exec it came from lives"
        verdict.orphans.append(_candidate(seen, "", reason, sight, case))
    elif seen.key in case.named and not _never(seen, sight):
        verdict.orphans.append(Finding(seen, "", f"{what}, {why}; it was named to be ended"))
    elif seen.cards:
        verdict.unowned.append(Finding(seen, "", f"{what}, {why}"))


def _not_left_behind(seen: Seen, sight: Sight, case: Case) -> str:
    """What speaks against a holder being left behind by klops; "" for nothing."""
    never = _never(seen, sight)
    if never:
        return never
    if case.kind != MADE:
        return "in a container that klops did not make, and belongs to no unit"
    if seen.uid != sight.uid:
        return "as another user than the supervisor's"
    if _is_stray(seen, sight, case):
        return "" if _none_runs(case) else "a unit's, but it can't be told which one's while one of them runs"
    line = [seen, *_above(seen, sight)]
    if any(one.process.pid in case.keepers and one.inner.pid != 1 for one in line):
        return "below the supervisor, but on no record yet"
    if line[-1].inner.ppid == 0 and line[-1].inner.pid != 1:
        return "started by a docker exec or from the host that still lives"
    if line[-1].inner.pid != 1:
        return "and where it comes from can't be seen"
    return ""


def _is_stray(seen: Seen, sight: Sight, case: Case) -> bool:
    """Whether it is, or descends from, what the supervisor knows to be a unit's, but not which one's."""
    return bool(case.strays) and any(one.process.pid in case.strays for one in (seen, *_above(seen, sight)))


def _none_runs(case: Case) -> bool:
    """Whether the supervisor has said of all units that nothing of them runs.

    It is asked after the look: what a unit that is started later begins is younger than what was seen. Of one
    that it could not take over, and of a record that can't be read, it doesn't know that.
    """
    stopped = all(
        one.state == "stopped" or (one.state == "failed" and one.generation) for one in case.units.values()
    )
    return case.supervisor == ANSWERS and stopped and not case.faults


def _above(seen: Seen, sight: Sight) -> Iterable[Seen]:
    """Its ancestors inside its container, nearest first."""
    table, pids = sight.table(seen.ns), sight.pids(seen.ns)
    for pid in procs.ancestors(seen.inner.pid, table):
        yield sight.processes[pids[pid]]


def _candidate(seen: Seen, unit: str, reason: str, sight: Sight, case: Case) -> Finding:
    age = sight.age(seen.process)
    young = f"only {age:.0f} s old: it may belong to something that begins (grace {case.grace:g} s)"
    return Finding(seen, unit, reason, young if age < case.grace else "")


def _zombies(sight: Sight) -> list[tuple[int, str, int]]:
    """Inside the container, by who should reap them."""
    table = sight.table(sight.ns) if sight.ns else {}
    dead = procs.defunct(table.values())
    return [(pid, table[pid].name if pid in table else "", len(dead[pid])) for pid in sorted(dead)]
