"""Is it known which cards a test would be of? Where it isn't, none is made, and nothing is noted. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klops.errors import TaskFailed

if TYPE_CHECKING:
    from klops.actions.own.hostview import HostView
    from klops.inventory.settings import Settings


def untold(host: HostView, settings: Settings) -> str:
    """Why none of the cards that the settings use can be tested; "" where one can.

    Of some cards only it is a finding of theirs (:data:`~klops.cards.evidence.standings.UNIDENTIFIED`), and
    the others are tested.
    """
    if not host.cards_from:
        # indexes are only assumed: a test of them would say nothing about cards
        return "which cards there are is not known, so they are not tested: xpu-smi could not be read"
    used = [card for card in host.cards.cards if card.index in settings.cards.indexes]
    if used and not any(card.minor_known for card in used):
        return (
            "which node is which card's is not known, so they are not tested: xpu-smi -q could not be read, "
            "and nothing was noted of it since the host was booted"
        )
    return ""


def failure(host: HostView, settings: Settings, name: str) -> TaskFailed | None:
    """The error for what is asked of cards of the host ``name`` that nobody can tell apart; None else."""
    why = untold(host, settings)
    hint = f"klops doctor cards {name} shows what xpu-smi says; dmesg on the host may tell why"
    return TaskFailed(why, code="cards-unknown", hint=hint) if why else None
