"""Who belongs to a unit, and who never does."""

from __future__ import annotations

from pathlib import Path

import pytest

from klops.agent.processes import identity
from klops.agent.processes.procs import Process
from klops.agent.units.lineage import KEPT, SPARE, Lineage, owners


def process(
    pid: int, ppid: int, session: int = 0, pgrp: int = 0, start: int = 0, state: str = "S"
) -> Process:
    """One line of a made-up table."""
    return Process(pid, ppid, pgrp or session or pid, session or pid, state, start or pid * 10, f"p{pid}")


def table(*processes: Process) -> dict[int, Process]:
    """A made-up table."""
    return {p.pid: p for p in processes}


INIT, LAUNCHER, SUPERVISOR = process(1, 0), process(6, 1), process(7, 6, session=6)
NEVER = (0, 1, 6, 7)


@pytest.fixture
def lineage(tmp_path: Path) -> Lineage:
    """A lineage with its root, 20, on record."""
    made = Lineage(str(tmp_path / "lineage.jsonl"))
    made.record(process(20, 7, session=6), 1)  # as it is before the gate has its own session
    return made


def tree(*more: Process) -> dict[int, Process]:
    """API server 20, engine 21, workers 22 and 23, and what a test adds."""
    members = [process(20, 7), process(21, 20, 20), process(22, 21, 20), process(23, 21, 20)]
    return table(INIT, LAUNCHER, SUPERVISOR, *members, *more)


def pids(processes: list[Process]) -> list[int]:
    """Sorted pids."""
    return sorted(p.pid for p in processes)


def test_the_session_of_the_supervisor_is_never_taken_for_the_units(lineage: Lineage) -> None:
    stranger = process(30, 6, session=6)
    lineage.grow(table(INIT, LAUNCHER, SUPERVISOR, process(20, 7, session=6), stranger), 1, NEVER)
    assert list(lineage.members) == [(20, 200)]


def test_descendants_orphans_and_sessions(lineage: Lineage) -> None:
    assert pids(lineage.grow(tree(), 1, NEVER)) == [21, 22, 23]
    # the API server and the engine are killed; a worker's child was born meanwhile, in the same session
    orphans = table(INIT, LAUNCHER, SUPERVISOR, process(22, 7, 20), process(23, 7, 20), process(24, 22, 20))
    assert pids(lineage.grow(orphans, 1, NEVER)) == [24]
    assert pids(lineage.living(orphans)) == [22, 23, 24]
    # one more, whose parent was never seen: the session gives it away
    assert pids(lineage.grow({**orphans, 25: process(25, 7, 20)}, 1, NEVER)) == [25]


def test_a_session_seen_empty_is_closed_for_good(lineage: Lineage) -> None:
    lineage.grow(tree(), 1, NEVER)
    lineage.grow(table(INIT, LAUNCHER, SUPERVISOR), 1, NEVER)
    lineage.write()
    reused = table(INIT, LAUNCHER, SUPERVISOR, process(20, 1, start=9000), process(50, 20, 20, start=9001))
    orphaned = table(INIT, LAUNCHER, SUPERVISOR, process(50, 1, 20, start=9001))
    for strangers in (reused, orphaned):
        assert lineage.grow(strangers, 1, NEVER) == []
        assert lineage.living(strangers) == []
        assert Lineage(lineage.path).unrecorded(strangers, NEVER) == []


def test_a_reused_pid_is_a_stranger_and_so_are_its_children(lineage: Lineage) -> None:
    lineage.grow(tree(), 1, NEVER)
    strangers = tree(process(22, 1, start=9000), process(60, 22, 22, start=9001))
    assert lineage.grow(strangers, 1, NEVER) == []
    assert 22 not in pids(lineage.living(strangers))


def test_a_reused_pid_closes_the_session_that_its_number_was(lineage: Lineage) -> None:
    lineage.grow(tree(), 1, NEVER)
    # never seen empty: between two looks the session ended and another process got its number
    lineage.grow(table(INIT, LAUNCHER, SUPERVISOR, process(20, 1, start=9000)), 1, NEVER)
    orphan = table(INIT, LAUNCHER, SUPERVISOR, process(50, 1, 20, start=9001))
    assert lineage.grow(orphan, 1, NEVER) == []


def test_a_session_that_ended_while_no_supervisor_lived_is_closed_at_the_first_look(lineage: Lineage) -> None:
    again = Lineage(lineage.path)
    again.grow(table(INIT, LAUNCHER, SUPERVISOR), 1, NEVER)
    stranger = table(INIT, LAUNCHER, SUPERVISOR, process(50, 1, 20, start=9001))
    assert again.grow(stranger, 1, NEVER) == []


def test_members_are_known_though_the_disk_is_full_and_written_later(
    lineage: Lineage, tmp_path: Path
) -> None:
    path, kept = Path(lineage.path), tmp_path / "kept"
    path.rename(kept)
    path.symlink_to("/dev/full")
    lineage.grow(tree(), 1, NEVER)
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            lineage.write()
    with pytest.raises(OSError, match="No space left"):
        lineage.record(process(30, 7), 1)
    assert sorted(pid for pid, _ in lineage.members) == [20, 21, 22, 23]
    path.unlink()
    kept.rename(path)
    lineage.write()
    assert Lineage(lineage.path).members == lineage.members


