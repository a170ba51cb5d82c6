"""Puts the faults of cards around a real torch on the CPU, in the ranks of a diagnosis and nowhere else.

Python imports it at its start. Where ``KLOPS_RANK_PLACE`` is set it opens the card of that place, as torch on
a P800 would when it is told which to take, and waits for torch to be imported. The ranks talk over gloo, for
real; only what befalls cards is made up.

On a few cores gloo takes between half and twice as long from one round to the next, so that nothing could be
told from it: an all-reduce from 1 MiB on, and a fill, last a time that is always the same.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from klops.sim import rankfaults
else:
    import rankfaults

PACED_BYTES = 1 << 20
#: Seconds of an all-reduce: on two cores that do other things too, gloo took up to 20 ms for 4 MiB in a pair
#: and 65 ms among eight.
BASE, EACH = 0.010, 0.015
#: Seconds of a fill.
FILL = 0.020


class Finder:
    """Sees torch being imported, and patches it once it is there."""

    def __init__(self, patch: Callable[[Any], None]) -> None:
        self._patch = patch

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the others find, with something to do after it."""
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        loader: Any = spec.loader if spec else None
        if loader is not None:
            run = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                self._patch(module)

            loader.exec_module = exec_module
        return spec


class Layer:
    """What this rank's card does."""

    def __init__(self, place: int) -> None:
        self.card: int | None = None
        self.refused: OSError | None = None
        self.group: rankfaults.Group | None = None
        self.pace = rankfaults.Pace()
        nodes = rankfaults.visible_nodes()
        try:
            self.card = rankfaults.take(nodes, place)
        except OSError as exc:
            self.refused = exc

    def patch(self, torch: Any) -> None:
        """Around what a diagnosis calls."""
        for name in ("arange", "empty", "full"):
            setattr(torch, name, self._allocating(getattr(torch, name)))
        torch.remainder = self._filling(torch.remainder)
        distributed = torch.distributed
        distributed.init_process_group = self._forming(distributed.init_process_group)
        distributed.all_reduce = self._adding(distributed.all_reduce)
        distributed.destroy_process_group = self._leaving(distributed.destroy_process_group)

    def _allocating(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def allocate(*args: Any, **kwargs: Any) -> Any:
            if self.refused is not None:
                raise rankfaults.no_context(self.refused)
            return real(*args, **kwargs)

        return allocate

    def _filling(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def remainder(*args: Any) -> Any:
            begun = time.monotonic()
            made = real(*args)
            if self.group is None and _bytes(made) >= PACED_BYTES:
                more = self.pace.delay("fill", FILL, rankfaults.factor([self.card], self.card))
                self._until(begun, "fill", FILL, more)
            return made

        return remainder

    def _forming(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def init_process_group(*, store: Any, rank: int, world_size: int, **more: Any) -> None:
            store.set(f"card of {rank}", "" if self.card is None else str(self.card))
            found = [store.get(f"card of {number}").decode() for number in range(world_size)]
            group = rankfaults.Group([int(card) if card else None for card in found], self.card)
            group.form()
            real(store=store, rank=rank, world_size=world_size, **more)
            self.group = group

        return init_process_group

    def _adding(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def all_reduce(tensor: Any) -> None:
            group = self.group
            assert group is not None, "no process group"  # noqa: S101 - torch itself would say so
            begun, size, world = time.monotonic(), _bytes(tensor), len(group.cards)
            group.enter(size)
            if size < PACED_BYTES:
                real(tensor)
            else:
                seconds = BASE + EACH * world
                more = self.pace.delay(world, seconds, group.factor())
                time.sleep(more)
                real(tensor)
                self._until(begun, world, seconds, more)
            if group.spoils(size):
                tensor[tensor.numel() // 2] += 1

        return all_reduce

    def _leaving(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def destroy_process_group() -> None:
            self.group = None
            real()

        return destroy_process_group

    def _until(self, begun: float, kind: object, seconds: float, more: float) -> None:
        time.sleep(max(0.0, begun + seconds + more - time.monotonic()))
        self.pace.note(kind, time.monotonic() - begun - more)


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


if os.environ.get("KLOPS_RANK_PLACE"):
    sys.meta_path.insert(0, Finder(Layer(int(os.environ["KLOPS_RANK_PLACE"])).patch))
