"""What comes after each task of a play if nothing fails, so that its reads can go with those before. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from klops.actions.control import include_tasks, meta
from klops.playbook.model import Item, Task

_NOTHING: tuple[Task, ...] = ()


class Chain:
    """A task and what follows it; many tasks share what follows them."""

    __slots__ = ("_all", "_rest", "_task")

    def __init__(self, task: Task, rest: Chain | None) -> None:
        self._task = task
        self._rest = rest
        self._all: tuple[Task, ...] | None = None

    def tasks(self) -> tuple[Task, ...]:
        """All of them in order; put together once."""
        if self._all is None:
            found: list[Task] = []
            link: Chain | None = self
            while link is not None:
                found.append(link._task)
                link = link._rest
            self._all = tuple(found)
        return self._all


def tasks_of_chain(chain: Chain | None) -> tuple[Task, ...]:
    """The tasks of a chain, which may be none."""
    return _NOTHING if chain is None else chain.tasks()


class Ahead:
    """Chains of the lists of tasks of one play, each made once for all hosts. Used by one thread."""

    def __init__(self) -> None:
        # the lists are kept, too: by their ids they are found again
        self._made: dict[tuple[int, int], tuple[Sequence[Item], Chain | None, list[Chain | None]]] = {}

    def heads(self, items: Sequence[Item], then: Chain | None) -> list[Chain | None]:
        """For each item the chain that begins with it, and last ``then``, what comes after all of them.

        A block leads through its tasks and its ``always``. At an include a chain ends: nobody knows yet what
        is in it. An order to the engine is passed over.
        """
        key = (id(items), id(then))
        if key not in self._made:
            heads = [then]
            for item in reversed(items):
                heads.append(self._head(item, heads[-1]))
            heads.reverse()
            self._made[key] = (items, then, heads)
        return self._made[key][2]

    def _head(self, item: Item, then: Chain | None) -> Chain | None:
        if not isinstance(item, Task):
            return self.heads(item.block, self.heads(item.always, then)[0])[0]
        if item.action.name == include_tasks.NAME:
            return None
        return then if item.action.name == meta.NAME else Chain(item, then)