def test_a_line_that_was_cut_short_spoils_no_other(lineage: Lineage) -> None:
    with Path(lineage.path).open("a") as file:
        file.write('{"boot": "cut sh')
    lineage.record(process(21, 20, 20), 1)
    assert Lineage(lineage.path).members == lineage.members


@pytest.mark.parametrize(
    "line",
    [
        *("[]", "{}", '{"closed": "x"}', '{"boot": "", "ns": null, "pid": 1}'),
        pytest.param("[" * 100_000, id="brackets"),
    ],
)
def test_a_damaged_line_is_known_and_the_others_count(lineage: Lineage, line: str) -> None:
    with Path(lineage.path).open("a") as file:
        file.write(line + "\n")
    lineage.record(process(21, 20, 20), 1)
    again = Lineage(lineage.path)
    assert again.damaged == [line[:200]]
    assert again.members == lineage.members
    assert again.root() == [20, 200]


def test_what_is_on_disk_is_read_back_but_not_from_another_boot(
    lineage: Lineage, monkeypatch: pytest.MonkeyPatch
) -> None:
    lineage.grow(tree(), 3, NEVER)
    lineage.write()
    with Path(lineage.path).open("a") as file:
        file.write('{"boot": "cut sh')
    again = Lineage(lineage.path)
    assert again.members == lineage.members
    assert owners([("llm", again)], tree(process(26, 23, 26))) == dict.fromkeys((20, 21, 22, 23, 26), "llm")
    monkeypatch.setattr(identity, "_here", [("another-boot", 1)])
    assert Lineage(lineage.path).members == {}


def test_zombies_are_known_but_dont_live(lineage: Lineage) -> None:
    lineage.grow(tree(process(24, 21, 20, state="Z")), 1, NEVER)
    assert pids(lineage.living(tree(process(24, 21, 20, state="Z")))) == [20, 21, 22, 23]


def test_members_of_an_earlier_life_of_the_container_are_kept_until_they_are_over(lineage: Lineage) -> None:
    boot, ns = identity.here()
    earlier = Lineage(lineage.path, (boot, 77))
    earlier.record(process(21, 20, 20), 1)
    earlier.record(process(22, 1, start=5), 1)
    assert Lineage(lineage.path).elsewhere == {77}
    # the next start of the unit forgets what is dead for certain, and that is what it can see only
    again = Lineage(lineage.path)
    again.forget()
    again.record(process(30, 7), 2)
    assert list(Lineage(lineage.path).members) == [(30, 300)]
    found = Lineage(lineage.path, (boot, 77))
    assert list(found.members) == [(21, 210), (22, 5)]
    assert found.elsewhere == {ns}
    assert Lineage(lineage.path, ("another-boot", 77)).elsewhere == set()

    Lineage(lineage.path).over(77)
    assert Lineage(lineage.path).elsewhere == set()
    assert list(Lineage(lineage.path).members) == [(30, 300)]
    Lineage(lineage.path).forget()
    assert not Path(lineage.path).read_text()


def test_what_is_kept_of_earlier_lives_is_bounded_and_the_newest(lineage: Lineage) -> None:
    boot, _ = identity.here()
    line = '{"boot": "%s", "ns": 77, "pid": %d, "start": 1, "name": "p", "generation": 1}\n'
    with Path(lineage.path).open("a") as file:
        file.write("".join(line % (boot, pid) for pid in range(2, KEPT + 12)))
    Lineage(lineage.path).forget()
    kept = Lineage(lineage.path, (boot, 77)).members
    assert len(kept) == KEPT
    assert (2, 1) not in kept
    assert (KEPT + 11, 1) in kept


def test_a_session_that_ended_elsewhere_says_nothing_of_one_with_its_number_here(lineage: Lineage) -> None:
    with Path(lineage.path).open("a") as file:
        file.write('{"closed": 20, "ns": 77}\n')
    orphan = table(INIT, LAUNCHER, SUPERVISOR, process(24, 7, 20))
    assert pids(Lineage(lineage.path).unrecorded(orphan, NEVER)) == [24]


def test_what_was_founded_before_the_container_began_says_nothing_of_who_lives_in_it(
    lineage: Lineage,
) -> None:
    # a restarted container gives the same pids again, and its namespace may have the number of the one before
    later = table(process(1, 0, start=5000), process(24, 1, 20, start=5100), process(25, 24, 25, start=5200))
    assert Lineage(lineage.path).unrecorded(later, (1,)) == []
    assert lineage.grow(later, 1, (1,)) == []


def test_a_file_that_can_not_be_read_is_not_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "lineage.jsonl").mkdir()  # to root everything else can be read
    with pytest.raises(OSError, match="directory"):
        Lineage(str(tmp_path / "lineage.jsonl"))


