"""Before units are started: does somebody else hold one of their cards?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from klops.actions.base import Change, Context, Progress, Step
from klops.actions.own import hostreads, hostview
from klops.actions.own.reap import looking
from klops.actions.own.reap.judge import told, whose
from klops.errors import TaskFailed

if TYPE_CHECKING:
    from klops.actions.own.reap.findings import Look
    from klops.inventory.settings import Settings
    from klops.remote.base import Remote


@dataclass(frozen=True)
class CheckOthers(Step):
    """Look with the host's view, as the agent in the container sees nobody outside it.

    A server that finds a card in use fails late, after minutes of loading, and doesn't say for whom.
    """

    changes: ClassVar[bool] = False

    settings: Settings
    #: smi indexes of the cards that units are started on
    cards: frozenset[int]
    #: those units: what they left behind themselves their start ends
    units: frozenset[str] = frozenset()

    def change(self) -> Change:
        """What is looked for."""
        return Change(f"check that nobody else holds card {_listed(self.cards)}")

    def carry_out(self, ctx: Context) -> None:
        """Look. Raises TaskFailed naming who holds a card; warns where that can't be told."""
        ctx.progress(Progress(self.change().what))
        look, why = looking.around(ctx.remote, self.settings)
        if look is None:
            ctx.warn(f"whether somebody else holds a card could not be looked at: {why}")
            return
        # from inside a container its own id can't be told
        asked = look.whole and look.processes("unsupervised")
        container = _in_hand(ctx.remote, self.settings) if asked else None
        held = judge_others(look, self.cards, self.units, f"klops reap {ctx.view.host}", container)
        if held is not None:
            raise held
        if look.narrowed:
            ctx.warn(f"whether somebody outside the container holds a card is not known: {look.narrowed}")
        unseen = look.processes("unseen")
        if unseen:
            ctx.warn(f"whether these hold a card could not be seen: {'; '.join(map(told, unseen))}")


def judge_others(
    look: Look, cards: frozenset[int], units: frozenset[str], command: str, container: str | None = None
) -> TaskFailed | None:
    """The error for cards that processes hold which are no unit's of those that start; None where none is.

    An orphan that a clean-up has spared, as it was too young, holds a card as anybody else does; so does a
    unit's process in another container, be it of the same name: two may have one root. ``command`` is the
    clean-up of this host, ``container`` the id of the one that units are started in, "" where there is none;
    with None those of units that nobody supervises are not judged.
    """

    def holders(*lists: str) -> list[Mapping[str, Any]]:
        return [process for process in look.processes(*lists) if cards & {*process["cards"]}]

    others = holders("foreign", "unowned")
    if container is not None:
        # in that one a supervisor takes them over, or its start ends them
        others += [one for one in holders("unsupervised") if one.get("container") != container]
    left = [
        process
        for process in holders("processes")
        if process.get("outcome") != "gone" and process.get("unit") not in units
    ]
    if not others and not left:
        return None
    told = [*map(whose, others), *(f"{whose(one)}, left behind ({one.get('reason')})" for one in left)]
    hints = [f"{command} --grace 0 ends what is left behind"] if left else []
    if others:
        hints.append(
            "ask their users, or choose other cards: klops.cards.use, or cards of the service; "
            f"{command} lists all"
        )
    return TaskFailed(
        f"cards that are wanted are held by others: {'; '.join(told)}",
        code="cards-foreign",
        hint="; ".join(hints),
    )


def _in_hand(remote: Remote, settings: Settings) -> str:
    """Id of the container that units are started in, "" where there is none or docker doesn't tell."""
    container = hostview.look(remote.read(hostreads.host(settings)), settings).container
    return container.id if container is not None else ""


def _listed(cards: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(cards)))
