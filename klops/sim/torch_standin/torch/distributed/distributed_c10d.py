"""The process group: one a process, as a diagnosis uses it."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

# where it runs the package above is called torch, and here it isn't: so no absolute imports
from .. import _clock, cuda  # noqa: TID252
from .._layer import rankfaults  # noqa: TID252
from .._tensor import Tensor, total  # noqa: TID252
from ._meeting import Absent, FileStore, Meeting


class _World:
    """``group_count`` is in the names under which members look for each other.

    As in torch, an init that fails leaves it one up, and those whose counts differ never meet.
    """

    group_count = 0


class _Formed:
    def __init__(self, meeting: Meeting, seconds: float, group: rankfaults.Group, *, placed: bool) -> None:
        """``placed``: the backend knows which card is this process'; nccl learns it of the first tensor."""
        self.meeting, self.seconds, self.group, self.placed = meeting, seconds, group, placed


_world = _World()
_formed: _Formed | None = None


def is_initialized() -> bool:
    """Whether there is a group."""
    return _formed is not None


def init_process_group(
    backend: str | None = None,
    *,
    store: FileStore,
    rank: int,
    world_size: int,
    timeout: timedelta = timedelta(minutes=30),
) -> None:
    """Form a group. RuntimeError when a member doesn't come within the store's time-out, or by a fault."""
    global _formed
    if _formed is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if backend not in ("nccl", "gloo", None):
        raise ValueError(f"Invalid backend: '{backend}'")
    count, patience = _world.group_count, store.timeout.total_seconds()
    _world.group_count += 1
    end = time.monotonic() + patience
    meeting = Meeting(store.path, rank, world_size)
    try:
        members = meeting.exchange([count, _clock.card], patience)
        strangers = [number for number, one in enumerate(members) if one[0] != count]
        if strangers:  # they look for each other under different names
            meeting.wait_in_vain(strangers, end)
        group = rankfaults.Group([one[1] for one in members], _clock.card)
        group.form()
        meeting.exchange(None, max(0.0, end - time.monotonic()))
    except Absent as exc:
        meeting.leave()
        keys = ", ".join(f"/default_pg/{count}//cpu//0/{absent}" for absent in exc.ranks)
        raise RuntimeError(f"wait timeout after {patience * 1000:.0f}ms, keys: {keys}") from None
    except BaseException:
        meeting.leave()
        raise
    _formed = _Formed(meeting, timeout.total_seconds(), group, placed=backend != "nccl")
    _clock.join(True)


def _group() -> _Formed:
    if _formed is None:
        raise ValueError("Default process group has not been initialized, please make sure to call "
                         "init_process_group.")  # fmt: skip
    return _formed


def _step(of: _Formed, said: Any) -> list[Any]:
    try:
        return of.meeting.exchange(said, of.seconds)
    except Absent:
        raise RuntimeError(
            f"[gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting {of.seconds * 1000:.0f}ms for recv "
            "operation to complete"
        ) from None


def all_reduce(tensor: Tensor) -> None:
    """Sum over the group, in place; over when it returns. RuntimeError when a member doesn't come in time."""
    of = _group()
    of.placed = True
    size = tensor.numel() * tensor.element_size()
    of.group.enter(size)
    seconds = _clock.all_reduce(size, of.group.cards)
    more = _clock.delay(seconds, of.group.factor())
    said = _step(of, [tensor.packed(), time.monotonic(), more])
    total([one[0] for one in said], tensor)
    if of.group.spoils(size):
        middle = tensor.size // 2
        tensor.differing[middle] = tensor.differing.get(middle, 0.0) + 1.0
    # as slow as the slowest. It counts from the first who came, whose clock shows the longest time: that they
    # come one after another is this machine's doing, and is not to show
    _clock.reach(min(one[1] for one in said), seconds, max(one[2] for one in said))


def barrier() -> None:
    """Wait for all members. With nccl it needs a card, as it is an all-reduce of its own.

    As in torch that is the one of the first tensor; where there was none it is guessed from the rank,
    whatever ``set_device`` was told: the group connects over those cards then, which may be anybody's.
    """
    of = _group()
    if not of.placed:
        of.placed = True
        card = cuda.opened(of.meeting.rank % cuda.device_count())
        rankfaults.Group(_step(of, card), card).form()
    _step(of, None)


def destroy_process_group() -> None:
    """Leave the group. AssertionError when there is none, and ``group_count`` stays, as in torch."""
    global _formed
    assert _formed is not None, "Process group cannot be None"  # noqa: S101 - torch's own
    _formed.meeting.leave()
    _formed = None
    _clock.join(False)
    _world.group_count = 0
