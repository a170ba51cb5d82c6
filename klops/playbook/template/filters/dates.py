"""Filters for dates."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from klops.playbook.template.filters.given import text, wrong


def strftime(format: str, second: Any = None, utc: bool = False) -> str:  # noqa: A002 - Ansible's word
    """A time (seconds since 1970; now by default) as the format says, in this machine's zone or ``utc``."""
    try:
        seconds = None if second is None else float(second)
    except (TypeError, ValueError):
        raise wrong(f"strftime: {second!r} is no number of seconds") from None
    return time.strftime(text(format), (time.gmtime if utc else time.localtime)(seconds))


def to_datetime(value: Any, format: str = "%Y-%m-%d %H:%M:%S") -> datetime:  # noqa: A002 - Ansible's word
    """A date with ``.year``, ``.timestamp()`` and so on; the difference of two has ``.total_seconds()``."""
    try:
        return datetime.strptime(text(value), format)  # noqa: DTZ007 - as naive as Ansible's
    except ValueError as error:
        raise wrong(f"to_datetime: {error}") from None


FILTERS: dict[str, Callable[..., Any]] = {"strftime": strftime, "to_datetime": to_datetime}
