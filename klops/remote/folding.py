"""Reads of one agent that are asked together: a start of ``docker exec`` and Python for all of them. Pure.

An agent that doesn't know the verb ``several``, or can't carry it out, is asked for each by itself in the
same remote command.
"""

from __future__ import annotations

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
    """``scripts`` to be sent in this order, and how replies are found in what they give."""

    scripts: tuple[str, ...]
    #: index of one that asks for several -> the scripts that it stands for
    together: dict[int, tuple[str, ...]]
    #: script of a read -> its index
    alone: dict[str, int]

    def replies(self, answers: Sequence[Reply]) -> dict[str, Reply]:
        """By script of the read, from the answers to :attr:`scripts`."""
        found = {one: answers[index] for one, index in self.alone.items()}
        for index, several in self.together.items():
            if answers[index].ok:
                found.update(zip(several, _taken_apart(answers[index], len(several)), strict=True))
        return found


def fold(reads: Sequence[Read]) -> Folded:
    """What is sent for these reads, each distinct script once."""
    groups: dict[tuple[object, ...], dict[str, AgentRead]] = {}
    for read in reads:
        if isinstance(read, AgentRead):
            where = (read.docker, read.container, read.python, read.agent)
            groups.setdefault(where, {})[read.script] = read
    scripts: list[str] = []
    together: dict[int, tuple[str, ...]] = {}
    guards: dict[str, int] = {}
    for group in groups.values():
        if len(group) > 1:
            guards |= dict.fromkeys(group, len(scripts))
            together[len(scripts)] = tuple(group)
            scripts.append(_several(list(group.values())))
    alone: dict[str, int] = {}
    for one in script.distinct(reads):
        alone[one] = len(scripts)
        guard = f"[ {script.status_of(guards[one])} != 0 ] || exit 0\n" if one in guards else ""
        scripts.append(guard + one)
    return Folded(tuple(scripts), together, alone)


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
