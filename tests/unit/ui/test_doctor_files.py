"""What is written of a diagnosis: the page, its chart, the rows."""

from __future__ import annotations

import csv
import io
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klops.ui.doctor.chart import chart, series
from klops.ui.doctor.csv import COLUMNS, csv_text
from klops.ui.doctor.page import page
from tests.unit.ui.diagnoses import SIZES, card_3_is_bad, diagnosis
from tests.unit.ui.test_doctor_summary import SCAN

#: Attributes by which a page fetches or runs something.
_FETCHING = {"src", "href", "srcset", "data", "action", "formaction", "poster", "xlink:href", "ping"}
_EMPTY = {"meta", "br"}


class Seen(HTMLParser):
    """Elements, attributes and text of a page; fails where they are not well nested."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, list[str]] = {}
        self.said: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value or "")
        if tag not in _EMPTY:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _EMPTY:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.said.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.said).split())


def alone(text: str) -> Seen:
    """A page that fetches and runs nothing."""
    seen = Seen(text)
    assert not {"script", "link", "img", "iframe", "object", "embed", "base", "form"} & set(seen.tags)
    assert not _FETCHING & set(seen.attributes)
    assert not [name for name in seen.attributes if name.startswith("on")]
    assert "url(" not in text
    assert "@import" not in text
    return seen


def test_the_page_has_all_of_it() -> None:
    found = {"p800-01": {**card_3_is_bad(), "baseline": {"8": {"65536": 1.2, "268435456": 19.8}}}}
    seen = alone(page(found, {"p800-01": {"code": "cards-bad", "message": "m", "hint": "h"}}))
    for told in (
        *("Cards of p800-01", "card 3 is bad: it hangs with every other card", "TP=8 needs card 3"),
        *(
            "to serve on cards 4-7 with TP=4, without card 3",
            "klops up p800-01",
            "klops cards restore p800-01 3",
        ),
        *(
            "02K03",
            "GPU-00000003",
            "0000:55:00",
            "xpu4",
            "hangs in 7 of 7 pairs",
            "12 Xid lines since boot",
        ),
        *("pair 0-1: slow: 0.31 of its peers", "hangs: does not end in time", "20 sound pairs", "cards 0-7"),
        *("learned, 8 cards", "All 110 measurements", "nccl on cuda (torch 2.5.1)", "driver 5.0.21.47"),
        "2026-11-30 04:40:00 UTC",
    ):
        assert told in seen.text
    assert seen.tags.count("svg") == 1
    assert seen.attributes["scope"].count("row") == 8 + 8 + 110
    assert [one for one in seen.attributes["title"] if one.startswith("0-1:")] == [
        "0-1: slow: 0.31 of its peers"
    ]
    assert "/dev/xpu4" in seen.attributes["title"]
    assert seen.attributes["class"].count("timeout") == 14
    assert seen.attributes["class"].count("good") == 40


def test_its_policy_forbids_to_fetch_and_to_run() -> None:
    (policy,) = [one for one in Seen(page({}, {})).attributes["content"] if "default-src" in one]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def test_several_hosts_are_one_page_with_a_section_each() -> None:
    error = {"code": "unreachable", "message": "p800-03: refused", "hint": "is it up?"}
    seen = alone(page({"p800-01": card_3_is_bad(), "p800-02": diagnosis()}, {"p800-03": error}))
    assert seen.tags.count("section") == 3
    assert "Cards of p800-01, p800-02, p800-03" in seen.text
    assert "p800-03: refused is it up?" in seen.text
    assert {"verdict fail", "verdict pass", "verdict unknown"} <= set(seen.attributes["class"])
    many = page({}, {f"h{number}": error for number in range(9)})
    assert "Cards of 9 hosts" in alone(many).text


def test_a_scan_alone_is_shown_without_a_verdict_on_cards() -> None:
    seen = alone(
        page({"h": diagnosis(scope="inconclusive", scan=SCAN, scan_failed=[], summary="measured")}, {})
    )
    assert "Ranks and sizes" in seen.text
    assert "2 2.5M 130.0 20.00 20.00 0 8 2.5M 130.0 20.00 35.00 1" in seen.text
    assert "verdict" not in seen.text


HOSTILE = "</style></title><script>alert(1)</script>\"' onload=x <img src=//x> & {{ 7*7 }} \x1b[2J"


@settings(deadline=None, max_examples=25)
@given(st.one_of(st.text(max_size=40), st.just(HOSTILE)))
def test_whatever_a_host_says_is_text_of_the_page(text: str) -> None:
    found = card_3_is_bad() | {"summary": text, "error": text, "why": text, "notes": [text], "driver": text}
    found |= {"hints": [text], "backend": text, "torch": text}
    for key in ("serial", "uuid", "bdf", "node", "verdict", "reason", "action"):
        found["cards"][3][key] = text
    found["cards"][3]["evidence"] = [text]
    found["pairs"][0] |= {"status": text, "reason": text}
    made = page({text: found, "h": {}}, {"h": {"message": text, "hint": text, "code": text}})
    seen = alone(made)
    assert set(seen.tags) == set(Seen(page({"h1": card_3_is_bad()}, {})).tags)
    assert not {one for one in seen.attributes["class"] if "<" in one or '"' in one}
    assert "\x1b" not in made


def test_the_chart_has_a_line_for_each_group_and_what_was_learned() -> None:
    found = card_3_is_bad() | {"baseline": {"8": {"65536": 1.2, "268435456": 19.8}}}
    kinds = [one.kind for one in series(found)]
    assert kinds == ["bad", *["pair"] * 20, "all", "learned"]
    drawn = chart(found, "t")
    assert drawn is not None
    assert [mark.label for mark in drawn.columns] == ["64K", "1M", "2.5M", "16M", "256M"]
    assert [mark.label for mark in drawn.rows] == ["0", "12.5", "25", "37.5", "50"]
    assert sorted(mark.label for mark in drawn.names) == [
        *("20 sound pairs", "cards 0-1", "cards 0-7", "learned, 8 cards"),
    ]
    heights = [mark.at for mark in drawn.names]
    assert min(below - above for above, below in pairwise(heights)) >= 14


def test_of_a_fallback_group_the_chart_shows_both() -> None:
    four = {**diagnosis()["outcomes"][0], "cards": [4, 5, 6, 7]}
    found = diagnosis()
    found["outcomes"].append(four)
    assert [one.kind for one in series(found) if one.label.startswith("cards 4-7")] == ["group"]


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from(SIZES), st.floats(1e-3, 1e7), min_size=1),
    st.lists(st.sampled_from(range(8)), min_size=2, unique=True),
)
def test_every_line_stays_inside_the_drawing(times: dict[int, float], cards: list[int]) -> None:
    samples = [{"bytes": size, "us": us} for size, us in times.items()]
    drawn = chart({"outcomes": [{"cards": cards, "status": "ok", "samples": samples}]}, "t")
    assert drawn is not None
    for line in drawn.lines:
        assert all(drawn.left <= x <= drawn.right and 0 <= y <= drawn.bottom for x, y in line.points)
        assert [x for x, _ in line.points] == sorted(x for x, _ in line.points)
    assert all(0 <= mark.at <= drawn.height for mark in drawn.names)


def test_nothing_measured_is_no_chart() -> None:
    assert chart({"outcomes": [{"cards": [0, 1], "status": "timeout", "samples": []}]}, "t") is None
    assert "<svg" not in page({"h": {**diagnosis(), "outcomes": []}}, {})


def rows(text: str) -> list[dict[str, Any]]:
    return list(csv.DictReader(io.StringIO(text), strict=True))


def test_rows_have_each_measurement_with_its_host() -> None:
    found = rows(csv_text({"a": card_3_is_bad(), "b": diagnosis(2)}, {}))
    assert tuple(found[0]) == COLUMNS
    kinds = [row["kind"] for row in found if row["host"] == "a"]
    counts = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
    assert counts == {"host": 1, "card": 8, "group": 5, "single": 8, "pair": 21 * 5 + 7}
    slow = next(row for row in found if (row["cards"], row["bytes"]) == ("0 1", "268435456"))
    assert (slow["status"], slow["ranks"], slow["text"]) == ("slow", "2", "0.31 of its peers")
    assert float(slow["algbw_gbps"]) == pytest.approx(268435456 / float(slow["us"]) / 1000, abs=1e-3)
    whole = next(row for row in found if (row["kind"], row["bytes"]) == ("group", "2600000"))
    assert float(whole["busbw_gbps"]) == pytest.approx(float(whole["algbw_gbps"]) * 14 / 8, abs=1e-3)
    hung = [row for row in found if row["cards"] == "0 3"]
    assert [(row["status"], row["bytes"], row["failures"]) for row in hung] == [("timeout", "", "2")]
    bad = next(row for row in found if (row["kind"], row["cards"]) == ("card", "3"))
    assert (bad["status"], bad["text"]) == ("fail", "hangs in 7 of 7 pairs")


def test_a_host_of_which_nothing_is_known_has_a_row_with_the_reason() -> None:
    (row,) = rows(csv_text({}, {"c": {"code": "unreachable", "message": "c: refused"}}))
    assert (row["host"], row["kind"], row["status"], row["text"]) == (
        "c",
        "host",
        "unreachable",
        "c: refused",
    )


def test_a_scan_has_rows_too() -> None:
    found = {"scan": SCAN, "scan_failed": [{"world": 4, "status": "timeout", "error": "no answer"}]}
    _, two, eight, four = rows(csv_text({"h": found}, {}))
    assert (two["kind"], two["ranks"], two["algbw_gbps"], eight["busbw_gbps"]) == (
        "scan",
        "2",
        "20.0",
        "35.0",
    )
    assert (four["ranks"], four["status"], four["text"]) == ("4", "timeout", "no answer")


@settings(deadline=None)
@given(st.text(max_size=40), st.sampled_from(["", "=1+1", "+", "-2", "@x", "\t=1", 'a,b\n"c"', "\x1b[2J"]))
def test_whatever_a_host_says_is_one_cell_and_no_formula(tail: str, head: str) -> None:
    text = head + tail
    found = card_3_is_bad() | {"summary": text}
    found["cards"][3]["reason"] = text
    found["pairs"][0]["reason"] = text
    made = csv_text({"h": found}, {})
    assert not {"\x1b", "\r"} & set(made)
    read = rows(made)
    assert len(read) == len(rows(csv_text({"h": card_3_is_bad()}, {})))
    for row in read:
        assert None not in row
        assert not row["text"].startswith(("=", "+", "-", "@"))
        assert "\n" not in row["text"]
