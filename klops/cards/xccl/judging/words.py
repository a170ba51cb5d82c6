"""How results of tests are said. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klops.cards.choice.groups import listed
from klops.cards.xccl.judging import quotes
from klops.cards.xccl.judging.found import FAILING
from klops.cards.xccl.results import ALLOCATE, CHECK, COLLECTIVE, ERROR, FLAKY, INIT, START, TIMEOUT, WRONG

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from klops.cards.xccl.judging.found import Found
    from klops.cards.xccl.results import Outcome

_STAGES = {
    START: "while its process starts",
    ALLOCATE: "in allocation",
    INIT: "while the group is formed",
    COLLECTIVE: "in the collective",
    CHECK: "when values are checked",
}
#: Of an error line, and of a list of pairs, so much is quoted.
_LINE, _PAIRS = 200, 6


def line(error: str) -> str:
    """The first line of an error, short enough for a sentence."""
    first = error.strip().partition("\n")[0].strip()
    return first if len(first) <= _LINE else f"{first[: _LINE - 3]}..."


def first_line(outcomes: Iterable[Outcome]) -> str:
    """That of the first of them that says something."""
    return next((line(one.error) for one in outcomes if one.error), "")


def hints(outcomes: Iterable[Outcome]) -> tuple[str, ...]:
    """What is known of their errors, each once."""
    known = (quotes.known(one.error) for one in outcomes)
    said = [text for quote in known if quote for text in (f"{quote.name}: {quote.means}", *quote.hints)]
    return tuple(dict.fromkeys(said))


def how(outcome: Outcome) -> str:
    """How a test ended that didn't go well: "no answer in the collective"."""
    if outcome.status == FLAKY:
        return f"failed in {outcome.failures} of {outcome.runs} runs"
    if outcome.status == WRONG:
        return "wrong sums"
    what = {TIMEOUT: "no answer", ERROR: "an error"}.get(outcome.status, outcome.status)
    return f"{what} {_STAGES[outcome.stage]}" if outcome.stage in _STAGES else what


def hows(outcomes: Collection[Outcome]) -> str:
    """The same of several: each way once, the usual one first."""
    ways = [how(one) for one in outcomes]
    return ", ".join(sorted(set(ways), key=lambda way: (-ways.count(way), way)))


def cards(numbers: Collection[int]) -> str:
    """``card 5``, ``cards 1 and 6``, ``cards 0, 1, 2, 3``."""
    found = sorted(numbers)
    if len(found) == 2:
        return f"cards {found[0]} and {found[1]}"
    return f"card{'s' if len(found) != 1 else ''} {listed(found)}"


def links(pairs: Collection[frozenset[int]]) -> str:
    """``cards 2 and 6`` for one pair, else ``the pairs 2-6, 3-7``, of many the first few."""
    ordered = sorted(sorted(pair) for pair in pairs)
    if len(ordered) == 1:
        return cards(ordered[0])
    more = f" and {len(ordered) - _PAIRS} more" if len(ordered) > _PAIRS else ""
    return f"the pairs {', '.join('-'.join(map(str, pair)) for pair in ordered[:_PAIRS])}{more}"


def _against(found: Found, group: frozenset[int], card: int) -> bool:
    """Whether it speaks against the card that this group failed: not where others of it fail without it."""
    others = group - {card}
    return (
        card in group and not others & found.dead() and not any(one <= others for one in found.ended(FAILING))
    )


def against(found: Found, card: int) -> tuple[str, tuple[str, ...]]:
    """Why a card is bad or may be, in a few words; and the evidence, the strongest first."""
    reasons, evidence, failed = [], [], []
    alone = found.alone.get(card)
    if alone is not None and alone.status in FAILING:
        failed.append(alone)
        reasons.append(f"fails alone: {how(alone)}")
        evidence.append(f"alone: {how(alone)}, in {alone.failures} of {alone.runs} runs")
    pairs = found.pairs(card)
    bad = [one for one in pairs if one.status in FAILING]
    if bad:
        reasons.append(f"{len(bad)} of its {len(pairs)} tested pairs fail: {hows(bad)}")
        others = {other for one in bad for other in one.cards if other != card}
        evidence.append(f"fails with {cards(others)}: {hows(bad)}")
    larger = [
        one for group, one in found.ended(FAILING).items() if len(group) > 2 and _against(found, group, card)
    ]
    if larger:
        reasons.append(f"larger groups with it fail: {hows(larger)}")
        evidence.append(f"{len(larger)} larger group(s) with it failed: {hows(larger)}")
    failed.extend((*bad, *larger))
    error = first_line(failed)
    if error:
        evidence.append(f"first error: {error}")
    return (reasons or ["not tested"])[0], tuple(evidence)
