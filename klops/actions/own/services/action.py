"""``klops.services``: the units of the host are what the settings ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from klops.actions.base import Action, Params, Plan, Probe, Seen, View
from klops.actions.own import hostreads
from klops.actions.own.cards.size import Size
from klops.actions.own.source.looking import TREE, tree_look

if TYPE_CHECKING:
    from klops.inventory.settings import Settings


class Synced(Params):
    """Parameters of ``klops.source``."""

    ref: str | None = None
    dirty: bool | None = None


class ServicesParams(Params):
    """``state``: running (and ready), stopped, restarted, or renewed; ``names``: of these, or of all.

    Renewed are services that are to run already, and only where what they run on or are started with is
    another by now. ``synced``: what ``klops.source`` before this was given; a dry run goes by the release
    that it would have made. ``tp``: tensor parallelism of this run, whatever the settings say.
    """

    state: Literal["running", "stopped", "restarted", "renewed"] = "running"
    names: list[str] | None = None
    tp: Size = None
    synced: Synced | None = None


class ServicesAction(Action[ServicesParams]):
    """Starts, stops and restarts units through the agent, and waits until they are ready."""

    name: ClassVar[str] = "klops.services"
    params = ServicesParams
    #: of container, cards and release, which their own tasks tell
    follows: ClassVar[bool] = True

    def probe(self, params: ServicesParams, view: View) -> Probe:
        """Container, agent and cards; the units' files for a diff, and for when the agent can't be asked."""
        settings = view.settings
        if _nothing_to_renew(params, settings):
            return Probe()
        reads = [*hostreads.host(settings)]
        if params.state == "stopped":
            # only now: a host without services does without all that
            from klops.actions.own.services.stop import stop_reads

            reads += stop_reads(settings)
        else:
            from klops.actions.own.cards import choosing

            reads += [hostreads.pids(settings), hostreads.device_links(settings), *hostreads.cards(settings)]
            reads += [*hostreads.quarantine(settings), *choosing.reads(settings)]
            for name in settings.services:
                reads += [hostreads.unit_file(settings, name), hostreads.unit_state(settings, name)]
        # what is current by then isn't known before; a run that isn't dry asks the host when it comes to that
        synced = params.synced if view.check else None
        look = tree_look(settings, synced.ref, synced.dirty) if synced is not None else None
        return Probe(reads=tuple(reads), local={TREE: look} if look is not None else {})

    def plan(self, params: ServicesParams, view: View, seen: Seen) -> Plan:
        """Stops and removals first, then starts, then one wait for each."""
        if _nothing_to_renew(params, view.settings):
            return Plan(message="no service is to run")
        # as above
        from klops.actions.own.services.planning import planned

        return planned(params, view, seen)


def _nothing_to_renew(params: ServicesParams, settings: Settings) -> bool:
    """Whether the host needs no look: what isn't in the settings is never renewed."""
    return params.state == "renewed" and params.names is None and not settings.services
