"""``klops doctor`` on a terminal: the verdict first, then what it rests on, then what to do. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from klops.errors import KlopsError
from klops.ui.cards import STYLES, card_table
from klops.ui.doctor.advice import steps
from klops.ui.doctor.heatmap import HeatMap
from klops.ui.doctor.measured import Scanned, scan_rows, size_text
from klops.ui.doctor.pairs import matrix
from klops.ui.plain import printable
from klops.ui.prose import Prose, Trimmed
from klops.ui.status import ranges

#: Verdicts, worst first.
_ORDER = ("fail", "degraded", "unknown", "not-applicable", "pass")


def verdicts(found: Mapping[str, Any]) -> dict[str, list[int]]:
    """Cards by verdict, worst first; none where a scan has measured, and judged nothing."""
    if "scan_failed" in found:
        return {}
    by_verdict: dict[str, list[int]] = {}
    for card in found.get("cards") or ():
        if isinstance(card, Mapping) and card.get("verdict"):
            by_verdict.setdefault(str(card["verdict"]), []).append(card["index"])
    known = {verdict: by_verdict.pop(verdict) for verdict in _ORDER if verdict in by_verdict}
    return {**known, **by_verdict}


def sentence(found: Mapping[str, Any]) -> str:
    """What was found, in one sentence."""
    if found.get("summary"):
        return str(found["summary"])
    told = [
        f"card{'s' if len(cards) > 1 else ''} {ranges(cards)}: {verdict}"
        for verdict, cards in verdicts(found).items()
    ]
    return "; ".join(told) or "nothing is known of its cards"


def worst(found: Mapping[str, Any]) -> str:
    """The verdict that decides how it all looks; a fault that is no card's counts as failing.

    What is wrong with a card its own verdict says.
    """
    seen = next(iter(verdicts(found)), "unknown")
    blamed = found.get("scope") not in (None, "none", "card", "inconclusive")
    return "fail" if blamed and seen in ("pass", "not-applicable") else seen


def doctor_view(
    hosts: Mapping[str, Mapping[str, Any]],
    redactor: Callable[[str], str],
    *,
    errors: Mapping[str, KlopsError],
) -> RenderableType:
    """All hosts of which something is known; ``errors`` were told above."""
    parts: list[RenderableType] = []

    def text(line: str) -> str:
        return printable(redactor(line))

    for name, found in hosts.items():
        if parts:
            parts.append(Text())
        said = sentence(found) if verdicts(found) or name not in errors else errors[name].message
        parts.append(Prose(text(f"{name}: {said}"), style=f"bold {STYLES.get(worst(found), '')}".strip()))
        parts += _host(name, found, text)
    return Group(*parts)


def _host(name: str, found: Mapping[str, Any], text: Callable[[str], str]) -> Iterator[RenderableType]:
    for line in why(found):
        yield Prose(text(f"  {line}"))
    scanned = scan_rows(found)
    if scanned:
        yield _scan(scanned)
    if verdicts(found):
        yield from _verdict(name, found, text)


def _verdict(name: str, found: Mapping[str, Any], text: Callable[[str], str]) -> Iterator[RenderableType]:
    yield card_table(found["cards"], text)
    for line in _evidence(found):
        yield Prose(text(f"  {line}"))
    pairs = matrix(found)
    if pairs is not None:
        yield HeatMap(pairs)
        for line in pairs.remarks:
            yield Prose(text(f"  {line}"))
    for line in (*findings(found), *filter(None, (learned(found), cost(found)))):
        yield Prose(text(f"  {line}"))
    for step in steps(name, found):
        yield Prose(text(f"  next: {step.text}{':' if step.commands else ''}"))
        for command in step.commands:
            # never folded: it is copied
            yield Text(text(f"    {command}"), no_wrap=True, overflow="ignore")


def why(found: Mapping[str, Any]) -> Iterator[str]:
    """What belongs to the sentence, as far as it doesn't say so itself.

    The error that all share, why fewer cards are had than asked for, and what is known of such a fault.
    """
    said = sentence(found)
    error, reason = str(found.get("error") or ""), str(found.get("why") or "")
    if error and error not in said:
        yield f"error: {error}"
    if reason and reason not in said:
        yield reason
    for failed in found.get("scan_failed") or ():
        yield f"{failed.get('world')} ranks: {failed.get('status')}: {failed.get('error')}"
    yield from map(str, found.get("hints") or ())


def evidence(card: Mapping[str, Any]) -> list[str]:
    """The reason of a card's verdict, and what else it rests on."""
    told = [card.get("reason"), *(card.get("evidence") or ())]
    return [str(one) for one in dict.fromkeys(told) if one]


def _evidence(found: Mapping[str, Any]) -> list[str]:
    """What speaks against the cards that do not pass, beside the reason, which is in the table."""
    alike: dict[str, list[int]] = {}
    for card in found["cards"]:
        if card.get("verdict") != "pass":
            for told in evidence(card):
                if told != card.get("reason"):
                    alike.setdefault(told, []).append(card["index"])
    return [f"card{'s' if len(cards) > 1 else ''} {ranges(cards)}: {told}" for told, cards in alike.items()]


def findings(found: Mapping[str, Any]) -> Iterator[str]:
    """What there is to say beside cards and pairs."""
    for finding in found.get("findings") or ():
        hint = str(finding.get("hint") or "none")
        yield str(finding.get("message")) + ("" if hint == "none" else f"; {hint}")
    for left in found.get("left") or ():
        yield f"left behind: {left}"
    yield from map(str, found.get("notes") or ())


def cost(found: Mapping[str, Any]) -> str:
    """What the diagnosis took, and with what it was made; "" where there was none."""
    if found.get("collectives_run") is None:
        return ""
    with_what = " ".join(
        str(part)
        for part in (
            found.get("backend"),
            found.get("device") and f"on {found['device']}",
            found.get("torch") and f"(torch {found['torch']})",
        )
        if part
    )
    took = found.get("seconds")
    return (
        f"{found['collectives_run']} groups formed in {found.get('rounds', 0)} rounds by "
        f"{found.get('rank_processes', 0)} rank processes"
        + (f" in {took:.0f} s" if isinstance(took, (int, float)) else "")
        + (f", {with_what}" if with_what else "")
    )


def learned(found: Mapping[str, Any]) -> str:
    """What bandwidth is known of this host when it does well: of each size of group its best; "" for none."""
    groups = found.get("baseline") or {}
    best = ", ".join(
        f"{size} cards {max(by_size.values()):.1f} GB/s"
        for size, by_size in sorted(groups.items(), key=lambda item: int(item[0]))
        if by_size
    )
    return f"learned of this host: {best}" if best else ""


def _scan(rows: Sequence[Scanned]) -> RenderableType:
    """Ranks and sizes, in the columns of nccl-tests."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("ranks", "size", "bytes", "time us", "algbw GB/s", "busbw GB/s", "wrong"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            *(str(row.ranks), size_text(row.bytes), str(row.bytes), f"{row.us:.1f}"),
            *(f"{row.algbw:.2f}", f"{row.busbw:.2f}", str(row.wrong)),
        )
    return Trimmed(table)
