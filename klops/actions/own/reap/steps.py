"""The step of ``klops.reap``: the clean-up itself, and what it came to."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from klops.actions.base import Change, Context, Progress, Step
from klops.actions.own import hostreads, records
from klops.actions.own.hostview import HostView, cards_of, reply
from klops.actions.own.reap import findings, judge
from klops.actions.own.reap.findings import Look, Memory, Names
from klops.commands import pidmap
from klops.commands.reaping import Place
from klops.errors import TaskFailed
from klops.inventory.settings import Settings
from klops.remote.base import Remote, Replies, Reply

#: Seconds that a clean-up may take: a helper has to start, and TERM and KILL are waited for, more than once.
LONGEST = 240.0
#: Seconds that the driver gets to give back the memory of a process that has ended, and between two looks.
SETTLE, PAUSE = 10.0, 0.5
#: Paths of leftovers that a change names; the result has all.
_SHOWN = 3
#: States of a unit that has nothing left to leave behind.
AT_REST = ("stopped", "failed")


def place(settings: Settings) -> Place:
    """What a look needs of the settings."""
    wanted = settings.container
    return Place(
        docker=hostreads.docker_prefix(settings),
        container=wanted.name,
        python=wanted.python,
        root=settings.root,
        device_dir=settings.cards.device_dir,
        image=wanted.image or "",
        volumes=tuple(wanted.volumes),
        record=records.adoption_path(settings.root),
    )


@dataclass(frozen=True)
class Before:
    """What was seen before anything was done, and what the host calls it."""

    names: Names
    inside: Names
    memory: Memory
    #: cards of units of which something lives, and those that the settings use, by their indexes
    busy: frozenset[int]
    ours: tuple[int, ...]

    @classmethod
    def of(cls, host: HostView, replies: Replies, settings: Settings) -> Before:
        """What the shared reads say."""
        pids = pidmap.parse(reply(replies, hostreads.PIDS).text)
        return cls(
            names=Names.of(host.cards, host.nodes, {}, inside=False),
            inside=Names.of(host.cards, host.nodes, pids, inside=True),
            memory=Memory.of(host.cards),
            busy=frozenset(
                index
                for unit in host.units.values()
                if unit.get("lineage")
                for index in unit.get("cards") or ()
            ),
            ours=tuple(settings.cards.indexes),
        )

    def freed(
        self, remote: Remote, settings: Settings, look: Look, progress: Callable[[Progress], None]
    ) -> tuple[Memory, int | None]:
        """Memory once it is settled, and MiB that were given back.

        A process that has ended holds its memory for some moments more.
        """
        deadline = time.monotonic() + SETTLE
        while True:
            replies = remote.read(hostreads.cards(settings))
            cards, place = cards_of(replies, settings)
            now = Memory.of(cards) if place else Memory()
            left = look.unexplained(now, self.busy, self.ours if look.answers_for_all else ())
            if not left or time.monotonic() > deadline:
                return now, self.memory.freed(now, self.busy)
            listed = ", ".join(map(str, left))
            progress(Progress(f"waiting for the memory of card {listed} to be given back"))
            time.sleep(PAUSE)

    def result(
        self, remote: Remote, settings: Settings, look: Look, progress: Callable[[Progress], None]
    ) -> dict[str, Any]:
        """The result object. Raises :class:`TaskFailed`, which has it too, when the host isn't clean."""
        memory, freed = self.freed(remote, settings, look, progress)
        look = look.with_memory(memory, self.busy)
        result = {**look.document, "freed_mib": freed}
        failure = judge.failure(look, memory, self.busy, self.ours)
        if failure is not None:
            raise failure.but(values=result)
        return result


@dataclass(frozen=True)
class Reap(Step):
    """End what a unit left behind. The agent looks again by itself before each signal."""

    settings: Settings
    #: the command line on the host
    argv: tuple[str, ...]
    before: Before
    #: who, and which files, in a few words each
    ends: tuple[str, ...]
    removes: tuple[str, ...] = ()
    #: cards that are put back into service
    back: tuple[str, ...] = ()
    #: of the whole host
    whole: bool = True
    #: what the plan has warned of already
    known: tuple[str, ...] = ()

    def change(self) -> Change:
        """Everything that is ended and removed."""
        parts = [f"end {'; '.join(self.ends)}"] if self.ends else []
        if self.removes:
            more = len(self.removes) - _SHOWN
            others = f" and {more} more files that are left over" if more > 0 else ""
            parts.append(f"remove {', '.join(self.removes[:_SHOWN])}{others}")
        if self.back:
            parts.append(f"put {', '.join(self.back)} back into service: what kept it out is gone")
        return Change("; ".join(parts))

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """Run it. Raises AgentError with the agent's own words, TaskFailed when something lives on."""
        ctx.progress(Progress("ending what was left behind"))
        done = ctx.remote.run(self.argv, check=False, timeout=LONGEST)
        said = Reply(done.rc, done.stdout, done.stderr)
        look = findings.read(said, self.before.names, self.before.inside, whole=self.whole)
        for text in judge.blind_spots(look):
            if text not in self.known:
                ctx.warn(text)
        try:
            return self.before.result(ctx.remote, self.settings, look, ctx.progress)
        except TaskFailed:
            # whatever could not be ended, the rest was
            ctx.done.append(self.change())
            raise


@dataclass(frozen=True)
class Lift(Step):
    """Put cards back into service for which that is due: from the host it is seen who is gone.

    From inside the container nobody can tell that of a process of an earlier life of it. Nobody is ended, so
    it takes no lock.
    """

    changes: ClassVar[bool] = False

    #: the command line on the host
    argv: tuple[str, ...]

    def change(self) -> Change:
        """What is done, and why."""
        return Change("put cards back into service if what keeps them out is gone")

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """Run it. A card that stays out of service is for who needs it to judge."""
        done = ctx.remote.run(self.argv, check=False, timeout=LONGEST)
        if done.rc != 0:
            said = (done.error_text or done.text).strip().splitlines()
            ctx.warn(f"whether what keeps cards out of service is gone can't be told: {(said or ['?'])[-1]}")
        return {}


@dataclass(frozen=True)
class Settle(Step):
    """Give the driver time with memory that nobody is seen to hold, and say so if it stays in use."""

    changes: ClassVar[bool] = False

    settings: Settings
    before: Before
    look: Look

    def change(self) -> Change:
        """What is looked for."""
        return Change("check that the cards are free of what nobody is seen to hold")

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """Look until it is given back. Raises TaskFailed."""
        return self.before.result(ctx.remote, self.settings, self.look, ctx.progress)
