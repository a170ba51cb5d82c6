"""``torch.cuda`` of a P800: device numbers are places in the list of visible cards."""

from __future__ import annotations

from . import _clock
from ._layer import rankfaults

_current: int | None = None


def is_available() -> bool:
    """Whether there is a card at all."""
    return bool(rankfaults.nodes_there(rankfaults.device_dir()))


def device_count() -> int:
    """Number of visible cards."""
    return len(rankfaults.visible_nodes())


def set_device(index: int) -> None:
    """Open the card; it stays open until the process ends. Raises RuntimeError in the runtime's words."""
    global _current
    if index == _current:
        return
    _clock.card = opened(index)
    _current = index


def opened(index: int) -> int | None:
    """Open a card, whichever is set; which one it is, where that is known. Raises as ``set_device``."""
    try:
        return rankfaults.take(rankfaults.visible_nodes(), index)
    except OSError as exc:
        raise rankfaults.no_context(exc) from exc


def need(index: int | None) -> None:
    """Open the card that a tensor is to be on: the one that was set, or the first."""
    if index is not None or _current is None:
        set_device(index or 0)


def synchronize() -> None:
    """Wait until the card has done what is queued."""
    _clock.settle()
