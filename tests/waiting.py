"""Waiting for a condition: asked again until it holds, never a sleep of a guessed length."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(look: Callable[[], T | None], *, timeout: float = 60, what: str = "the condition holds") -> T:
    """Ask again until the answer is true, and return it; an AssertionError names what never came."""
    end = time.monotonic() + timeout
    while True:
        answer = look()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout:g} s: {what}")
        time.sleep(0.03)
