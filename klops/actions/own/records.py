"""What klops writes down on a host about its container: that it was adopted, or is being made anew. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from klops.errors import KlopsError
from klops.remote.base import Reply

SCHEMA = 1


def adoption_path(root: str) -> str:
    """Where the record of an adopted container is."""
    return f"{root}/adopted.json"


def recreation_path(root: str) -> str:
    """Where the record of a container that is being made anew is."""
    return f"{root}/recreation.json"


@dataclass(frozen=True)
class Adoption:
    """A container that klops didn't make but runs units in. It is known by its id: names move."""

    id: str
    name: str
    #: who adopted it, and when (epoch seconds by the control node's clock)
    who: str
    at: float


@dataclass(frozen=True)
class Recreation:
    """A container that was put aside so that a new one can take its name."""

    #: the old container: its id, the name it has to get back, and the one it has meanwhile
    id: str
    name: str
    aside: str
    #: its restart policy as ``docker update --restart`` takes it; put aside it has none
    restart: str
    #: whether klops didn't make it: then it is never removed
    adopted: bool
    #: whether it ran before; one that didn't isn't started when it is put back
    ran: bool
    #: units that have to be ready again, in the new container or in the old one: those its agent has kept
    units: tuple[str, ...]
    #: the run that does it
    run: str
    at: float


def parse_adoption(reply: Reply) -> Adoption | None:
    """From the reply to a ``FileRead``; None when there is none. Raises :class:`KlopsError`."""
    value = _record(reply, "adopted.json")
    return None if value is None else Adoption(**{k: value[k] for k in ("id", "name", "who", "at")})


def parse_recreation(reply: Reply) -> Recreation | None:
    """From the reply to a ``FileRead``; None when there is none. Raises :class:`KlopsError`."""
    value = _record(reply, "recreation.json")
    if value is None:
        return None
    keys = ("id", "name", "aside", "restart", "adopted", "ran", "run", "at")
    return Recreation(units=tuple(value["units"]), **{k: value[k] for k in keys})


def _record(reply: Reply, name: str) -> dict[str, Any] | None:
    if not reply.ok:
        return None
    try:
        value = json.loads(reply.text)
        newer = value["schema"] > SCHEMA
    except (ValueError, TypeError, KeyError) as error:
        raise KlopsError(
            f"{name} on the host is damaged: {error}",
            hint="look at it and at docker ps -a; when it is of no use, remove it",
            code="damaged",
        ) from error
    if newer:
        raise KlopsError(
            f"{name} on the host has schema {value['schema']}, newer than {SCHEMA}, which this klops knows",
            hint="use the newer klops",
            code="schema",
        )
    return dict(value)


def text(record: Adoption | Recreation) -> bytes:
    """The file's content."""
    return (json.dumps({"schema": SCHEMA, **asdict(record)}, indent=1) + "\n").encode()
