"""Putting things in order on a host while the run is being ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from klops.actions.base import Context, Progress
from klops.errors import Interrupted


@contextmanager
def calm(ctx: Context) -> Iterator[Context]:
    """A context that an interrupt doesn't end, for what must not be left half done, and is bounded.

    An interrupt ends the commands of the remote that a task works with, again and again until the task is
    over; what puts a host in order runs beside it, over the same connection.
    """
    remote = ctx.remote.clone()

    def tell(now: Progress) -> None:
        with suppress(Interrupted):
            ctx.progress(now)

    try:
        yield replace(ctx, remote=remote, progress=tell, done=[])
    finally:
        remote.close()
