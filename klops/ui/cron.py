"""What runs the clean-up of a host, and how the last one ended, as text. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any


def cron_text(found: Mapping[str, Any], *, foretold: bool = False) -> str:
    """One host as ``klops cron status`` has it in JSON; ``foretold``: it would be so, and isn't yet."""
    if found["installed"] is None:
        return "whether it is scheduled can't be told" + _last(found)
    if not found["installed"]:
        return ("would not be scheduled" if foretold else "not scheduled") + _last(found)
    when = found["schedule"] or "at times that are not known"
    parts = [f"{'would be ' if foretold else ''}{when} by {found['file']}"]
    if not found["daemon"]:
        by_cron = found["scheduler"] == "cron"
        parts.append("no cron daemon is seen at work" if by_cron else "the timer does not run")
    if found["refused"]:
        parts.append(f"cron passes over it: {'; '.join(found['refused'])}")
    return ", ".join(parts) + _last(found)


def _last(found: Mapping[str, Any]) -> str:
    last = found["last"]
    if last is None:
        return "; no pass has ended yet" + (", and one is overdue" if found["stale"] else "")
    at = last.get("at")
    when = "at a time that is not known"
    if isinstance(at, (int, float)):
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))
    overdue = "; the next one is overdue" if found["stale"] else ""
    return f"; last pass {when}: {last.get('outcome')}, {last.get('why')}{overdue}"
