"""One play: its hosts in batches, each host on its way through the tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from klops.playbook.events import PlayStarted, Warned
from klops.playbook.model import Play, Task
from klops.playbook.plays import strategy
from klops.playbook.plays.batch import Batch
from klops.playbook.plays.batches import batches
from klops.playbook.plays.fleet import RunFleet
from klops.playbook.plays.handlers import Agenda
from klops.playbook.plays.includes import Includes
from klops.playbook.plays.lane import Lane
from klops.playbook.plays.notified import HostNotes, listening
from klops.playbook.plays.prepare import PreparedPlay
from klops.playbook.plays.steps import Steps
from klops.playbook.plays.tally import Tally
from klops.playbook.plays.walk import Tree, Walker
from klops.playbook.plays.workers import Workers
from klops.playbook.results import PlayRun
from klops.playbook.tasks.surroundings import PlayHosts, Surroundings
from klops.playbook.tasks.taskrun import HostPlay


@dataclass(frozen=True)
class PlayRunner:
    """Runs the plays of a run, one after the other."""

    fleet: RunFleet
    around: Surroundings
    workers: Workers
    tally: Tally
    includes: Includes
    #: host -> what was said of its record of handlers
    said: dict[str, set[str]] = field(default_factory=dict)

    def run(self, prepared: PreparedPlay) -> bool:
        """One play; returns whether the next one may begin.

        As in Ansible a batch of which every host failed ends the playbook. Hosts that failed in an earlier
        play keep their places in the batches.
        """
        selection = prepared.selection
        play = selection.play
        tree = Tree.of(play, selection.sections)
        groups = batches(selection.hosts, play.serial)
        self.tally.left.clear()
        for number, names in enumerate(groups, start=1):
            living = [name for name in names if self.fleet.host(name).error is None]
            if not living:
                continue
            self.tally.emit(
                PlayStarted(play.name, tuple(living), number, len(groups), play.strategy == "free")
            )
            record = PlayRun(play.name, tuple(living), batch=number, batches=len(groups))
            self.tally.result.plays.append(record)
            lanes = [self._lane(prepared, tree, name, names) for name in living]
            steps = Steps(record, self.tally, self.includes)
            batch = Batch(play, lanes, len(names), steps, self.workers, self.tally)
            try:
                self._walk(batch, selection.tasks)
            finally:
                steps.sort(living)
                self._keep_remaining(lanes)
            all_failed = len(living) == len(names) and not self._living(names)
            if batch.ends_playbook or all_failed or batch.ends_play:
                self.left_out(play.name, [name for group in groups[number:] for name in group])
            if batch.ends_playbook or all_failed:
                return False
            if batch.ends_play:
                break
        return True

    def left_out(self, play: str, names: Sequence[str]) -> None:
        """These hosts of a play did nothing in it, since it ended before they came to it."""
        sound = tuple(self._living(names))
        if sound:
            self.tally.result.not_run.append((play, sound))

    def _keep_remaining(self, lanes: Sequence[Lane]) -> None:
        left = self.tally.result.handlers_left
        for lane in lanes:
            names = () if lane.notes is None else lane.notes.remaining()
            if names:
                left[lane.host.name] = tuple(dict.fromkeys((*left.get(lane.host.name, ()), *names)))

    def _walk(self, batch: Batch, tasks: Sequence[Task]) -> None:
        if batch.play.strategy != "free":
            strategy.linear(batch)
            return
        for keyword in strategy.not_with_free(batch.play, tasks):
            text = f"{keyword} means nothing with the free strategy, in which no host waits for another"
            self.tally.emit(Warned("", text))
        strategy.free(batch)

    def _lane(self, prepared: PreparedPlay, tree: Tree, name: str, batch: Sequence[str]) -> Lane:
        play, host = prepared.selection.play, self.fleet.host(name)
        hosts = PlayHosts(prepared.selection.hosts, batch, partial(self._still, prepared.selection.hosts))
        host_play = HostPlay(
            host, play, prepared.settings[name], prepared.variables[name], self.around, hosts
        )
        lane = Lane(host, host_play)
        if play.handlers:
            lane.notes = self._notes(host_play, play, prepared.settings[name].root)
        host.notified.clear()
        lane.begin(Walker(tree, Agenda(play.handlers, host_play.name), lane.heard).walk())
        return lane

    def _notes(self, host_play: HostPlay, play: Play, root: str) -> HostNotes:
        home, check = host_play.keeper, self.around.check
        said = self.said.setdefault(host_play.host.name, set())
        notes = HostNotes(play, root, home, host_play.name, host_play.notifications, check, said)
        listening(home, notes)
        host_play.watch(partial(listening, notes=notes))
        host_play.notes = notes
        return notes

    def _still(self, names: Sequence[str]) -> list[str]:
        """Hosts that were in the play all the time: one whose errors were cleared is back in the next."""
        return [name for name in self._living(names) if name not in self.tally.left]

    def _living(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if self.fleet.host(name).error is None]
