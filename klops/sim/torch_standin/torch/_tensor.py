"""Tensors of one dimension without content: ``scale * base + offset``, and what differs from that.

The base is the index of an element, or the index modulo a number. All that a diagnosis fills and compares is
of that kind, so that 256 MiB cost nothing. Anything else raises NotImplementedError, never a wrong answer.
"""

from __future__ import annotations

import math
from typing import Any

from . import _clock


class dtype:  # noqa: N801 - torch's name
    """A kind of number; there is one."""

    itemsize = 4

    def __repr__(self) -> str:
        return "torch.float32"


float32 = dtype()


class device:  # noqa: N801 - torch's name
    """``cpu``, ``cuda`` or ``cuda:N``."""

    def __init__(self, name: object, index: int | None = None) -> None:
        kind, _, number = str(name).partition(":")
        if kind not in ("cpu", "cuda"):
            raise RuntimeError(f"Expected one of cpu, cuda device type at start of device string: {name}")
        self.type = kind
        self.index = int(number) if number else index

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"


class Tensor:
    """``modulus`` 0: the base is the index itself. ``differing``: index -> what comes on top there."""

    def __init__(
        self,
        size: int,
        where: Any,
        *,
        modulus: int = 0,
        scale: float = 0.0,
        offset: float = 0.0,
        differing: dict[int, float] | None = None,
    ) -> None:
        self.size = size
        self.device = device("cpu" if where is None else where)
        self.modulus, self.scale, self.offset = modulus, scale, offset
        self.differing = dict(differing or {})
        self._written()

    def _written(self) -> None:
        if self.device.type == "cuda":
            _clock.queue(self.device.index)

    def numel(self) -> int:
        """Number of elements."""
        return self.size

    def element_size(self) -> int:
        """Bytes an element."""
        return float32.itemsize

    def _made(self, scale: float, offset: float, differing: dict[int, float], where: Any = None) -> Tensor:
        return Tensor(
            self.size,
            self.device if where is None else where,
            modulus=self.modulus,
            scale=scale,
            offset=offset,
            differing=differing,
        )

    def __mul__(self, by: float) -> Tensor:
        return self._made(
            self.scale * by, self.offset * by, {at: more * by for at, more in self.differing.items()}
        )

    __rmul__ = __mul__

    def __add__(self, more: float) -> Tensor:
        return self._made(self.scale, self.offset + more, self.differing)

    __radd__ = __add__

    def mul_(self, by: float) -> Tensor:
        """In place."""
        return self.copy_(self * by)

    def add_(self, more: float) -> Tensor:
        """In place."""
        return self.copy_(self + more)

    def fill_(self, value: float) -> Tensor:
        """In place."""
        return self.copy_(full((self.size,), value, device=self.device))

    def clone(self) -> Tensor:
        """Another of the same content."""
        return self._made(self.scale, self.offset, self.differing)

    def copy_(self, other: Tensor) -> Tensor:
        """The content of another of the same size."""
        if other.size != self.size:
            raise RuntimeError(
                f"The size of tensor a ({self.size}) must match the size of tensor b ({other.size})"
            )
        self.modulus, self.scale, self.offset = other.modulus, other.scale, other.offset
        self.differing = dict(other.differing)
        self._written()
        return self

    def cpu(self) -> Tensor:
        """A copy in host memory; waits for the card."""
        _clock.settle()
        return self._made(self.scale, self.offset, self.differing, "cpu")

    def base_at(self, at: int) -> int:
        """The base of one element."""
        return at % self.modulus if self.modulus else at

    def __ne__(self, other: object) -> Marks:  # type: ignore[override]  # as torch: element by element
        if not isinstance(other, Tensor) or other.size != self.size:
            raise NotImplementedError("tensors of one size can be compared")
        return Marks(_unequal(self, other))

    def __eq__(self, other: object) -> Marks:  # type: ignore[override]  # as torch: element by element
        return Marks(self.size - (self != other).count)

    __hash__ = object.__hash__

    def packed(self) -> list[Any]:
        """For other processes."""
        return [self.size, self.modulus, self.scale, self.offset, list(self.differing.items())]


class Marks:
    """A tensor of truth values of which only the number of true ones is known."""

    def __init__(self, count: int) -> None:
        self.count = count

    def sum(self) -> Marks:
        """How many are true."""
        return self

    def item(self) -> int:
        """As a number; waits for the card."""
        _clock.settle()
        return self.count


def _unequal(a: Tensor, b: Tensor) -> int:
    """How many elements differ. NaN differs from everything."""
    if a.scale and b.scale and a.modulus != b.modulus:
        raise NotImplementedError("tensors of different bases can't be compared")
    of = a if a.scale else b
    scale, offset = a.scale - b.scale, a.offset - b.offset
    equal = _places(of, -offset / scale) if scale else of.size if offset == 0 else 0
    count = of.size - equal
    for at in {*a.differing, *b.differing}:
        plain = scale * of.base_at(at) + offset
        more = a.differing.get(at, 0.0) - b.differing.get(at, 0.0)
        count += (plain + more != 0) - (plain != 0)
    return count


def _places(of: Tensor, value: float) -> int:
    """How many elements have this base."""
    if value != int(value) or value < 0:
        return 0
    if not of.modulus:
        return int(value < of.size)
    return max(0, -(-(of.size - int(value)) // of.modulus)) if value < of.modulus else 0


def total(parts: list[list[Any]], into: Tensor) -> None:
    """Set ``into`` to the sum of tensors as :meth:`Tensor.packed` gives them."""
    moduli = {part[1] for part in parts if part[2]}
    if len(moduli) > 1 or any(part[0] != into.size for part in parts):
        raise NotImplementedError("tensors of one size and base can be added up")
    into.modulus = moduli.pop() if moduli else 0
    into.scale, into.offset = sum(part[2] for part in parts), sum(part[3] for part in parts)
    into.differing = {}
    for part in parts:
        for at, more in part[4]:
            into.differing[at] = into.differing.get(at, 0.0) + more


def arange(end: int, *, device: Any = None, dtype: Any = None) -> Tensor:
    """0, 1, ... end - 1."""
    return Tensor(end, device, scale=1.0)


def full(size: tuple[int, ...], value: float, *, device: Any = None, dtype: Any = None) -> Tensor:
    """One value everywhere."""
    return Tensor(size[0], device, offset=float(value))


def empty(size: Any, *, device: Any = None, dtype: Any = None) -> Tensor:
    """Whatever was in that memory: here always the same number, which no test expects."""
    return Tensor(size if isinstance(size, int) else size[0], device, offset=-1.0e30)


def remainder(of: Tensor, by: float) -> Tensor:
    """Modulo, of the index alone."""
    if of.modulus or of.scale != 1.0 or of.offset or of.differing or by != int(by) or by < 1:
        raise NotImplementedError("remainder of what arange gave, by a whole number")
    return Tensor(of.size, of.device, modulus=int(by), scale=1.0)


def isnan(of: Tensor) -> Marks:
    """Which elements are not a number."""
    if math.isnan(of.offset) or math.isnan(of.scale):
        return Marks(of.size)
    return Marks(sum(math.isnan(more) for more in of.differing.values()))
