"""The plan of ``klops.services`` for ``state: stopped``. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from klops.actions.base import Plan, Step
from klops.actions.own import hostreads, hostview
from klops.actions.own.services.steps import CheckFree, RecordStopped, Verb, judge_holders
from klops.actions.own.supervision import Supervise
from klops.errors import TaskFailed
from klops.remote.base import Replies
from klops.remote.reads import ABSENT, Read
from klops.remote.rootreads import plain

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

#: Seconds a unit that is no longer in the settings may take to stop.
UNKNOWN_STOP = 60.0
_STATE = ".state.json"
_NOBODY = "no container runs, so no service does"


def stop_timeout(settings: Settings, name: str) -> float:
    """Seconds that a unit may take to stop."""
    service = settings.services.get(name)
    return service.stop_timeout if service is not None else UNKNOWN_STOP


def stop_reads(settings: Settings) -> tuple[Read, ...]:
    """Who holds cards; and for a container that doesn't run, what will be started with it again."""
    states = (hostreads.unit_state(settings, name) for name in settings.services)
    return (hostreads.holders(settings), hostreads.run_folder(settings), *states)


def stopped(settings: Settings, host: hostview.HostView, names: list[str], replies: Replies) -> Plan:
    """Stop what isn't stopped; then, or else, nobody of ours may hold a card."""
    if host.at_rest:
        return _at_rest(settings, host, names, replies)
    steps: list[Step] = []
    for name in names:
        unit = host.units.get(name)
        if unit is None or (unit.get("desired") == "stopped" and unit.get("state") == "stopped"):
            continue
        if host.alone and name in settings.services and not unit.get("lineage"):
            # nothing of it lives: a supervisor that is started to stop it would start it first
            steps += _on_record(settings, host, name, replies, "a supervisor")
        else:
            steps.append(Verb(settings, "stop", name, "", stop_timeout(settings, name)))
    if steps:
        first = (Supervise(settings),) if host.alone and any(isinstance(s, Verb) for s in steps) else ()
        return Plan(steps=(*first, *steps, CheckFree(settings, tuple(names))))
    found = hostview.reply(replies, hostreads.HOLDERS).json()
    if not isinstance(found, dict) or not isinstance(found.get("holders"), list):
        return Plan(failure=TaskFailed("who holds the cards could not be seen", code="cards-unseen"))
    failure, warning = judge_holders(found, tuple(names))
    return Plan(failure=failure, message="all stopped", warnings=(warning,) if warning else ())


def _at_rest(settings: Settings, host: hostview.HostView, names: list[str], replies: Replies) -> Plan:
    """No process lives, but docker may start the container again, and with it comes what is desired."""
    container = host.container
    if container is None or not host.ours:
        return Plan(message=_NOBODY)
    listing = plain(hostview.reply(replies, hostreads.RUN_FOLDER))
    if not listing.ok:
        # the folder is as old as the container: that it can't be listed doesn't mean that nothing is in it
        return Plan(failure=_unseen(f"{settings.root}/run", container.state))
    on_disk = [line[: -len(_STATE)] for line in listing.text.splitlines() if line.endswith(_STATE)]
    steps: list[Step] = []
    for name in names:
        steps += _on_record(settings, host, name, replies, f"the {container.state} container")
    strangers = [name for name in on_disk if name not in settings.services]
    warning = (
        f"not in the settings, and not looked at: {', '.join(strangers)}; "
        "the next klops up removes what comes back of it"
    )
    return Plan(steps=tuple(steps), message=_NOBODY, warnings=(warning,) if strangers else ())


def _on_record(
    settings: Settings, host: hostview.HostView, name: str, replies: Replies, comes_with: str
) -> list[Step]:
    """The step that writes down that a unit is stopped, where it isn't yet. Raises TaskFailed."""
    path, container = f"{settings.root}/run/{name}{_STATE}", host.container
    answer = plain(hostview.reply(replies, f"state:{name}"))
    if answer.rc == ABSENT or container is None:
        return []
    state = answer.json() if answer.ok else None
    if not isinstance(state, Mapping):
        raise _unseen(path, container.state)
    if state.get("desired") == "stopped":
        return []
    into = hostreads.docker_prefix(settings) if host.adopted else ()
    return [RecordStopped(path, name, comes_with, _stopped_record(state), container.id, into)]


def _stopped_record(state: Mapping[str, Any]) -> dict[str, Any]:
    return {**state, "desired": "stopped", "state": "stopped"}


def _unseen(path: str, state: str) -> TaskFailed:
    return TaskFailed(
        f"the container is {state}, and {path} can't be read: do its services come back with it?",
        code="unit-unseen",
        hint="klops down --remove removes the container; or start it with klops up, then klops down",
    )
