"""Making a container: made, started and answering, or nothing of it stays."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from klops.actions.base import Context
from klops.actions.own.container.calm import calm
from klops.actions.own.container.engine import Engine, described, not_started, said
from klops.actions.own.supervision import WaitAgent
from klops.commands import docker
from klops.commands.containerspec import RUN_LABEL, ContainerSpec
from klops.commands.docker import Container
from klops.errors import (
    ChangedMeanwhile,
    CommandFailed,
    DockerUnavailable,
    HostUnreachable,
    Interrupted,
    KlopsError,
    LockHeld,
    TaskFailed,
)

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

#: Seconds for which a container is looked for whose client was ended in mid-command: the engine goes on.
_LATE = 5.0
_PAUSE = 0.2
#: Seconds that what was just made is given to end.
_GRACE = 10
#: How often it is tried: the engine may be about to start it still.
_TRIES = 3


def make(ctx: Context, spec: ContainerSpec, settings: Settings, prefix: tuple[str, ...]) -> dict[str, Any]:
    """Create a container, start it, and wait for its agent; returns its id and what the agent tells.

    Whatever goes wrong, an interrupt too, what was just made is removed again: it holds nobody's work yet,
    and left behind it would stand in the way of the next try. Only when the host is gone nobody can do that,
    and when the lock was lost nobody may; the label of the run then tells whose it is.
    """
    run, identity = ctx.view.run, ""
    engine = Engine(ctx, prefix)
    try:
        identity = _created(engine, spec, run)
        started = engine.ask(docker.start(prefix, identity), identity)
        if started.rc != 0:
            raise not_started(f"container {spec.name} was made but did not start", said(started))
        about: Mapping[str, Any] = WaitAgent(settings).carry_out(ctx)
    except (HostUnreachable, LockHeld):
        raise
    except KlopsError as error:
        # an answer says what there is; without one the engine may still be at it
        patience = _LATE if isinstance(error, (Interrupted, DockerUnavailable, CommandFailed)) else 0.0
        left = _take_back(ctx, spec.name, identity, prefix, patience)
        if isinstance(error, Interrupted):
            raise error.but(message=f"{error.message}; {left}") from error
        raise error.but(hint=f"{error.hint} ({left})" if error.hint else left) from error
    return {"id": identity, **about}


def remove_new(engine: Engine, identity: str, grace: int = _GRACE) -> None:
    """Stop and remove a container that klops has just made. Raises :class:`KlopsError`."""
    for _ in range(_TRIES):
        engine.ask(docker.stop(engine.prefix, identity, grace), identity, grace + _LATE * 6)
        removed = engine.ask(docker.remove(engine.prefix, identity), identity)
        if removed.rc == 0 or docker.no_such_container(removed.error_text):
            return
    raise TaskFailed(f"container {identity[:12]} could not be removed: {said(removed)}", code="container")


def _created(engine: Engine, spec: ContainerSpec, run: str) -> str:
    made = engine.ask(docker.create(engine.prefix, spec, ((RUN_LABEL, run),)), spec.name)
    if made.rc == 0:
        return made.text.strip().splitlines()[-1].strip()
    taken = docker.name_taken_by(made.error_text)
    if not taken:
        raise not_started(f"container {spec.name} could not be made", said(made))
    holder = engine.find(taken)
    if holder is not None and _of_run(holder, run):
        # made for a client whose link was lost before the answer came
        return holder.id
    raise ChangedMeanwhile(
        f"container {spec.name} could not be made: the name was taken meanwhile, by "
        f"{described(holder) if holder else taken[:12]}",
        code="container-conflict",
        hint="look whose it is; klops up works with it when it fits, or set another klops.container.name",
    )


def _of_run(container: Container, run: str) -> bool:
    return bool(run) and container.labels.get(RUN_LABEL) == run


def _take_back(ctx: Context, name: str, identity: str, prefix: tuple[str, ...], patience: float) -> str:
    """Remove what was made, be it that the engine says it wasn't; returns what became of it, in words."""
    with calm(ctx) as quiet:
        engine = Engine(quiet, prefix)
        try:
            if not identity:
                identity = _look_for(engine, name, ctx.view.run, patience)
            if not identity:
                return "nothing was made"
            remove_new(engine, identity)
        except KlopsError as error:
            if identity:
                return f"the container is left behind: docker rm -f {identity[:12]} ({error.message})"
            return f"whether a container {name} was made could not be seen: {error.message}"
    return "the container was removed again"


def _look_for(engine: Engine, name: str, run: str, patience: float) -> str:
    """Id of the container that this run has made under that name, "" when there is none."""
    deadline = time.monotonic() + patience
    while True:
        found = engine.find(name)
        if found is not None:
            return found.id if _of_run(found, run) else ""
        if time.monotonic() >= deadline:
            return ""
        time.sleep(_PAUSE)
