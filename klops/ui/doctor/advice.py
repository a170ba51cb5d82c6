"""What to do about what was found on a host: sentences, and commands to copy. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from klops.ui.status import ranges


@dataclass(frozen=True)
class Step:
    """One thing to do; ``commands`` are whole, one after another, () where there is none."""

    text: str
    commands: tuple[str, ...] = ()


def steps(host: str, found: Mapping[str, Any]) -> list[Step]:
    """All of them, the most useful first."""
    return [
        *_service(host, found),
        *_cards(host, found),
    ]


def _service(host: str, found: Mapping[str, Any]) -> Iterator[Step]:
    """What klops would do with it; nothing after a test of some cards, which tells nothing of the others."""
    if found.get("recommended_cards") is None:
        return
    cards: Sequence[int] = found["recommended_cards"]
    out: Sequence[int] = found.get("excluded") or ()
    if cards:
        proven = "" if found.get("verified") else ", which were not tested together"
        without = f", without {_cards_text(out)}" if out else ""
        tp = found.get("recommended_tp")
        size = f" with TP={tp}" if tp else ""
        yield Step(f"to serve on {_cards_text(cards)}{size}{proven}{without}", (f"klops up {host}",))
    elif out:
        yield Step("no service can be had of the other cards")


def _cards(host: str, found: Mapping[str, Any]) -> Iterator[Step]:
    """What the cards need, those that need the same together."""
    by_action: dict[str, list[int]] = {}
    # where all fail alike there is nothing to be done about each
    blameless = found.get("scope") in ("stack", "host")
    for card in found.get("cards") or ():
        spared = blameless and card.get("verdict") == "unknown"
        if card.get("action") not in (None, "", "none") and not spared:
            by_action.setdefault(str(card["action"]), []).append(card["index"])
    for action, cards in by_action.items():
        yield _action(action, host, cards)
    repaired = found.get("excluded") or ()
    if repaired:
        words = " ".join(map(str, repaired))
        yield Step(
            f"to test {_cards_text(repaired)} after a repair and take back what works",
            (f"klops cards restore {host} {words}",),
        )


def _cards_text(cards: Sequence[int]) -> str:
    return f"card{'s' if len(cards) > 1 else ''} {ranges(cards)}"


def _action(action: str, host: str, cards: Sequence[int]) -> Step:
    which = _cards_text(cards)
    again = f"klops doctor xccl {host}"
    if action == "retry":
        return Step(f"to look at {which} again", (again,))
    if action == "restart":
        return Step(
            f"to make the container anew and look at {which} again", (f"klops up {host} --recreate", again)
        )
    if action == "exclude":
        words = " ".join(map(str, cards))
        return Step(
            f"to keep {which} out of service whatever the next diagnosis says",
            (f"klops cards exclude {host} {words}",),
        )
    if action == "reset":
        # FastDeploy's CI resets by this before each run; the tool's help says that it isn't guaranteed
        listed = ",".join(map(str, cards))
        reset = f"klops exec --host {host} -- xpu-smi -r -i {listed}"
        return Step(
            f"to try a reset of {which}, which ends all services and is not sure to help (else reboot)",
            (f"klops down {host}", reset, again),
        )
    if action == "reboot":
        return Step(f"{which}: reboot the host, then look again", (again,))
    if action == "inspect":
        return Step(f"{which}: have it looked at (seat, links, cooling)")
    return Step(f"{which}: {action}")