def test_nobody_belongs_by_those_who_can_t(lineage: Lineage) -> None:
    """Row B13: everybody descends from pid 1, and whoever comes to the launcher has lost its own parent."""
    for one in (INIT, LAUNCHER):
        lineage.record(one, 1)
    orphan, of_its_session = process(30, 6), process(31, 30, session=6)
    assert lineage.unrecorded(tree(process(40, 1), orphan, of_its_session), NEVER) == [
        *(process(21, 20, 20), process(22, 21, 20), process(23, 21, 20))
    ]


def test_programs_that_a_server_runs_for_a_moment_leave_nothing_behind(lineage: Lineage) -> None:
    for number in range(2 * SPARE):
        lineage.grow(tree(process(1000 + number, 20)), 1, NEVER)
        lineage.write()
        lineage.shorten()
    last = 1000 + 2 * SPARE - 1
    assert sorted(pid for pid, _ in lineage.members) == [20, 21, 22, 23, last]
    assert len(Path(lineage.path).read_text().splitlines()) < SPARE + 20
    again = Lineage(lineage.path)
    assert set(lineage.members) <= set(again.members)
    assert again.root() == [20, 200]
    again.grow(tree(), 1, NEVER)
    assert sorted(pid for pid, _ in again.members) == [20, 21, 22, 23]


def test_who_has_ended_is_known_as_long_as_its_session_tells_whose_another_is(lineage: Lineage) -> None:
    founder, heir = process(30, 20), process(31, 7, session=30)
    lineage.grow(tree(founder), 1, NEVER)
    for pid in range(2000, 2000 + SPARE):
        lineage.grow(tree(heir, process(pid, 20)), 1, NEVER)
    lineage.write()
    lineage.shorten()
    orphan = process(32, 7, session=30)
    for one in (Lineage(lineage.path), lineage):
        assert pids(one.grow(tree(heir, orphan), 1, NEVER)) == [32]
        one.grow(tree(), 1, NEVER)
        one.grow(tree(), 1, NEVER)
        assert sorted(pid for pid, _ in one.members) == [20, 21, 22, 23]


def test_a_root_that_has_ended_stays_the_root_though_a_member_got_its_number(lineage: Lineage) -> None:
    worker = process(22, 7)
    lineage.grow(table(INIT, LAUNCHER, SUPERVISOR, process(20, 7), process(22, 20)), 1, NEVER)
    lineage.grow(table(INIT, LAUNCHER, SUPERVISOR, worker), 1, NEVER)
    again = process(20, 22, start=5000)
    for pid in range(2000, 2000 + SPARE):
        lineage.grow(table(INIT, LAUNCHER, SUPERVISOR, worker, again, process(pid, 22)), 1, NEVER)
    lineage.write()
    lineage.shorten()
    for one in (lineage, Lineage(lineage.path)):
        assert one.root() == [20, 200]
        orphan = table(INIT, LAUNCHER, SUPERVISOR, worker, again, process(40, 7, session=20, start=6000))
        assert pids(one.grow(orphan, 1, NEVER)) == [40]
        assert (20, 5000) in one.members


def test_a_session_that_is_closed_stays_so_in_a_shortened_file(lineage: Lineage) -> None:
    worker = process(22, 7)
    lineage.grow(table(INIT, LAUNCHER, SUPERVISOR, process(20, 7), process(22, 20)), 1, NEVER)
    for pid in range(2000, 2000 + SPARE):
        lineage.grow(table(INIT, LAUNCHER, SUPERVISOR, worker, process(pid, 22)), 1, NEVER)
    lineage.write()
    lineage.shorten()
    again = Lineage(lineage.path)
    assert again.root() == [20, 200]
    # a stranger got the number, founded a session, and has ended
    orphan = process(50, 1, session=20, start=9001)
    assert again.unrecorded(table(INIT, LAUNCHER, SUPERVISOR, worker, orphan), NEVER) == []


def test_a_file_is_not_shortened_where_there_is_no_room_or_some_of_it_is_damaged(
    lineage: Lineage, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Path(lineage.path).open("a") as file:
        file.write('{"closed": 5}\n' * 2 * SPARE)
    before = Path(lineage.path).read_text()

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            Lineage(lineage.path).shorten()
    assert Path(lineage.path).read_text() == before
    assert [path.name for path in Path(lineage.path).parent.iterdir()] == [Path(lineage.path).name]
    with Path(lineage.path).open("a") as file:
        file.write("[]\n")
    Lineage(lineage.path).shorten()
    assert Path(lineage.path).read_text() == before + "[]\n"


def test_what_is_known_of_other_namespaces_outlives_a_shortening(lineage: Lineage) -> None:
    boot, _ = identity.here()
    Lineage(lineage.path, (boot, 77)).record(process(21, 20, 20), 1)
    with Path(lineage.path).open("a") as file:
        file.write('{"closed": 5}\n' * 2 * SPARE)
    one = Lineage(lineage.path)
    one.shorten()
    assert len(Path(lineage.path).read_text().splitlines()) == 2
    assert Lineage(lineage.path).members == one.members
    assert list(Lineage(lineage.path, (boot, 77)).members) == [(21, 210)]
