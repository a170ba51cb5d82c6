"""rankfaults: in klops' own tree it is the package's, on a rehearsal host it lies beside this torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__ != "torch":
    from klops.sim import rankfaults
else:
    import rankfaults

__all__ = ["rankfaults"]
