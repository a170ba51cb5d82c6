"""Notes that keep cards out of service: which are written and lifted, and the agent's verb that does it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from klops.actions.base import Change, Context, Progress, Step
from klops.actions.own.agentverbs import MARGIN, answer
from klops.actions.own.cards.record import document as record
from klops.actions.own.cards.record.standing import CardState, Standing
from klops.actions.own.hostreads import agent_argv
from klops.cards.record import quarantine
from klops.cards.record.freshness import in_a_row
from klops.cards.xccl.results import FAIL

if TYPE_CHECKING:
    from klops.inventory.settings import Settings


def after(
    settings: Settings,
    standing: Standing,
    result: Mapping[str, Any],
    count: Sequence[Mapping[str, Any]],
    *,
    by: str,
    run: str,
    at: float | None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Notes to write and to lift after a diagnosis.

    One failing diagnosis may have met a bad moment: only so many in a row (``cards.confirm``) keep a card out
    for longer than one start. What klops wrote it lifts when the card passes, and nothing else.
    """
    add, lift = [], []
    for card in result["cards"]:
        if not card.get("tested"):
            continue
        noted = [one for one in standing.notes or () if quarantine.same_card(one["card"], card)]
        ours = [one for one in noted if one.get("kind") == quarantine.VERDICT]
        times = in_a_row(count, card)
        if card["verdict"] == FAIL and times >= settings.cards.confirm:
            reason = f"{card['reason']} (failed in {times} diagnoses in a row)"
            add.append(
                quarantine.exclusion(
                    card,
                    quarantine.VERDICT,
                    reason,
                    by=by,
                    at=at,
                    boot_id=standing.boot_id,
                    driver=standing.driver,
                    evidence=card["evidence"],
                    run=run,
                    alone=record.alone(result, card["index"]) in record.FAILING,
                )
            )
        elif ours and record.may_serve(result, card, standing):
            lift.append(lifting(card, (quarantine.VERDICT,)))
    return add, lift


def lifting(card: Mapping[str, Any], kinds: Sequence[str]) -> dict[str, Any]:
    """An order to lift the notes of these kinds on a card."""
    return {
        "card": {key: card.get(key) for key in ("index", "node", "bdf", "uuid", "serial")},
        "kinds": list(kinds),
    }


def write(ctx: Context, settings: Settings, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Have the agent write it down; returns the notes that are in force then. Raises AgentError."""
    done = ctx.remote.run(
        agent_argv(settings, "note", stdin=True),
        stdin=json.dumps(given).encode(),
        check=False,
        timeout=MARGIN,
    )
    said = answer(done, "what is known of the cards could not be written down")
    return [dict(one) for one in said.get("notes") or ()]


def shown(notes: Sequence[Mapping[str, Any]], standing: Standing) -> list[dict[str, Any]]:
    """Notes in force as they are told, with the index that their card has now."""
    found = []
    for one in notes:
        states = [s for s in standing.cards if quarantine.same_card(one["card"], s.identity)]
        index = states[0].index if states else None
        found.append({"card": index, **quarantine.told(one)})
    return found


@dataclass(frozen=True)
class WriteNotes(Step):
    """Keep cards out of service by a person's word, or take that back."""

    settings: Settings
    standing: Standing
    cards: tuple[CardState, ...]
    add: tuple[Mapping[str, Any], ...] = ()
    lift: tuple[Mapping[str, Any], ...] = ()
    result: Mapping[str, Any] = field(default_factory=dict)
    #: what becomes of the last diagnosis; None where it stays
    verdict: Mapping[str, Any] | None = None

    def change(self) -> Change:
        """The cards, and why."""
        listed = ", ".join(str(one.index) for one in self.cards)
        if self.add:
            reason = str(self.add[0].get("reason") or "")
            return Change(f"keep card {listed} out of service" + (f": {reason}" if reason else ""))
        return Change(f"put card {listed} back into service")

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """Have it written."""
        ctx.progress(Progress(self.change().what))
        given: dict[str, Any] = {"add": list(self.add), "lift": list(self.lift)}
        given.update({} if self.verdict is None else {"verdict": self.verdict})
        notes = write(ctx, self.settings, given)
        return {**self.result, "quarantine": shown(notes, self.standing)}
