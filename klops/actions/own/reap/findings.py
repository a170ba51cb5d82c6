"""What a look of the agent's ``reap`` found, in the words of the host: its pids, xpu-smi's indexes. Pure."""

from __future__ import annotations

import contextlib
import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from klops.cards.memory import SLACK
from klops.cards.smi import Cards
from klops.commands.reaping import INSIDE, NO_AGENT, NO_HELPER, NO_IMAGE
from klops.errors import AgentError
from klops.remote.base import Reply

#: Lists of processes in the result -> in the verb's answer; every result has a flag called ``unknown``.
LISTS = {
    "processes": "processes",
    "unowned": "unowned",
    "foreign": "foreign",
    "unsupervised": "unsupervised",
    "unseen": "unknown",
    "observers": "observers",
}
#: The lists whose processes hold the cards they name; an observer looks at a card and holds nothing.
_HOLDING = ("processes", "unowned", "foreign", "unsupervised")
#: How the agent ends what it says of a file that only check mode has spared.
_WOULD_GO = "would be removed"
#: Outcomes of a process that lives for all that was done.
ALIVE = ("alive", "unkillable")

_HEAD = re.compile(r"^(helper|exec) (?:-|[0-9a-f]+) (?:-|\w+)$", re.MULTILINE)
_INSIDE = re.compile(rf"^{INSIDE} ([0-9]+)$", re.MULTILINE)


class NotThereError(Exception):
    """There is nothing to look with: no image or, without ``agent``, not even the agent is on the host."""

    def __init__(self, message: str, *, agent: bool) -> None:
        super().__init__(message)
        self.agent = agent


@dataclass(frozen=True)
class Memory:
    """Used memory in MiB by smi index, of the cards of which xpu-smi tells it."""

    used: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, cards: Cards) -> Memory:
        """What xpu-smi said of these cards."""
        return cls({c.index: c.memory_used_mib for c in cards.cards if c.memory_used_mib is not None})

    def freed(self, after: Memory, busy: frozenset[int]) -> int | None:
        """MiB less than before on the cards that both know; None when there is none.

        A card that somebody fills meanwhile takes nothing from it; ``busy`` ones, of units that run, don't
        count.
        """
        both = self.used.keys() & after.used.keys()
        freed = (max(self.used[index] - after.used[index], 0) for index in both - busy)
        return sum(freed) if both else None


