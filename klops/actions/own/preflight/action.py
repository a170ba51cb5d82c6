"""``klops.preflight``: is this host fit for what its settings ask? Looks only; there is nothing to change."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from klops.actions.base import Action, Params, Plan, Probe, Seen, View
from klops.actions.own import hostreads, hostview
from klops.actions.own.cards import choosing
from klops.actions.own.cards.size import Size
from klops.actions.own.findings import Finding, failure, warnings
from klops.actions.own.preflight.cards import card_findings, choice_findings
from klops.actions.own.preflight.host import (
    docker_findings,
    image_findings,
    image_reads,
    port_findings,
    port_reads,
    secret_findings,
    space_findings,
    space_reads,
)
from klops.actions.own.preflight.models import model_findings, model_reads


class MinFree(BaseModel):
    """GiB that must be free where klops' files go (``root``) and where docker keeps its own (``docker``)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    root: float = Field(default=1.0, ge=0)
    docker: float = Field(default=5.0, ge=0)


class PreflightParams(Params):
    """``min_free_gib``: what must be free, by place; ``tp``: that of this run, whatever the settings say."""

    min_free_gib: MinFree = MinFree()
    tp: Size = None


class Preflight(Action[PreflightParams]):
    """Checks docker, cards, models, ports, image and space, and reports everything that is wrong at once."""

    name: ClassVar[str] = "klops.preflight"
    params = PreflightParams

    def probe(self, params: PreflightParams, view: View) -> Probe:
        """Everything in one go: no check waits for another's answer."""
        settings = view.settings
        return Probe(
            reads=(
                *hostreads.host(settings),
                hostreads.pids(settings),
                hostreads.nodes(settings),
                *hostreads.cards(settings),
                *space_reads(settings),
                *image_reads(settings),
                *model_reads(settings),
                *choosing.reads(settings),
                *port_reads(),
            )
        )

    def plan(self, params: PreflightParams, view: View, seen: Seen) -> Plan:
        """All findings as one failure, or a line that says what was found."""
        settings = view.settings
        host = hostview.look(seen.replies, settings)
        findings: list[Finding] = []
        trouble = host.trouble()
        if trouble is not None:
            findings.append(Finding(trouble.code, trouble.message, trouble.hint))
        else:
            findings += docker_findings(settings, seen.replies)
            findings += image_findings(settings, host, seen.replies)
        findings += card_findings(settings, host, seen.replies, params.tp)
        findings += [*choice_findings(settings, host, seen.replies, params.tp), *secret_findings(settings)]
        findings += model_findings(settings, host, seen.replies)
        findings += port_findings(settings, host, seen.replies)
        least = params.min_free_gib
        findings += space_findings(settings, host, seen.replies, root=least.root, docker=least.docker)
        used = settings.cards.indexes
        return Plan(
            message=f"{len(used)} card(s) in use, {len(settings.services)} service(s)",
            result={"cards": [card.as_json() for card in host.cards.cards], "cards_from": host.cards_from},
            failure=failure(findings),
            warnings=warnings(findings),
        )
