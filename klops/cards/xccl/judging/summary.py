"""What people read first of a verdict: one sentence. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klops.cards.xccl.judging import words
from klops.cards.xccl.judging.found import FAILING
from klops.cards.xccl.results import DEGRADED, PASS

if TYPE_CHECKING:
    from klops.cards.xccl.judging.judgement import Judgement


def summary(found: Judgement) -> str:
    """One sentence, what matters most first."""
    said = []
    if found.bad:
        said.append(_bad(found))
    if found.doubtful:
        ways = [one for card in found.doubtful for one in found.found.pairs(card) if one.status in FAILING]
        ways += [found.found.alone[card] for card in found.found.once()]
        again = any(map(found.found.counts, ways))
        said.append(
            f"{words.cards(found.doubtful)}: pairs fail ({words.hows(ways)}), "
            "and more than one card may be to blame"
            if again
            else f"{words.cards(found.doubtful)}: {words.hows(ways)}, which was not repeated"
        )
    links = {pair: one for pair, one in found.links.items() if not pair & found.doubtful}
    once = {pair: one for pair, one in links.items() if not found.found.counts(one)}
    if once:
        said.append(
            f"{words.links(once)} failed together once ({words.hows(once.values())}), which was not repeated"
        )
    links = {pair: one for pair, one in links.items() if pair not in once}
    if links:
        proven = links.keys() <= found.proven()
        more = "though each works with others" if proven else "and nothing shows which is to blame"
        said.append(f"{words.links(links)} do not work together ({words.hows(links.values())}), {more}")
    for cards, one in found.only.items():
        said.append(
            f"the collective of {len(cards)} fails ({words.how(one)}) though all pairs of "
            f"{words.cards(cards)} work: neither a card nor a pair is to blame"
        )
    for cards, one in found.open.items():
        said.append(
            f"{words.cards(cards)} fail together ({words.how(one)}), and not all their pairs are known"
        )
    for cards, one in found.flaky.items():
        said.append(f"{words.cards(cards)} {words.how(one)}")
    said.extend(f"card {card} is slow: {why}" for card, why in sorted(found.slow_cards.items()))
    slow = {pair: why for pair, why in found.slow.items() if not pair & set(found.slow_cards)}
    said.extend(f"{words.cards(pair)} are slow together: {why}" for pair, why in slow.items())
    said.extend(
        f"{words.cards(cards)} together have {ratio:.0%} of the learned bandwidth, all alike"
        for cards, ratio in found.late().items()
    )
    known = found.doubtful | found.spared
    untested = [card for card in found.unknown - known if not found.cards[card].evidence]
    untested = [card for card in untested if frozenset((card,)) not in found.flaky]
    if untested:
        said.append(f"{words.cards(untested)} not tested, or not with others")
    spared = f"{words.cards(found.spared)} not tested" if found.spared else ""
    out = f"out beforehand: {words.cards(found.aim.bad)}" if found.aim.bad else ""
    stay = [card for card in found.aim.kept if card not in found.bad]
    kept = f"kept out of service all the same: {words.cards(stay)}" if stay else ""
    return "; ".join(filter(None, (*(said or [_all_well(found)]), spared, out, kept)))


def _bad(found: Judgement) -> str:
    good = [card for card, one in found.cards.items() if one.verdict in (PASS, DEGRADED)]
    if len(found.bad) == 1:
        text = f"card {min(found.bad)} is bad: {found.cards[min(found.bad)].reason}"
    else:
        ended = [found.found.alone[card] for card in found.found.dead()]
        ended += [one for cards, one in found.found.ended(FAILING).items() if cards & found.bad]
        text = f"{words.cards(found.bad)} are bad ({words.hows(ended)})"
    return f"{text}; {words.cards(good)} {'works' if len(good) == 1 else 'work'}" if good else text


def _all_well(found: Judgement) -> str:
    tested = frozenset(found.aim.cards) - found.spared
    count, some = len(tested), bool(found.aim.bad or found.spared)
    if some:
        which, each = f"the {count} cards that were tested", f"each of the {count} cards that were tested"
    else:
        which, each = f"all {count} cards", f"each of {count} cards"
    if count < 2:
        return "the one card that was tested works" if some else "the one card works"
    if tested in found.found.together:
        return f"{which} work together"
    return f"{each} works, with others as well"
