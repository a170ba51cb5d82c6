"""Becoming the process that orphaned descendants come to."""

from __future__ import annotations

import ctypes
import os

_PR_SET_CHILD_SUBREAPER = 36


def become() -> None:
    """From now on descendants whose parent dies become children of this process, not of pid 1."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl(PR_SET_CHILD_SUBREAPER): {os.strerror(code)}")
