"""What YAML 1.1 makes of unquoted text, exactly as PyYAML (and so Ansible) reads it."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from typing import Any

_BOOLS = {
    spelled: word in ("yes", "true", "on")
    for word in ("yes", "true", "on", "no", "false", "off")
    for spelled in (word, word.title(), word.upper())
}
_NULLS = ("", "~", "null", "Null", "NULL")
# These are PyYAML's own implicit resolvers (resolver.py), the reader under Ansible. They differ from the YAML
# 1.1 specification: an exponent needs a point and a sign, so 1e3 stays text.
_INT = re.compile(
    r"[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+"
)
_FLOAT = re.compile(
    r"[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?"
    r"|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{1,2}-[0-9]{1,2})(?:[Tt]|[ \t]+)"
    r"(?P<h>[0-9]{1,2}):(?P<m>[0-9]{2}):(?P<s>[0-9]{2})"
    r"(?:\.(?P<f>[0-9]*))?(?:[ \t]*(?P<tz>Z|(?P<sign>[-+])(?P<tzh>[0-9]{1,2})(?::(?P<tzm>[0-9]{2}))?))?"
)
#: what a reading other than text can begin with
_STARTS = frozenset("-+.0123456789")


def read_plain(text: str) -> Any:
    """What YAML 1.1 makes of unquoted text: None, bool, int, float, date, datetime or the text itself.

    Raises ``ValueError`` for what looks like a date and is none.
    """
    if text in _BOOLS:
        return _BOOLS[text]
    if text in _NULLS:
        return None
    if text[0] not in _STARTS:
        return text
    if _INT.fullmatch(text):
        return _int(text.replace("_", ""))
    if _FLOAT.fullmatch(text):
        return _float(text.replace("_", "").lower())
    if found := _DATE.fullmatch(text):
        return date(*map(int, found.groups()))
    if found := _TIME.fullmatch(text):
        return _time(found)
    return text


def _int(text: str) -> int:
    sign = -1 if text[0] == "-" else 1
    digits = text.lstrip("+-")
    if digits.startswith("0b"):
        return sign * int(digits[2:], 2)
    if digits.startswith("0x"):
        return sign * int(digits[2:], 16)
    if ":" in digits:
        total = 0
        for part in digits.split(":"):
            total = total * 60 + int(part)
        return sign * total
    return sign * int(digits, 8 if digits[0] == "0" else 10)


def _float(text: str) -> float:
    sign = -1.0 if text[0] == "-" else 1.0
    digits = text.lstrip("+-")
    if digits == ".inf":
        return sign * float("inf")
    if digits == ".nan":
        return float("nan")
    total = 0.0
    for part in digits.split(":"):
        total = total * 60 + float(part)
    return sign * total


def _time(found: re.Match[str]) -> datetime:
    year, month, day = map(int, found["date"].split("-"))
    micro = int((found["f"] or "")[:6].ljust(6, "0"))
    zone = None
    if found["tz"] == "Z":
        zone = timezone.utc
    elif found["tz"]:
        delta = timedelta(hours=int(found["tzh"]), minutes=int(found["tzm"] or 0))
        zone = timezone(-delta if found["sign"] == "-" else delta)
    return datetime(year, month, day, int(found["h"]), int(found["m"]), int(found["s"]), micro, tzinfo=zone)
