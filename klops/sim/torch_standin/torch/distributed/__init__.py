"""``torch.distributed``: groups of real processes on a FileStore, with faults of cards."""

from __future__ import annotations

from . import distributed_c10d
from ._meeting import FileStore
from .distributed_c10d import all_reduce, barrier, destroy_process_group, init_process_group, is_initialized

__all__ = [
    "FileStore",
    "all_reduce",
    "barrier",
    "destroy_process_group",
    "distributed_c10d",
    "init_process_group",
    "is_initialized",
]
