"""Which cards the ranks of a unit that is ready have, as its supervisor has it read back."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from tests.sim.agent.cards import Cards
from tests.sim.agent.site import Site
from tests.waiting import until


@pytest.mark.skipif(os.geteuid() != 0, reason="making device nodes needs root")
def test_row_C16_the_cards_of_the_ranks_are_told_by_this_supervisor_and_by_the_next(
    held: Site, cards: Cards
) -> None:
    env = {"KLOPS_SIM_DEVICE_DIR": str(held.devices), "KLOPS_SIM_LOAD_SECONDS": "0.1"}
    chosen = [cards.identity(6), cards.identity(4)]
    held.start(held.spec(cards=chosen, env=env, smi=str(cards.smi)))

    def known() -> dict[str, Any] | None:
        unit = held.unit()
        return unit if unit["ranks"] else None

    unit = until(known, what="it is read back")
    assert (unit["state"], unit["ranks"], unit["note"]) == ("ready", [6, 4], "")
    first = held.supervisor()
    os.kill(first, signal.SIGKILL)
    until(lambda: held.supervisor() != first, what="another supervisor")
    unit = until(known, what="it is read back again")
    assert (unit["ranks"], unit["generation"]) == ([6, 4], 1)
    held.verb("stop", "llm")
    now = held.verb("status")
    assert (now["units"]["llm"]["ranks"], now["strays"]) == ([], [])
