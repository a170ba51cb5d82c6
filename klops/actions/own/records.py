"""What klops writes down on a host about its container: that it was adopted, or is being made anew. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from klops.errors import KlopsError
from klops.remote.base import Reply
from klops.remote.reads import ABSENT

SCHEMA = 1


def adoption_path(root: str) -> str:
    """Where the record of an adopted container is."""
    return f"{root}/adopted.json"


def recreation_path(root: str) -> str:
    """Where the record of a container that is being made anew is."""
    return f"{root}/recreation.json"


def aside_name(name: str, identity: str) -> str:
    """What the container of that name and id is called while a new one has the name."""
    return f"{name}.before-{identity[:12]}"


def kept_path(root: str) -> str:
    """Where the agent keeps units while their container is made anew, secrets and all."""
    return f"{root}/kept.json"


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
    known = _record(reply, "adopted.json", Adoption)
    return None if known is None else Adoption(**known)


def parse_recreation(reply: Reply) -> Recreation | None:
    """From the reply to a ``FileRead``; None when there is none. Raises :class:`KlopsError`."""
    known = _record(reply, "recreation.json", Recreation)
    return None if known is None else Recreation(**{**known, "units": tuple(known["units"])})


def _record(reply: Reply, name: str, kind: type[Adoption] | type[Recreation]) -> dict[str, Any] | None:
    """What there is to read of that kind; the rest of the file is somebody else's."""
    if reply.rc == ABSENT:
        return None
    if not reply.ok:
        # that it can't be read doesn't mean that there is none
        said = reply.error_text.strip() or f"status {reply.rc}"
        raise KlopsError(
            f"{name} on the host can't be read: {said}",
            hint="it lies in klops.root; may this user read it?",
            code="unreadable",
        )
    try:
        known = json.loads(reply.text)
        newer = known["schema"] > SCHEMA
        if not newer:
            known = {field.name: known[field.name] for field in fields(kind)}
            if not all(known[key] and isinstance(known[key], str) for key in ("id", "name")):
                raise ValueError("it names no container")  # noqa: TRY301 - as any other damage
    except (ValueError, TypeError, KeyError) as error:
        raise KlopsError(
            f"{name} on the host is damaged: {error}",
            hint="look at it and at docker ps -a; when it is of no use, remove it",
            code="damaged",
        ) from error
    if newer:
        raise KlopsError(
            f"{name} on the host has schema {known['schema']}, newer than {SCHEMA}, which this klops knows",
            hint="use the newer klops",
            code="schema",
        )
    return dict(known)


def text(record: Adoption | Recreation) -> bytes:
    """The file's content."""
    return (json.dumps({"schema": SCHEMA, **asdict(record)}, indent=1) + "\n").encode()
