"""The way of one host through a play: blocks, rescues, includes, handlers, orders to the engine. Pure.

A walk is a generator. It yields steps and is sent what became of each; who runs a step, and when, is for
:mod:`klops.playbook.plays.strategy` to say. Positions order the steps of all hosts as they stand in the
playbook.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from klops.actions.control import meta
from klops.playbook.model import Block, Item, Play, Task
from klops.playbook.plays.ahead import Ahead, Chain, tasks_of_chain
from klops.playbook.plays.handlers import Agenda, Due

Position: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """A task to be run on the host now."""

    task: Task
    position: Position
    #: a rescue would take care of a failure
    caught: bool = False
    #: what would follow on this host if nothing failed
    ahead: Sequence[Task] = ()
    #: set for a handler
    due: Due | None = None
    #: how many includes it is within
    depth: int = 0

    def same_place(self, other: AnyStep) -> bool:
        """Whether two hosts are at the same task: one position, and in the same file if that was included."""
        return (
            isinstance(other, Step)
            and self.position == other.position
            and self.task.location == other.task.location
        )


@dataclass(frozen=True)
class Flushed:
    """Not a task: a host has run its handlers, and may put that down."""

    position: Position

    def same_place(self, other: AnyStep) -> bool:
        """Whether two hosts are at the same point."""
        return isinstance(other, Flushed) and self.position == other.position


AnyStep: TypeAlias = Step | Flushed


@dataclass(frozen=True)
class Done:
    """What became of a step, as far as the walk is concerned."""

    failed: bool = False
    #: the order that was carried out, of a ``meta`` whose condition held
    order: str = ""
    #: lists of tasks that an include led to, one for each turn of its loop
    included: tuple[tuple[Item, ...], ...] = ()


Walk: TypeAlias = Generator[AnyStep, Done, bool]


class _HostEnded(Exception):
    """``meta: end_host``."""


@dataclass(frozen=True)
class _Around:
    """What a list of tasks is within."""

    caught: bool = False
    depth: int = 0


@dataclass(frozen=True)
class Tree:
    """A play as it is walked: its sections and handlers with what tags left of them."""

    sections: tuple[tuple[Item, ...], ...]
    handlers: tuple[Task, ...]
    force_handlers: bool = False
    ahead: Ahead = field(default_factory=Ahead)

    @classmethod
    def of(cls, play: Play, sections: Sequence[tuple[Item, ...]]) -> Tree:
        """The tree of a play with these sections."""
        return cls(tuple(sections), play.handlers, play.force_handlers)


@dataclass
class Walker:
    """One host's walk. ``heard`` gives what was notified since it was last asked: names and what is due."""

    tree: Tree
    agenda: Agenda
    heard: Callable[[], Mapping[str, Due]]

    def walk(self) -> Walk:
        """Through the whole play; returns whether the host came to its end without a failure."""
        then: Chain | None = None
        after: list[Chain | None] = []
        for section in reversed(self.tree.sections):
            after.insert(0, then)
            then = self.tree.ahead.heads(section, then)[0]
        try:
            for number, section in enumerate(self.tree.sections):
                ok = yield from self._items(section, (number, 0), after[number], _Around())
                if ok or self.tree.force_handlers:
                    ok = (yield from self._flush((number, 1), _Around())) and ok
                if not ok:
                    return False
        except _HostEnded:
            pass
        return True

    def _items(self, items: tuple[Item, ...], prefix: Position, then: Chain | None, around: _Around) -> Walk:
        heads = self.tree.ahead.heads(items, then)
        for place, item in enumerate(items):
            position = (*prefix, place)
            if isinstance(item, Block):
                ok = yield from self._block(item, position, heads[place + 1], around)
            else:
                ok = yield from self._task(item, position, heads[place + 1], around)
            if not ok:
                return False
        return True

    def _block(self, block: Block, position: Position, then: Chain | None, around: _Around) -> Walk:
        last = self.tree.ahead.heads(block.always, then)[0]
        within = replace(around, caught=around.caught or bool(block.rescue))
        ok = yield from self._items(block.block, (*position, 0), last, within)
        if not ok and block.rescue:
            ok = yield from self._items(block.rescue, (*position, 1), last, around)
        # whatever came before, and then what came before counts
        kept = yield from self._items(block.always, (*position, 2), then, around)
        return ok and kept

    def _task(self, task: Task, position: Position, then: Chain | None, around: _Around) -> Walk:
        done = yield Step(task, position, around.caught, tasks_of_chain(then), depth=around.depth)
        return (yield from self._follow(done, position, then, around))

    def _follow(self, done: Done, position: Position, then: Chain | None, around: _Around) -> Walk:
        """What a step leads to."""
        if done.failed:
            return False
        if done.order == meta.END_HOST:
            raise _HostEnded
        if done.order == meta.FLUSH_HANDLERS:
            return (yield from self._flush(position, around))
        within = replace(around, depth=around.depth + 1)
        for number, items in enumerate(done.included):
            ok = yield from self._items(items, (*position, number), then, within)
            if not ok:
                return False
        return True

    def _flush(self, position: Position, around: _Around) -> Walk:
        """Run what was notified, once each, in the order of the file.

        A handler that is notified by a later one waits for the next time, as in Ansible.
        """
        self._listen()
        ok, ran = True, False
        for place, handler in enumerate(self.tree.handlers):
            due = self.agenda.due.pop(place, None)
            if due is None:
                continue
            ran = True
            here = (*position, place)
            done = yield Step(handler, here, around.caught, self.agenda.after(place), due, around.depth)
            self._listen()
            ok = yield from self._follow(done, here, None, around)
            if not ok:
                break
        if ran:
            yield Flushed((*position, len(self.tree.handlers)))
        return ok

    def _listen(self) -> None:
        for name, due in self.heard().items():
            self.agenda.notify(name, due)
