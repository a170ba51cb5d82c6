"""A repository of 2,000 files and 20 MB to a host over ssh: the first time, without a change, after one.

Every run is checked: the tree on the host is the committed one, file by file. The commands are timed whole.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from klops.sim import rehearsal as sim
from klops.sim.sshd import start_sshd
from tests.bench import sources
from tests.bench.syncers import ADDRESS, ALONE, KLOPS, PIPED_TAR, RSYNC, Ground, Syncer, every
from tests.bench.timing import Run, once
from tests.host.support import klops

RUNS = 5
FIRST, SAME, CHANGED = PHASES = ("first", "nothing changed", f"{sources.CHANGED} files changed")
#: Trees lie in memory where that can be: a disk that takes a second for 2,000 files hides what differs.
MEMORY = Path("/dev/shm")
#: What a row is compared with.
BESIDE = {FIRST: PIPED_TAR, SAME: RSYNC, CHANGED: RSYNC}
#: klops' first sync against the piped tar, as a ratio; the others against rsync, in seconds.
AIM_FIRST, AIM_MORE = 1.2, 0.25

#: Runs that count, by label and phase; and what went wrong, by the same.
Runs = dict[tuple[str, str], list[Run]]
Wrongs = dict[tuple[str, str], str]


def sync() -> None:
    """Print the tables."""
    with _ground() as (ground, repository):
        syncers = every(ground, RUNS, os.environ.get("PEERS", ""))
        _, files, size = sources.digest(ground.repo)
        print(f"\nA repository of {files} files, {size / 1e6:.1f} MB; trees in {ground.target.parent}")
        runs, wrongs = _rounds(syncers, repository)
        for phase in PHASES:
            _table(phase, syncers, runs, wrongs)
        _aims(runs)


@contextmanager
def _ground() -> Iterator[tuple[Ground, sources.Repository]]:
    directory = Path(tempfile.mkdtemp(prefix="klops-", dir="/tmp"))
    place = MEMORY if os.access(MEMORY, os.W_OK) else Path("/tmp")
    trees = Path(tempfile.mkdtemp(prefix="klops-bench-", dir=place))
    with ExitStack() as ends:
        ends.callback(shutil.rmtree, trees, ignore_errors=True)
        ends.callback(sim.stop, directory)
        rehearsal = sim.make(directory, diagnose="never")
        # the rehearsal's own would have no SFTP: klops needs none
        sshd = start_sshd(trees / "sshd", extra_config="Subsystem sftp internal-sftp")
        ends.callback(sshd.close)
        repository = sources.make(trees / "repository")
        for name in ("target", "scratch"):
            (trees / name).mkdir()
        host, inventory = rehearsal.hosts[0].name, rehearsal.inventory
        root, target, scratch = (trees / name for name in ("root", "target", "scratch"))
        ground = Ground(repository.folder, host, inventory, sshd, root, target, scratch)
        _settings(ground)
        done = klops("up", host, "-i", str(inventory))
        if done.rc:
            raise SystemExit(done.stdout + done.stderr)
        yield ground, repository


def _settings(ground: Ground) -> None:
    """Releases lie where the other trees do. No service: what a sync restarts is not what this is about."""
    yaml = YAML(typ="safe")
    everything: Any = yaml.load(ground.inventory)
    host = everything["all"]["children"]["rehearsal"]["hosts"][ground.host]
    host["klops"] |= {"services": {}, "root": str(ground.root), "source": {"repo": str(ground.repo)}}
    host |= {
        "ansible_connection": "ssh",
        "ansible_host": ADDRESS,
        "ansible_port": ground.sshd.port,
        "ansible_user": ground.sshd.user,
        "ansible_ssh_private_key_file": str(ground.sshd.key_file),
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={ground.sshd.known_hosts}",
    }
    yaml.dump(everything, ground.inventory)


def _rounds(syncers: list[Syncer], repository: sources.Repository) -> tuple[Runs, Wrongs]:
    """Each round: everything away, all three phases by all of them in turn. The first one doesn't count, and
    those that run once are in the second only."""
    runs: Runs = {}
    wrongs: Wrongs = {}
    for turn in range(RUNS + 1):
        present = [s for s in syncers if not s.missing and (s.contender.runs > 1 or turn == 1)]
        for phase in PHASES:
            if phase == CHANGED:
                repository.change()
            for syncer in present:
                if phase == FIRST:
                    syncer.clear()
                key = syncer.contender.label, phase
                run, wrong = _checked(syncer, repository)
                if wrong:
                    wrongs.setdefault(key, wrong)
                elif turn:
                    runs.setdefault(key, []).append(run)
    return runs, wrongs


def _checked(syncer: Syncer, repository: sources.Repository) -> tuple[Run, str]:
    run = once(syncer.contender)
    if run.wrong:
        return run, f"{run.wrong}: {' '.join(run.printed.split())[-160:]}"
    same = sources.digest(repository.folder / syncer.part) == sources.digest(syncer.tree)
    return run, "" if same else "the tree on the host isn't the committed one"


def _table(phase: str, syncers: list[Syncer], runs: Runs, wrongs: Wrongs) -> None:
    print(f"\nSync, {phase}; ratio and difference to {BESIDE[phase]}")
    print(f"  {'':44} {'wall s':>8} {'cpu s':>8} {'ratio':>7} {'more s':>7} {'runs':>5}")
    beside = _wall(runs, BESIDE[phase], phase)
    for syncer in syncers:
        label = syncer.contender.label
        row = f"  {label + (f', {sources.PART_FILES} files only' if syncer.part else ''):44}"
        these = runs.get((label, phase), [])
        if syncer.missing:
            print(f"{row} not here: {syncer.missing}")
        elif (label, phase) in wrongs:
            print(f"{row} FAILED: {wrongs[label, phase]}")
        else:
            wall, cpu = _wall(runs, label, phase), statistics.median(run.cpu for run in these)
            row += f" {wall:8.3f} {cpu:8.3f} {wall / beside:7.2f} {wall - beside:7.2f} {len(these):5}"
            print(row)


def _aims(runs: Runs) -> None:
    ratio = _wall(runs, KLOPS, FIRST) / _wall(runs, PIPED_TAR, FIRST)
    print(f"\n  klops against {PIPED_TAR}, first: {ratio:.2f} times (aim: at most {AIM_FIRST})")
    for phase in (SAME, CHANGED):
        more, least = (_wall(runs, label, phase) - _wall(runs, RSYNC, phase) for label in (KLOPS, ALONE))
        print(f"  klops against {RSYNC}, {phase}: {more:+.2f} s (aim: at most {AIM_MORE} s more)")
        print(f"    of that its packages alone, before klops does anything: {least:+.2f} s")
    for phase in PHASES:
        for run in runs.get((KLOPS, phase), [])[-1:]:
            print(f"  klops, {phase}: {_told(run.printed)}")


def _told(printed: str) -> str:
    """What klops says of a sync: its JSON stands between what it says besides."""
    document = json.JSONDecoder().raw_decode(printed, printed.index("{"))[0]
    (host,), (commands,) = document["hosts"].values(), document["remote_commands"].values()
    return f"{commands} remote commands, {host['sent_files']} files with {host['sent_bytes']} bytes sent"


def _wall(runs: Runs, label: str, phase: str) -> float:
    """The median; not a number where there was no good run."""
    these = runs.get((label, phase), [])
    return statistics.median(run.wall for run in these) if these else float("nan")
