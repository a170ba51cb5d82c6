"""What the verb is asked: one JSON object, checked before anything is begun."""

from __future__ import annotations

import os
from typing import Any, Mapping, NamedTuple, Optional, Sequence, Tuple

from klops.agent.errors import VerbError
from klops.agent.units.environment import VISIBLE
from klops.agent.xccl.runner import Limits
from klops.cards.xccl.results import Aim

SCHEMA = 1
BACKENDS = ("auto", "nccl", "gloo")
_CARD = ("index", "inside", "minor", "node", "bdf", "uuid", "serial")


class Request(NamedTuple):
    """A diagnosis, or a scan."""

    run: str
    aim: Aim
    #: in the order of ``aim.cards``: index, inside (container number or None), minor, node, bdf, uuid, serial
    cards: Sequence[Mapping[str, Any]]
    visible_env: str
    device_dir: str
    env: Mapping[str, str]
    env_script: str
    backend: str
    #: bytes a rank; None for those that fit the device
    sizes: Optional[Tuple[int, ...]]
    limits: Limits
    #: seconds for all of it
    budget: float
    scan: bool
    #: xpu-smi inside the container, "" where it isn't to be asked
    smi: str

    @property
    def absent(self) -> Tuple[int, ...]:
        """Cards without a number in this container, where others have one."""
        return tuple(one["index"] for one in self.cards if one["inside"] is None) if self.chosen else ()

    @property
    def chosen(self) -> Tuple[int, ...]:
        """Container numbers for the variable that names visible cards; () for a container without any."""
        return tuple(one["inside"] for one in self.cards if one["inside"] is not None)

    @property
    def seated(self) -> Tuple[int, ...]:
        """Cards that a rank can have, in the order of the visible list."""
        return tuple(one["index"] for one in self.cards if one["index"] not in self.absent)

    def numbered(self, present: Sequence[str]) -> Request:
        """With the numbers that its cards have among the names of all card nodes that are here.

        Whoever asks knows the cards that xpu-smi lists; one that is dead isn't, and its node counts as well.
        """
        order = sorted(present, key=lambda name: int(name[len("xpu") :]))
        names = [os.path.basename(str(one["node"])) for one in self.cards]
        numbers = [order.index(name) if name in order else None for name in names]
        return self._replace(
            cards=[{**one, "inside": numbers[place]} for place, one in enumerate(self.cards)]
        )


def of(said: Any) -> Request:
    """Raises :class:`VerbError` for what is no request."""
    try:
        request = _of(said)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _wrong(f"{type(error).__name__}: {error}") from error
    if said["schema"] != SCHEMA:
        raise VerbError(
            "newer-schema",
            f"the request has schema {said['schema']}, this agent knows {SCHEMA}",
            "it was asked by another klops: klops up installs the agent anew",
        )
    if tuple(one["index"] for one in request.cards) != tuple(request.aim.cards):
        raise _wrong("cards are to be those of aim.cards, in that order")
    if request.visible_env not in VISIBLE or request.backend not in BACKENDS:
        raise _wrong(f"visible_env is one of {', '.join(VISIBLE)}, backend one of {', '.join(BACKENDS)}")
    if not request.cards or request.budget <= 0 or request.limits.rounds < 1:
        raise _wrong("it has no cards, no time or no rounds")
    if any(size < 1 for size in request.sizes or ()):
        raise _wrong("sizes are bytes, above 0")
    for name, value in request.env.items():
        if not name or "=" in name or "\0" in name + value:
            raise _wrong(f"env has {name!r}, which no process can be given")
    return request


def _of(said: Mapping[str, Any]) -> Request:
    sizes = said.get("sizes")
    return Request(
        run=str(said.get("run", "")),
        aim=Aim.of(said["aim"]),
        cards=[{key: card.get(key) for key in _CARD} for card in said["cards"]],
        visible_env=str(said.get("visible_env", VISIBLE[0])),
        device_dir=str(said.get("device_dir", "/dev")),
        env={str(name): str(value) for name, value in (said.get("env") or {}).items()},
        env_script=str(said.get("env_script") or ""),
        backend=str(said.get("backend", BACKENDS[0])),
        sizes=tuple(int(size) for size in sizes) if sizes else None,
        limits=Limits(
            rounds=int(said.get("rounds", 10)),
            start_timeout=float(said.get("start_timeout", 120.0)),
            timeout=float(said.get("timeout", 20.0)),
        ),
        budget=float(said.get("budget", 600.0)),
        scan=bool(said.get("scan")),
        smi=str(said.get("smi") or ""),
    )


def _wrong(what: str) -> VerbError:
    return VerbError("usage", f"not a request for a diagnosis: {what}", "it is one JSON object in a line")
