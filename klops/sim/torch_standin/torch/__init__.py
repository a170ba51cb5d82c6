"""A stand-in for torch on a P800: the few calls that a diagnosis of cards makes, as quick as nothing.

Cards are opened as the real runtime opens them, groups form among real processes, and faults of the
rehearsal befall them; only the numbers are not there (``_tensor``) and time is a model of it (``_clock``).

Python 3.8, standard library only: it is copied beside rankfaults.py into a folder on PYTHONPATH, and run
there by whatever Python the container has.
"""

from __future__ import annotations

from . import cuda, distributed
from ._tensor import Tensor, arange, device, dtype, empty, float32, full, isnan, remainder

__version__ = "2.5.1+standin"
__all__ = [
    "Tensor",
    "arange",
    "cuda",
    "device",
    "distributed",
    "dtype",
    "empty",
    "float32",
    "full",
    "isnan",
    "remainder",
]
