"""Locks of hosts as text. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any


def lock_text(lock: Mapping[str, Any] | None) -> str:
    """Who holds a host, since when, dead or alive and why; ``lock`` is as ``klops lock status`` has it."""
    if lock is None:
        return "free"
    state = f"{'alive' if lock['alive'] else 'dead'}: {lock['why']}"
    if "who" not in lock:
        return f"held by nobody that can be named, {state}"
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(lock["taken"]))
    return f"held by {lock['who']} on {lock['from']} since {since} (run {lock['run']}), {state}"
