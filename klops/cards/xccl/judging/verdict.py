"""What the tests of a diagnosis come to: card, link, group, stack, host, or nothing that can be said. Pure.

In this order:

- No card works alone (of two at least): the host, or the stack where their processes don't even start.
- Cards work alone and no two of them together, all alike: the stack if it is one error while the group is
  formed, or one that is known to be of the set-up. No card is excluded, and a smaller group would not help.
  Wrong sums and silence may as well be each of these cards' own fault: inconclusive.
- Where other cards serve meanwhile they prove host and stack: cards that fail alone are bad then, and what
  fails together, or doesn't even start, is inconclusive.
- A card that fails alone is bad. Of the others :mod:`~klops.cards.xccl.judging.blame` says which explain the
  pairs that failed; the pairs that no bad card explains are bad links, whose ends are good.
- A larger group that failed though all its pairs work: groups of that size, no card, no pair.
- What failed and then went well says nothing for sure, nor does what failed less often than is asked for and
  was not repeated, as the time was over, if no card that is proven bad explains it: inconclusive.
- What went well, but slower than its peers, is degraded, and not excluded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from klops.cards.xccl.judging import quotes, words
from klops.cards.xccl.judging.found import FAILING, Found, alike, apart, pairs_only
from klops.cards.xccl.judging.judgement import Judgement, pair_verdict
from klops.cards.xccl.judging.summary import summary
from klops.cards.xccl.results import (
    ERROR,
    FAIL,
    FLAKY,
    HOST,
    INCONCLUSIVE,
    INIT,
    OK,
    STACK,
    START,
    UNKNOWN,
    UNTESTED,
    CardVerdict,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from klops.cards.xccl.results import Aim, Outcome


def judge(aim: Aim, outcomes: Sequence[Outcome]) -> Verdict:
    """The verdict on the cards of ``aim``, from tests with the runs of each merged."""
    found = Found.of(aim, outcomes)
    verdict = _nothing_works(found) or _nothing_together(found) or _something(Judgement(aim, found))
    tested = {(pair.a, pair.b) for pair in verdict.pairs}
    untested = (
        pair_verdict(frozenset(one.cards), one)
        for one in outcomes
        if len(one.cards) == 2 and one.status == UNTESTED
    )
    pairs = (*verdict.pairs, *(pair for pair in untested if (pair.a, pair.b) not in tested))
    return replace(verdict, pairs=tuple(sorted(pairs, key=lambda pair: (pair.a, pair.b))))


def _for_all(
    found: Found, scope: str, said: str, reason: str, ended: Sequence[Outcome], dead: Collection[int]
) -> Verdict:
    """The verdict on a host on which no card is to blame, but for those that are ``dead`` besides."""
    error = words.first_line(ended)
    cards = {card: CardVerdict(UNKNOWN, reason, action="inspect") for card in found.cards}
    cards.update((card, CardVerdict(FAIL, *words.against(found, card), "exclude")) for card in sorted(dead))
    if dead:
        said += f"; besides, {words.cards(dead)} {'fails' if len(dead) == 1 else 'fail'} alone"
    return Verdict(
        scope,
        f"{said}; first error: {error}" if error else said,
        cards,
        tuple(pair_verdict(pair, one) for pair, one in pairs_only(found.together).items()),
        error,
        words.hints(ended),
    )


def _nothing_works(found: Found) -> Verdict | None:
    """No card works alone."""
    ended = list(found.alone.values())
    if len(ended) < 2 or len(found.dead()) < len(ended):
        return None
    began = any(one.stage != START for one in ended)
    if began and found.serving:
        return None  # each of them is bad by itself
    where = "driver, container or host" if began else "torch or what it needs in the container"
    way = "all alike" if alike(ended) else "not all alike"
    said = f"none of {len(ended)} cards works alone, {way} ({words.hows(ended)}): {where}, not a card"
    scope = HOST if began else STACK
    if found.serving:
        # of a process that doesn't begin its card is the last to suspect, and yet others began
        scope, said = INCONCLUSIVE, f"{said}; {_others_serve(found)}"
    return _for_all(found, scope, said, "does not work alone, as no other does", ended, ())


def _others_serve(found: Found) -> str:
    """Word of the cards that prove driver, container and host."""
    return f"{words.cards(found.serving)} {'serves' if len(found.serving) == 1 else 'serve'} meanwhile"


def _nothing_together(found: Found) -> Verdict | None:
    """Each card works alone, and no two together, all in the same way."""
    dead = found.dead()
    standing = [card for card in found.cards if card not in dead]
    tried = pairs_only(found.ended(FAILING, dead))
    ended = list(tried.values())
    if not ended or found.ended((OK, FLAKY), dead) or not alike(ended):
        return None
    if any(card not in found.alone or found.alone[card].status != OK for card in standing):
        return None
    # each with two others: so neither a link explains it, nor a bad card in each of the tested pairs
    if any(sum(card in pair for pair in tried) < min(2, len(standing) - 1) for card in standing):
        return None
    # what counts, or was ended early as half of the cards can't be good: see the plan
    if not all(map(found.counts, ended)) and 2 * apart(standing, tried) >= len(standing):
        return None
    quote = quotes.known(ended[0].error)
    if len(standing) == 2 and not (quote and quote.setup):
        return None  # of two cards no other pair tells whether it is one of them, or what is between them
    number = f"all {len(ended)} tested pairs fail" if len(ended) > 1 else "the one pair fails"
    said = f"each card works alone and no two together, {number} alike ({words.how(ended[0])}): "
    reason = "works alone, but no two cards work together"
    if not found.serving and ((ended[0].status, ended[0].stage) == (ERROR, INIT) or (quote and quote.setup)):
        return _for_all(found, STACK, f"{said}driver or set-up, not a card", reason, ended, dead)
    # wrong sums, or no answer, may as well be the fault of each of these cards
    said += "driver, set-up or all of these cards, as no good partner was free to test with"
    said += f"; {_others_serve(found)}" if found.serving else ""
    return _for_all(found, INCONCLUSIVE, said, reason, ended, dead)


def _something(judged: Judgement) -> Verdict:
    """Some things work and some don't, or all do."""
    found = judged.found
    ended = [one for one in (*found.alone.values(), *found.together.values()) if one.status != OK]
    return Verdict(
        judged.scope(),
        summary(judged),
        judged.cards,
        tuple(judged.pair(pair, one) for pair, one in pairs_only(found.together).items()),
        words.first_line(ended),
        words.hints(ended),
    )