@dataclass(frozen=True)
class Names:
    """What the host calls what the agent names: cards by their nodes, and pids by those in the container."""

    #: smi index by the name of the node, as the viewer sees it
    indexes: Mapping[str, int] = field(default_factory=dict)
    pids: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, cards: Cards, nodes: Mapping[str, str], pids: Mapping[int, int], *, inside: bool) -> Names:
        """``nodes``: path in the container of nodes of the host; they count where the look was ``inside``."""
        # a node that is one card's for certain is no other's, whose number was only taken for it
        names = {c.node: c.index for c in sorted(cards.cards, key=lambda card: card.minor_known)}
        seen = {nodes.get(node, node) if inside else node: index for node, index in names.items()}
        return cls({posixpath.basename(node): index for node, index in seen.items()}, pids)

    def process(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """One process: ``cards`` are smi indexes; one that xpu-smi knows no card of is in ``nodes`` alone."""
        nodes = [str(name) for name in given.get("cards") or ()]
        pid, cpid = given.get("pid"), given.get("cpid")
        if pid is None and isinstance(cpid, int):
            pid = self.pids.get(cpid)
        indexes = sorted({self.indexes[name] for name in nodes if name in self.indexes})
        return {**given, "pid": pid, "cards": indexes, "nodes": nodes, "memory_mib": None}


@dataclass(frozen=True)
class Look:
    """What was found. ``document`` is the result object of ``klops reap``, without what was freed."""

    document: Mapping[str, Any]
    #: why what is left in shared memory could not be looked at
    shm_unseen: str = ""
    #: why only the container was looked at where the whole host was asked for
    narrowed: str = ""

    @property
    def untold(self) -> str:
        """What the agent could not do or write down; "" when there is nothing of the kind."""
        return f"not all of it could be done: {'; '.join(self.trouble)}" if self.trouble else ""

    @property
    def trouble(self) -> list[str]:
        """The same, one by one, in the agent's words."""
        return [str(text) for text in self.document.get("trouble") or ()]

    @property
    def removes(self) -> list[str]:
        """Paths that a clean-up would remove."""
        return [str(one["path"]) for one in self.document["shm"] if str(one["why"]).endswith(_WOULD_GO)]

    @property
    def back(self) -> list[str]:
        """Cards that a clean-up puts back into service, as what kept them out is gone."""
        return [f"card {one.get('index')}" for one in self.document.get("back") or ()]

    def processes(self, *lists: str) -> list[Mapping[str, Any]]:
        """The processes of some lists."""
        return [process for name in lists for process in self.document[name]]

    @property
    def whole(self) -> bool:
        """Whether all of the host was looked at, and not only the container."""
        return bool(self.document["view"] == "host")

    @property
    def answers_for_all(self) -> bool:
        """Whether it is to tell about all of the host, whatever could be seen of that."""
        return self.whole or bool(self.narrowed)

    def held(self) -> dict[int, list[Mapping[str, Any]]]:
        """Who holds each card, by its index: those who have not ended."""
        found: dict[int, list[Mapping[str, Any]]] = {}
        for process in self.processes(*_HOLDING):
            if process.get("outcome") != "gone":
                for index in process["cards"]:
                    found.setdefault(index, []).append(process)
        return found

    def with_memory(self, memory: Memory, busy: frozenset[int]) -> Look:
        """With ``memory_mib`` where a process is alone on its cards; ``busy`` are those of running units.

        Whether it is alone only a look at the whole host tells, and one that saw every process.
        """
        if not self.whole or self.document["unseen"]:
            return self
        held = self.held()

        def of(process: Mapping[str, Any]) -> int | None:
            cards = process["cards"]
            alone = all(index in memory.used and held.get(index) == [process] for index in cards)
            return sum(memory.used[i] for i in cards) if cards and alone and not busy & {*cards} else None

        lists = {name: [{**p, "memory_mib": of(p)} for p in self.document[name]] for name in _HOLDING}
        return replace(self, document={**self.document, **lists})

    def unexplained(self, memory: Memory, busy: frozenset[int], ours: Sequence[int]) -> list[int]:
        """Cards of ours on which memory is used by nobody who could be seen."""
        held = self.held()
        return [i for i in ours if memory.used.get(i, 0) > SLACK and i not in busy and i not in held]


def read(reply: Reply, names: Names, inside: Names, *, whole: bool = True) -> Look:
    """What the reply of a look or a clean-up says; ``inside``: the names where only the container was seen.

    ``whole``: all of the host was asked for. Raises :class:`NotThereError`, and :class:`AgentError` with the
    agent's own words when it failed.
    """
    head, second = _HEAD.search(reply.text), _INSIDE.search(reply.text)
    documents = _documents(reply.text[: second.start()] if second is not None else reply.text)
    said = documents[0] if documents else {}
    failed = _refusal(said)
    if failed is not None:
        raise failed
    if reply.rc == NO_AGENT:
        raise NotThereError("klops' agent is not on this host", agent=False)
    if reply.rc == NO_IMAGE:
        raise NotThereError(
            "on this host there is neither a container of klops' nor the image of its settings", agent=True
        )
    lines = reply.error_text.strip().splitlines()
    if not reply.ok or "processes" not in said:
        lines = lines or reply.text.strip().splitlines()
        raise AgentError(
            f"what was left behind can't be looked for: {lines[-1] if lines else f'status {reply.rc}'}",
            hint="klops up puts the agent in place; docker run --rm of the container's image shows whether "
            "a helper can be started",
        )
    by_helper = head is not None and head[1] == "helper"
    of = names if by_helper else inside
    lists = {name: [of.process(process) for process in said.get(key) or ()] for name, key in LISTS.items()}
    # the shared memory of a container is seen from inside it alone
    of_memory, unseen = said, ""
    if second is not None:
        also = _documents(reply.text[second.end() :])
        of_memory = also[0] if also else {}
        blind = _refusal(of_memory)
        if blind is not None:
            unseen = blind.message
        elif "shm" not in of_memory:
            unseen = lines[-1] if lines else f"the agent in the container ended with status {second[1]}"
    return Look(
        {
            "view": "host" if by_helper else "container",
            **lists,
            "zombies": list(said.get("zombies") or ()),
            "shm": list(of_memory.get("shm") or ()),
            "back": list(said.get("back") or ()),
            "supervisor": bool(said.get("supervisor")),
            "trouble": _troubles(said, of_memory),
        },
        shm_unseen=unseen,
        narrowed=_no_helper(lines) if whole and not by_helper else "",
    )


def _troubles(*documents: Mapping[str, Any]) -> list[str]:
    """What the agent could not do, of both looks; each once."""
    return list(dict.fromkeys(str(text) for one in documents for text in one.get("trouble") or ()))


def _no_helper(lines: Sequence[str]) -> str:
    """Why no helper could be run: docker's own words, which come before those of the script."""
    before = lines[: lines.index(NO_HELPER)] if NO_HELPER in lines else lines
    said = [line for line in before if line.startswith("docker: ")] or [line for line in before if line]
    return said[-1] if said else NO_HELPER


def _documents(text: str) -> list[dict[str, Any]]:
    """The objects in an answer, each a line of its own; noise is passed over."""
    found = []
    for line in text.splitlines():
        if line.startswith("{"):
            with contextlib.suppress(ValueError):  # no line of the agent's
                found.append(json.loads(line))
    return [one for one in found if isinstance(one, dict)]


def _refusal(said: Mapping[str, Any]) -> AgentError | None:
    error = said.get("error")
    if not isinstance(error, dict):
        return None
    message, hint = str(error.get("message")), str(error.get("hint") or "")
    return AgentError(message, hint=hint, code=str(error.get("code") or AgentError.code))
