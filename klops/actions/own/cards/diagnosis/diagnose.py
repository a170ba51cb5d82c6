"""The step that tests cards: ranks in the container, one a card, and what their answers come to."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from klops.actions.base import Change, Context, Progress, Step
from klops.actions.own import hostreads, hostview
from klops.actions.own.agentverbs import MARGIN
from klops.actions.own.cards import choosing, remedy, report
from klops.actions.own.cards.diagnosis import asking
from klops.actions.own.cards.diagnosis.conclude import conclude
from klops.actions.own.cards.look import evidence
from klops.actions.own.cards.order import Order
from klops.actions.own.cards.record import document as record
from klops.actions.own.cards.record import notes
from klops.actions.own.cards.record.standing import Standing, look
from klops.actions.own.cards.report import Apart
from klops.actions.own.cards.resuming import resumed
from klops.actions.own.desired import smi_inside
from klops.actions.own.reap import looking
from klops.actions.own.services.others import judge_others
from klops.actions.own.services.wait import Lines
from klops.cards.evidence.findings import NOTE
from klops.cards.evidence.kernellog import KERNEL_LOG
from klops.cards.evidence.standings import standings
from klops.cards.xccl.results import FAIL, INCONCLUSIVE, PASS, UNKNOWN
from klops.errors import AgentError, Interrupted, KlopsError, TaskFailed
from klops.remote import whoami

if TYPE_CHECKING:
    from klops.actions.own.reap.findings import Look
    from klops.cards.evidence.findings import Finding
    from klops.inventory.settings import Settings
    from klops.remote.reads import Read

#: Codes of the agent for a test that can't be done here, which keeps nobody from starting a service.
CANT = ("no-torch", "env-script", "usage")
#: What the step returns where nothing was tested, and so nothing changed.
UNTESTED = "untested"
#: Seconds that a scan is given at least: the agent takes no request without any, and says what it left out.
_LEAST = 1.0


def reads(settings: Settings) -> tuple[Read, ...]:
    """Everything that a diagnosis looks at before it tests, and that cards are judged by after it."""
    own = (*evidence.reads(settings), *hostreads.quarantine(settings), *choosing.reads(settings))
    return tuple({read.key: read for read in own}.values())


@dataclass(frozen=True)
class Diagnose(Step):
    """Test cards that nobody uses, and write down what came of it."""

    settings: Settings
    order: Order
    why: str = ""

    def change(self) -> Change:
        """The cards, and why."""
        listed = ", ".join(map(str, self.order.cards))
        return Change(f"test card {listed} by collectives" + (f" ({self.why})" if self.why else ""))

    def carry_out(self, ctx: Context) -> Mapping[str, Any]:
        """Test. Raises TaskFailed with all values when what was asked for isn't so."""
        try:
            return self._test(ctx)
        except KlopsError as error:
            raise resumed(ctx, self.settings, self.order.ready, error) from error

    def _test(self, ctx: Context) -> Mapping[str, Any]:
        order, settings = self.order, self.settings
        begun = time.monotonic()
        ctx.progress(Progress("looking at the cards"))
        looks = reads(settings)
        replies = ctx.remote.read(looks, timeout=evidence.deadline(looks))
        host = hostview.look(replies, settings)
        standing = look(settings, host, replies)
        seen, why = looking.around(ctx.remote, settings)
        blind = why if seen is None else seen.narrowed
        if blind and order.force:
            ctx.warn(f"whether somebody else holds a card could not be looked at: {blind}")
        self._refuse_others(ctx, seen)
        found = evidence.findings(
            replies,
            settings,
            host,
            held=None if seen is None else seen.held(),
            wanted=settings.cards.identities,
            learned=host.learned,
        )
        apart = self._apart(standing, found, "" if order.force else blind)
        cards = [index for index in order.cards if index not in apart or not apart[index].left]
        links = evidence.links(replies).links
        bad = [
            one.index
            for one in standing.cards
            if one.used and one.index not in cards and (one.out or _failed(apart.get(one.index)))
        ]
        unlike = asking.misfit(host.baseline, standing)
        learned = None if unlike else host.baseline
        if unlike and order.purpose != "learned":
            ctx.warn(f"bandwidths are not compared with what was learned: {unlike}; {asking.anew(ctx.view)}")
        request = self._request(ctx, learned, standing, cards, bad, links)
        asked = time.monotonic()
        said = self._ask(ctx, request) if cards else {}
        if said is None:
            return {UNTESTED: True}
        if order.scan and cards:
            return scanned(said, standing, order, ctx.view.host, settings.cards.probe.needed)
        result = report.report(said, standing, apart, links, learned)
        result = report.unadvised(result) if order.asked else result
        result["findings"] = report.findings(found)
        if not (said.get("diagnosis") or {}).get("verdict"):
            # nothing new is known, so what is on record stays
            nothing = _nothing_tested(order, result, ctx.view.host)
            if order.purpose != "usable":
                raise nothing
            ctx.warn(nothing.message)
            return {UNTESTED: True}
        # by the host's clock, as far as that is known
        at = None if standing.now is None else round(standing.now + time.monotonic() - begun, 3)
        result["at"] = at
        result["cards"] = [{**card, "at": at} if card["tested"] else card for card in result["cards"]]
        result["quarantine"] = notes.shown(self._record(ctx, standing, result, at), standing)
        try:
            if order.purpose == "learned" and (order.force or report.failure(result, ctx.view.host) is None):
                result["scan"] = self._scan(ctx, request, result, time.monotonic() - asked)
            return conclude(ctx, settings, order, standing, result)
        except KlopsError:
            # whatever it came to, it is written down
            ctx.done.append(self.change())
            raise

    def _refuse_others(self, ctx: Context, seen: Look | None) -> None:
        """For services: whoever holds one of the cards that they are to get is in their way."""
        order = self.order
        wanted = frozenset(index for group in order.first for index in group)
        if order.purpose == "usable" and seen is not None:
            held = judge_others(seen, wanted, order.begin, f"klops reap {ctx.view.host}")
            if held is not None:
                raise held

    def _apart(self, standing: Standing, found: Sequence[Finding], blind: str) -> dict[int, Apart]:
        """What is to be said of cards without a test; those that can't be tested are left out of it.

        Lines of the kernel log may be a program's fault as well: they are told beside what the test says.
        ``blind``: why it could not be seen who holds them. None is tested then: a stranger's program that has
        only just begun uses no memory yet, and nothing else tells of it.
        """
        told = [replace(one, severity=NOTE) if one.kind == KERNEL_LOG else one for one in found]
        apart = {}
        for index, one in standings([state.index for state in standing.cards], told).items():
            logged = tuple(line.text for line in told if (line.kind, line.card) == (KERNEL_LOG, index))
            if logged:
                apart[index] = Apart(PASS, "", logged)
            if one.state != "usable":
                verdict = one.verdict if one.state == "suspicious" or one.verdict == FAIL else UNKNOWN
                left = one.state == "untestable"
                apart[index] = Apart(verdict, one.reason, one.evidence, one.action, left)
        if blind:
            unseen = Apart(UNKNOWN, f"whether somebody holds it could not be seen: {blind}", left=True)
            told_of = [index for index, one in apart.items() if one.left]
            apart.update({one.index: unseen for one in standing.cards if one.index not in told_of})
        for index, why in self.order.leave.items():
            apart[index] = Apart(UNKNOWN, why, left=True)
        return apart

    def _request(
        self,
        ctx: Context,
        learned: Mapping[str, Any] | None,
        standing: Standing,
        cards: Sequence[int],
        bad: Sequence[int],
        links: Mapping[tuple[int, int], str],
    ) -> dict[str, Any]:
        """What the agent is asked."""
        order, settings = self.order, self.settings
        aim = asking.aim(
            settings,
            order.wanted,
            cards,
            first=order.first,
            links=links,
            baseline=learned,
            serial=order.serial,
            full=order.full,
            bad=bad,
            serving=standing.serving,
        )
        service = next((one.name for one in order.wanted if one.name in settings.services), "")
        return asking.request(
            settings,
            standing,
            aim,
            run=ctx.view.run,
            budget=order.budget,
            scan=order.scan,
            smi=smi_inside(settings),
            service=service,
        )

    def _ask(self, ctx: Context, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Have the agent test; None where it can't, which keeps nobody from going on as before."""
        try:
            return ask(ctx, self.settings, request)
        except Interrupted as error:
            # the remote names the command; what it says of what it left is worth keeping
            left = error.message.partition("was interrupted")[2] or "; nothing of it is left"
            again = remedy.again(ctx.view.host, self.order)
            raise Interrupted(f"the diagnosis was interrupted{left}", hint=again) from error
        except AgentError as error:
            if self.order.purpose != "usable" or error.code not in CANT:
                raise
            hint = f" ({error.hint})" if error.hint else ""
            ctx.warn(f"whether the cards work is not known, they could not be tested: {error.message}{hint}")
            return None

    def _scan(
        self, ctx: Context, request: Mapping[str, Any], result: Mapping[str, Any], spent: float
    ) -> list[Mapping[str, Any]]:
        """Rows of a scan, to be learned, in the time that the diagnosis has left; that came to ``result``.

        ``spent``: seconds that are gone. Raises TaskFailed where not all groups did well; with force those
        that did are learned.
        """
        left = max(_LEAST, float(request["budget"]) - spent)
        said = self._ask(ctx, {**request, "scan": True, "budget": left}) or {}
        failure = _scan_failure(said, self.order, ctx.view.host, self.settings.cards.probe.needed)
        if failure is not None and not self.order.force:
            raise failure.but(message=f"nothing was learned: {failure.message}", values=result)
        if failure is not None:
            ctx.warn(f"not of all sizes of groups it was learned how fast they are: {failure.message}")
        failed = [one["world"] for one in said.get("failed") or ()]
        return [row for row in said.get("scan") or () if row["world"] not in failed]

    def _record(
        self, ctx: Context, standing: Standing, result: Mapping[str, Any], at: float | None
    ) -> list[dict[str, Any]]:
        """Write down the verdict, and which cards it keeps out; returns the notes in force then."""
        by, run = whoami.user(), ctx.view.run
        # who learns looks whether a host does well: right after a diagnosis that is no second opinion
        counts = self.order.purpose != "learned"
        document, count = record.document(result, standing, by=by, run=run, at=at, counts=counts)
        add, lift = notes.after(self.settings, standing, result, count, by=f"klops ({by})", run=run, at=at)
        return notes.write(ctx, self.settings, {"verdict": document, "add": add, "lift": lift})


def _failed(apart: Apart | None) -> bool:
    return apart is not None and apart.verdict == FAIL


def ask(ctx: Context, settings: Settings, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the agent's ``xccl`` says. Raises AgentError with its own words."""
    lines, errors = Lines(), list[bytes]()

    def show(piece: bytes) -> None:
        for said in lines.feed(piece):
            if said.get("progress"):
                percent = said.get("percent")
                known = isinstance(percent, (int, float))
                ctx.progress(Progress(str(said["progress"]), float(percent or 0) if known else None))

    rc = ctx.remote.stream(
        hostreads.agent_argv(settings, "xccl", "--while-stdin", stdin=True),
        on_stdout=show,
        on_stderr=errors.append,
        stdin=json.dumps(request).encode() + b"\n",
        timeout=float(request["budget"]) + float(request["start_timeout"]) + MARGIN,
        # it ends with whoever asked: ranks are not to outlive that
        keep_stdin=True,
    )
    result, error = lines.last.get("result"), lines.last.get("error")
    if isinstance(result, Mapping):
        return result
    if isinstance(error, Mapping):
        code = str(error.get("code") or AgentError.code)
        hint = str(error.get("hint") or f"klops doctor xccl {ctx.view.host} tests again")
        raise AgentError(str(error.get("message")), hint=hint, code=code)
    said = b"".join(errors).decode("utf-8", "replace").strip().splitlines() or [f"status {rc}"]
    raise AgentError(
        f"the cards could not be tested: {said[-1]}", hint=f"klops doctor xccl {ctx.view.host} tests again"
    )


def scanned(
    said: Mapping[str, Any], standing: Standing, order: Order, host: str, needed: int
) -> Mapping[str, Any]:
    """The values of a scan: no verdict, and nothing of it is kept.

    Raises TaskFailed where a group failed, there was no time for one, or none ran. ``needed``: so many
    failures of a group's runs count.
    """
    cards = report.listed(standing)
    values = {
        "cards": cards,
        "scan": [dict(one) for one in said.get("scan") or ()],
        "scan_failed": [dict(one) for one in said.get("failed") or ()],
        "scan_untested": list(said.get("untested") or ()),
        "scope": INCONCLUSIVE,
        "summary": _scan_told(said, needed) or "all groups ran",
        **{key: said.get(key) for key in report.TOLD},
    }
    failure = _scan_failure(said, order, host, needed)
    if failure is not None:
        raise failure.but(values=values)
    again = f"klops doctor xccl {host}"
    if not values["scan"]:
        nothing = "nothing was measured: fewer than two cards were free"
        hint = "; ".join(remedy.busy(host, cards, again)) or f"{again} says why"
        raise TaskFailed(nothing, code="cards-unknown", hint=hint).but(values={**values, "summary": nothing})
    return values


def _scan_told(said: Mapping[str, Any], needed: int) -> str:
    """What did not go well in a scan, "" for nothing. What failed so often that it counts comes last."""
    failed = said.get("failed") or ()
    untested = ", ".join(map(str, said.get("untested") or ()))
    told = [f"there was no time for {untested} ranks"] if untested else []
    told += [
        f"a group of {one['world']} cards failed in {one['failures']} of {one['runs']} runs"
        for one in failed
        if one["failures"] < needed
    ]
    counted = ", ".join(str(one["world"]) for one in failed if one["failures"] >= needed)
    return "; ".join([*told, *([f"groups of {counted} cards failed"] if counted else [])])


def _scan_failure(said: Mapping[str, Any], order: Order, host: str, needed: int) -> TaskFailed | None:
    """The error of a scan in which not all groups did well, None where all did."""
    text = _scan_told(said, needed)
    failed = said.get("failed") or ()
    if failed:
        counted = [one for one in failed if one["failures"] >= needed]
        first = (counted or failed)[0]
        text = f"{text}: {first['error'] or first['status']}"
        hint = f"klops doctor xccl {host} finds which card or link is to blame"
        return TaskFailed(text, code="cards-group" if counted else "cards-inconclusive", hint=hint)
    if text:
        hint = f"{remedy.again(host, order)} --budget SECONDS gives it more time"
        return TaskFailed(text, code="cards-unknown", hint=hint)
    return None


def _nothing_tested(order: Order, result: Mapping[str, Any], host: str) -> TaskFailed:
    cards = [card for card in result["cards"] if card["index"] in order.cards]
    nothing = "no card could be tested"
    text = f"{nothing}: {'; '.join(report.alike(cards))}"
    hint = remedy.untested(host, order, cards)
    values = {**result, "summary": nothing}
    return TaskFailed(text, code="cards-unknown", hint=hint).but(values=values)
