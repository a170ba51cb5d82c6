"""The agent's look at a whole host, or at its container: what is read for it, and what that says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from klops.actions.own import hostreads, hostview
from klops.actions.own.reap import findings
from klops.actions.own.reap.findings import Look, NotThereError
from klops.actions.own.reap.steps import Before, place
from klops.errors import KlopsError
from klops.remote.containerreads import ReapRead

if TYPE_CHECKING:
    from klops.inventory.settings import Settings
    from klops.remote.base import Remote
    from klops.remote.reads import Read

KEY = "reap"


def reads(
    settings: Settings, *, grace: float | None = None, named: Sequence[str] = (), whole: bool = True
) -> tuple[Read, ...]:
    """Container, agent, cards, and the agent's look at what was left behind.

    ``grace`` in seconds, that of the settings by default; ``named``: unowned processes as ``PID:START``;
    ``whole``: by a helper container, that is.
    """
    seconds = settings.cleanup.grace if grace is None else grace
    return (
        *hostreads.host(settings),
        hostreads.pids(settings),
        hostreads.device_links(settings),
        *hostreads.cards(settings),
        ReapRead(
            KEY, place(settings), ("--grace", f"{seconds:g}"), whole=whole, named=tuple(includes(named))
        ),
    )


def includes(named: Sequence[str]) -> list[str]:
    """The verb's options for processes that are named."""
    return [word for one in named for word in ("--include", one)]


def around(remote: Remote, settings: Settings) -> tuple[Look | None, str]:
    """Look at the whole host now: what is seen, or None and why nothing is."""
    replies = remote.read(reads(settings))
    before = Before.of(hostview.look(replies, settings), replies, settings)
    try:
        return findings.read(hostview.reply(replies, KEY), before.names, before.inside), ""
    except (KlopsError, NotThereError) as error:
        return None, str(error)
