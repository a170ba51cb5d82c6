"""A diagnosis as rows: what was measured, and what is thought of each card. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

from klops.cards.xccl import bandwidth
from klops.ui.plain import printable

COLUMNS = (
    *("host", "kind", "cards", "ranks", "status", "bytes", "rounds", "wrong", "nan", "us", "spread_us"),
    *("algbw_gbps", "busbw_gbps", "runs", "failures", "text"),
)
#: What spreadsheets take for a formula when a cell begins with it.
_FORMULA = ("=", "+", "-", "@", "\t")


def csv_text(found: Mapping[str, Mapping[str, Any]], errors: Mapping[str, Mapping[str, Any]]) -> str:
    """All hosts, with a line of headings.

    ``kind`` is ``card`` (its verdict and the reason), ``single``, ``pair``, ``group`` (a row for each size
    measured, one without for what was never measured), ``scan`` or ``host`` (its summary, or why nothing is
    known).
    ``errors``: by host, as JSON has them.
    """
    out = io.StringIO()
    rows = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    rows.writeheader()
    for host in dict.fromkeys([*found, *errors]):
        for row in _host(found.get(host, {}), errors.get(host)):
            rows.writerow({key: _cell(value) for key, value in {"host": host, **row}.items()})
    return out.getvalue()


def _cell(value: Any) -> Any:
    """Text from a host: on one line, harmless for a terminal, and no formula."""
    if not isinstance(value, str):
        return "" if value is None else value
    line = " ".join(printable(value).split())
    return f"'{line}" if line.startswith(_FORMULA) else line


def _host(found: Mapping[str, Any], error: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
    told = found.get("summary") or (error or {}).get("message")
    yield {"kind": "host", "status": found.get("scope") or (error or {}).get("code"), "text": told}
    for card in found.get("cards") or ():
        yield {
            "kind": "card",
            "cards": card.get("index"),
            "status": card.get("verdict"),
            "text": card.get("reason"),
        }
    pairs = {frozenset((pair["a"], pair["b"])): pair for pair in found.get("pairs") or ()}
    for test in found.get("outcomes") or ():
        yield from _test(test, pairs.get(frozenset(test["cards"]), {}))
    for row in found.get("scan") or ():
        told = {key: row.get(key) for key in ("bytes", "us", "wrong")}
        speeds = {"algbw_gbps": row.get("algbw"), "busbw_gbps": row.get("busbw")}
        yield {"kind": "scan", "ranks": row.get("world"), **told, **speeds}
    for failed in found.get("scan_failed") or ():
        told = {"status": failed.get("status"), "text": failed.get("error")}
        yield {"kind": "scan", "ranks": failed.get("world"), **told}


def _test(test: Mapping[str, Any], pair: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of one test. ``pair``: what is thought of that pair, which knows its peers."""
    cards = test["cards"]
    row = {
        "kind": {1: "single", 2: "pair"}.get(len(cards), "group"),
        "cards": " ".join(map(str, cards)),
        "ranks": len(cards),
        "status": pair.get("status") or test.get("status"),
        "runs": test.get("runs"),
        "failures": test.get("failures"),
        "text": pair.get("reason") or test.get("error"),
    }
    samples = test.get("samples") or ()
    if not samples:
        yield row
    for sample in samples:
        yield {**row, **_sample(sample, len(cards))}


def _sample(sample: Mapping[str, Any], ranks: int) -> dict[str, Any]:
    measured = {key: sample.get(key) for key in ("bytes", "rounds", "wrong", "nan")}
    measured |= {key: round(sample.get(key) or 0, 3) for key in ("us", "spread_us")}
    if ranks < 2 or not sample.get("us"):
        return measured
    algbw = bandwidth.algorithm(sample["bytes"], sample["us"])
    return {**measured, "algbw_gbps": round(algbw, 4), "busbw_gbps": round(bandwidth.bus(algbw, ranks), 4)}
