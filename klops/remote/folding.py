"""How the reads of one remote command are sent: those of one agent together, slow ones side by side. Pure.

A start of ``docker exec`` and Python is for all that one agent is asked. An agent that doesn't know the verb
``several``, or can't carry it out, is asked for each by itself in the same remote command.

What is asked of containers has a lane of its own: meanwhile the host is read.
"""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from klops.remote import script
from klops.remote.base import Reply
from klops.remote.containerreads import AgentRead

if TYPE_CHECKING:
    from klops.remote.reads import Read


@dataclass(frozen=True)
class Folded:
    """Scripts to be sent, by lanes that run side by side, and how replies are found in what they give.

    A script's index is its place among those of all lanes.
    """

    lanes: tuple[tuple[str, ...], ...]
    #: index of one that asks for several -> the scripts that it stands for
    together: dict[int, tuple[str, ...]]
    #: script of a read -> its index
    alone: dict[str, int]

    def replies(self, answers: Sequence[Reply]) -> dict[str, Reply]:
        """By script of the read, from the answers to the scripts of all lanes."""
        found = {one: answers[index] for one, index in self.alone.items()}
        for index, several in self.together.items():
            if answers[index].ok:
                found.update(zip(several, _taken_apart(answers[index], len(several)), strict=True))
        return found


def fold(reads: Sequence[Read]) -> Folded:
    """What is sent for these reads, each distinct script once."""
    groups: dict[tuple[object, ...], dict[str, AgentRead]] = {}
    first: list[Read] = []
    beside: list[Read] = []
    for read in reads:
        if isinstance(read, AgentRead):
            where = (read.docker, read.container, read.python, read.agent)
            groups.setdefault(where, {})[read.script] = read
        else:
            (beside if read.beside else first).append(read)
    lanes = [tuple(script.distinct(first)), *((one,) for one in script.distinct(beside))]
    alone = {one: index for index, one in enumerate(itertools.chain(*lanes))}
    together: dict[int, tuple[str, ...]] = {}
    for group in groups.values():
        number = sum(map(len, lanes))
        asked = tuple(group)
        if len(asked) > 1:
            together[number] = asked
            guard = f"[ {script.status_of(number)} != 0 ] || exit 0\n"
            lanes.append((_several(list(group.values())), *(guard + one for one in asked)))
            number += 1
        else:
            lanes.append(asked)
        alone |= {one: number + place for place, one in enumerate(asked)}
    return Folded(tuple(lanes), together, alone)


def _several(reads: Sequence[AgentRead]) -> str:
    asked = json.dumps([[read.verb, *read.args] for read in reads])
    return shlex.join((*reads[0].started, "several", "--asked", asked))


def _taken_apart(answer: Reply, count: int) -> list[Reply]:
    try:
        parts = json.loads(answer.stdout)
        found = [Reply(int(rc), _bytes(out), _bytes(err)) for rc, out, err in parts]
    except (ValueError, TypeError, AttributeError):
        found = []
    # what isn't an answer is none to any of them
    return found if len(found) == count else [Reply(1, answer.stdout, answer.stderr)] * count


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
