"""Variables for people to look at: secret values are masked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import Any

from klops.inventory.variables import SETTINGS
from klops.secret import MASK, Secret

_PASSWORD = re.compile(r"ansible_\w*pass(word|phrase|wd)?")


def is_secret(path: Sequence[str]) -> bool:
    """Whether the variable or setting at a path holds a secret."""
    if _PASSWORD.fullmatch(path[0]):
        return True
    return len(path) == 4 and (path[0], path[1], path[3]) == (SETTINGS, "services", "api_key")


def masked(value: Any, path: tuple[str, ...] = ()) -> Any:
    """The same value with every secret as ``********``; where a secret comes from ({env: NAME}) is none."""
    if isinstance(value, Secret):
        return MASK
    if path and is_secret(path) and not isinstance(value, dict) and value is not None:
        return MASK
    if isinstance(value, dict):
        return {key: masked(item, (*path, str(key))) for key, item in value.items()}
    if isinstance(value, list):
        return [masked(item, (*path, "")) for item in value]
    return value


def as_json(value: object) -> str:
    """What JSON has no form for: dates as ISO 8601, anything else as its text."""
    return value.isoformat() if isinstance(value, date) else str(value)
