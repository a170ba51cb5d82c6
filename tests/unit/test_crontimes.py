"""Schedules of cron, as every cron reads them."""

from __future__ import annotations

import datetime

import pytest

from klops import crontimes


@pytest.mark.parametrize(
    ("text", "minutes", "hours"),
    [
        ("*/10 * * * *", {0, 10, 20, 30, 40, 50}, set(range(24))),
        ("5,35 1-3 * * *", {5, 35}, {1, 2, 3}),
        ("0-30/15 0 1 jan Mon", {0, 15, 30}, {0}),
        ("59 23 31 12 7", {59}, {23}),
        ("@hourly", {0}, set(range(24))),
        ("@daily", {0}, {0}),
        ("  1\t2  *  * * ", {1}, {2}),
    ],
)
def test_what_is_read(text: str, minutes: set[int], hours: set[int]) -> None:
    times = crontimes.parse(text)
    assert (set(times.minutes), set(times.hours)) == (minutes, hours)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("* * * *", "five fields"),
        ("* * * * * *", "five fields"),
        ("", "five fields"),
        ("60 * * * *", "minute from 0 to 59, found '60'"),
        ("* 24 * * *", "hour from 0 to 23"),
        ("* * 0 * *", "day of the month from 1 to 31"),
        ("* * * 13 *", "month from 1 to 12"),
        ("* * * * 8", "day of the week from 0 to 7"),
        ("* * * foo *", "month"),
        ("30-10 * * * *", "range that goes up"),
        ("*/0 * * * *", "step from 1 to 59"),
        ("*/60 * * * *", "step from 1 to 59"),
        ("5/10 * * * *", "a step goes with * or a range"),
        ("*-5 * * * *", "minute"),
        ("1,, * * * *", "minute"),
        ("-1 * * * *", "minute"),
        ("@reboot", "one of @hourly"),
        ("@fortnightly", "one of @hourly"),
        ("* * L * *", "day of the month"),
        ("* * * * *\n* * * * *", "five fields"),
        ("* * * *\n*", "five fields"),
        ("١ * * * *", "five fields"),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"expected|a step") as caught:
        crontimes.parse(text)
    assert said in str(caught.value)


def test_days_of_the_month_and_of_the_week_add_up_unless_one_is_any() -> None:
    monday, thirteenth = datetime.date(2026, 11, 30), datetime.date(2026, 11, 13)
    both = crontimes.parse("0 0 13 * mon")
    assert both.runs_on(monday)
    assert both.runs_on(thirteenth)
    only = crontimes.parse("0 0 */1 * mon")
    assert only.runs_on(monday)
    assert not only.runs_on(thirteenth)
    assert not crontimes.parse("0 0 * 1 *").runs_on(monday)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("* * * * *", 60),
        ("*/10 * * * *", 600),
        ("0,10 * * * *", 3000),
        ("*/7 9-17 * * *", (24 * 60 - 17 * 60 - 56 + 9 * 60) * 60),
        ("@daily", 86400),
        ("0 3 * * mon-fri", 3 * 86400),
        ("0 0 1 1 *", 366 * 86400),
        ("0 0 29 2 *", (4 * 365 + 1) * 86400),
        ("0 0 30 2 *", float("inf")),
    ],
)
def test_the_longest_time_between_two_runs(text: str, seconds: float) -> None:
    assert crontimes.parse(text).longest_gap == seconds
