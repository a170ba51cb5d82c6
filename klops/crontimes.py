"""When a line of a crontab runs: its five fields or its word, read as every cron reads them. Pure.

What only some cron programs know (seconds, years, ``L``, ``W``, ``#``, ``~``) is refused.
"""

from __future__ import annotations

import datetime
import itertools
import re
from dataclasses import dataclass

#: What stands for five fields.
WORDS = {
    "hourly": "0 * * * *",
    "daily": "0 0 * * *",
    "midnight": "0 0 * * *",
    "weekly": "0 0 * * 0",
    "monthly": "0 0 1 * *",
    "yearly": "0 0 1 1 *",
    "annually": "0 0 1 1 *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
#: name, lowest, highest and names of the values of each field
_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _DAYS),
)
_PART = re.compile(r"(?P<low>\*|\w+)(?:-(?P<high>\w+))?(?:/(?P<step>[0-9]+))?", re.ASCII)


@dataclass(frozen=True)
class Times:
    """The values of each field; ``weekdays`` count from 0, Sunday.

    ``any_day``, ``any_weekday``: the field begins with ``*``. When neither does, cron runs on days that are
    in one of the two.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    def runs_on(self, day: datetime.date) -> bool:
        """Whether it runs at all on a day."""
        if day.month not in self.months:
            return False
        by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_day and by_weekday if self.any_day or self.any_weekday else by_day or by_weekday

    @property
    def longest_gap(self) -> float:
        """Seconds between two runs where they are farthest apart, in eight years of which two are leap years.

        Infinite for what comes once in that time or never, such as on 30 February.
        """
        moments = sorted(hour * 60 + minute for hour in self.hours for minute in self.minutes)
        within = max((b - a for a, b in itertools.pairwise(moments)), default=0)
        first = datetime.date(2024, 1, 1)
        days = [n for n in range(8 * 365 + 2) if self.runs_on(first + datetime.timedelta(n))]
        over_night = 24 * 60 - moments[-1] + moments[0]
        between = [(b - a - 1) * 24 * 60 + over_night for a, b in itertools.pairwise(days)]
        return 60.0 * max(within, *between) if between else float("inf")


def parse(text: str) -> Times:
    """Read a schedule. Raises ``ValueError`` that says what was expected.

    >>> sorted(parse("*/20 3 * * mon").minutes)
    [0, 20, 40]
    """
    if text.startswith("@"):
        if text[1:] not in WORDS:
            known = ", ".join(f"@{word}" for word in WORDS)
            raise ValueError(f"expected one of {known}, found {text!r}")
        text = WORDS[text[1:]]
    fields = text.split()
    if len(fields) != len(_FIELDS) or re.search(r"[^\x20-\x7e\t]", text):
        raise ValueError(f"expected five fields (minute, hour, day, month, day of the week), found {text!r}")
    sets = (_values(field, *about) for field, about in zip(fields, _FIELDS, strict=True))
    minutes, hours, days, months, weekdays = sets
    any_day, any_weekday = fields[2].startswith("*"), fields[4].startswith("*")
    week = frozenset(day % 7 for day in weekdays)
    return Times(minutes, hours, days, months, week, any_day, any_weekday)


def _values(text: str, what: str, lowest: int, highest: int, names: tuple[str, ...]) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"expected a {what}, found {part!r}")
        low, high, step = match["low"], match["high"], int(match["step"] or 1)
        if low == "*":
            first, last = lowest, highest
            if high:
                raise ValueError(f"expected a {what}, found {part!r}")
        else:
            first = _value(low, what, lowest, highest, names)
            last = _value(high, what, lowest, highest, names) if high else first
            if match["step"] and not high:
                raise ValueError(f"a step goes with * or a range, found {part!r} as the {what}")
        if last < first:
            raise ValueError(f"expected a range that goes up, found {part!r} as the {what}")
        if not 1 <= step <= highest:
            raise ValueError(f"expected a step from 1 to {highest}, found {part!r} as the {what}")
        found.update(range(first, last + 1, step))
    return frozenset(found)


def _value(text: str, what: str, lowest: int, highest: int, names: tuple[str, ...]) -> int:
    if text.lower() in names:
        # Sunday is 0, January 1
        return names.index(text.lower()) + lowest
    if not re.fullmatch("[0-9]{1,2}", text) or not lowest <= int(text) <= highest:
        raise ValueError(f"expected a {what} from {lowest} to {highest}, found {text!r}")
    return int(text)
