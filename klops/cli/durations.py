"""Spans of time as typed: ``10m``."""

from __future__ import annotations

import re

from klops.errors import UsageError

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_span(text: str) -> float:
    """Seconds of ``90``, ``90s``, ``10m``, ``2h``, ``1d``. Raises :class:`UsageError`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip())
    if not match:
        raise UsageError(f"{text!r} is not a span of time", hint="write it as 90s, 10m, 2h or 1d")
    return float(match[1]) * _UNITS[match[2]]
