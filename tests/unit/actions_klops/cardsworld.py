"""A host with cards of which some are bad, as klops.cards asks it: the agent's verbs act on what it keeps."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from klops.actions.base import Plan, Seen, View
from klops.actions.catalog import catalog
from klops.cards.record import quarantine
from klops.cards.xccl.planning.plan import diagnose
from klops.cards.xccl.results import ERROR, OK, TIMEOUT, Aim, Batch, Diagnosis, Outcome, Sample
from klops.inventory.settings import Settings
from klops.remote.base import Reply
from klops.remote.fake import Call, FakeRemote, reply
from klops.yamlsource import load_file, to_python

from .support import Stage

BASE = Path(__file__).parents[2] / "cases" / "_klops_host.yml"
NOW = 1700000100.0


def _given() -> dict[str, Any]:
    found = to_python(load_file(BASE))
    assert isinstance(found, dict)
    return found


@dataclass
class World:
    """``bad`` cards time out in every collective, ``links`` fail between two cards, ``groups`` of a size."""

    bad: set[int] = field(default_factory=set)
    links: set[frozenset[int]] = field(default_factory=set)
    size: int = 0
    cards: Mapping[str, Any] = field(default_factory=dict)
    services: Mapping[str, Any] = field(default_factory=dict)
    state: str = "stopped"
    #: what the agent answers to ``xccl`` instead of testing
    refuses: Mapping[str, Any] | None = None
    verdict: dict[str, Any] = field(default_factory=dict)
    baseline: dict[str, Any] = field(default_factory=dict)
    notes: list[Any] = field(default_factory=list)
    boot: str = "b0"
    now: float = NOW
    #: what was asked of the agent, verb by verb
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    stage: Stage = field(default_factory=Stage)
    over: dict[str, Reply] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given = _given()
        self._replies = given["replies"]
        for key in ("smi.m", "smi.q"):  # nobody uses them
            self._replies[key] = self._replies[key].replace("90440", "4")
        settings = copy.deepcopy(given["settings"])
        settings["cards"] = dict(self.cards)
        for name, service in self.services.items():
            settings["services"][name] = {**settings["services"].get(name, {}), **service}
        self.stage.settings = Settings.model_validate(settings)
        self.units = json.loads(self._replies["agent.status"])["units"]
        self.unit.update(state=self.state)
        if self.state == "stopped":
            self.unit.update(desired="stopped", cpid=None, lineage=[])
        remote = self.stage.remote
        remote.on(lambda call: call.read is not None, lambda call: self.answer(call.read.key))  # type: ignore[union-attr]
        for verb, act in (("xccl", self._xccl), ("note", self._note), ("stop", self._stop)):
            remote.on(self._is(verb), act)

    @staticmethod
    def _is(verb: str) -> Callable[[Call], bool]:
        return lambda call: call.kind != "read" and verb in call.argv

    @property
    def remote(self) -> FakeRemote:
        return self.stage.remote

    @property
    def unit(self) -> dict[str, Any]:
        found: dict[str, Any] = self.units["main"]
        return found

    def runs(self, cards: Collection[int], state: str = "ready") -> None:
        """The service is up on these."""
        self.unit.update(state=state, desired="running", cards=list(cards), tp=len(cards), cpid=20)
        self.unit.update(lineage=[{"cpid": 20, "start": 200, "name": "vllm"}] if state != "failed" else [])

    def answer(self, key: str) -> Reply:
        """The reply of a read."""
        if key in self.over:
            return self.over[key]
        if key == "agent.status":
            status = json.loads(self._replies[key])
            kept = quarantine.in_force(self.notes, self.boot, self.now, lambda _: True)
            status.update(units=self.units, quarantine=kept, now=self.now, boot_id=self.boot, access=[])
            return reply(json.dumps(status))
        if key == "boot.id":
            return reply(self.boot)
        for name, document in (("cards.verdict", self.verdict), ("cards.baseline", self.baseline)):
            if key == name:
                return reply(json.dumps(document)) if document else reply(rc=44)
        if key == "reap":
            lists = ("processes", "unowned", "foreign", "unsupervised", "unseen", "observers", "units")
            return reply("helper c0 made\n" + json.dumps({name: [] for name in lists}) + "\n")
        given = self._replies.get(key, {"rc": 127})
        if isinstance(given, Mapping):
            return reply(given.get("stdout", ""), rc=given.get("rc", 0), stderr=given.get("stderr", ""))
        return reply(str(given))

    def plan(self, state: str, *, check: bool = False, **params: Any) -> Plan:
        """The plan of klops.cards."""
        return self.plan_of("klops.cards", check=check, state=state, **params)

    def plan_of(self, name: str, *, check: bool = False, **params: Any) -> Plan:
        """The plan of an action."""
        action = catalog()[name]
        view = View(
            host="h", settings=self.stage.settings, variables={}, render=str, check=check, run="run-1"
        )
        given = action.params(**params)
        keys = [read.key for read in action.probe(given, view).reads]
        assert len(keys) == len(set(keys)), keys
        return action.plan(given, view, Seen({key: self.answer(key) for key in keys}))

    def apply(self, state: str, **params: Any) -> dict[str, Any]:
        """Plan and carry out; the values of the task. Raises what the task fails with."""
        plan = self.plan(state, **params)
        if plan.failure is not None:
            raise plan.failure
        assert not plan.unknown, plan.unknown
        self.stage.warnings += plan.warnings
        return {**plan.result, **catalog()["klops.cards"].apply(plan, self.stage.ctx)}

    def start(self) -> list[int]:
        """What klops.services starts the service on; nothing is tested by that."""
        plan = self.plan_of("klops.services")
        if plan.failure is not None:
            raise plan.failure
        self.stage.warnings += plan.warnings
        cards: list[int] = plan.result["cards"]["main"]
        self.runs(cards)
        return cards

    def verbs(self, name: str) -> list[dict[str, Any]]:
        """What this verb was asked, in order."""
        return [given for verb, given in self.asked if verb == name]

    def _stop(self, call: Call) -> Reply:
        self.asked.append(("stop", {}))
        self.unit.update(state="stopped", desired="stopped", cpid=None, lineage=[])
        return reply(json.dumps({**self.unit, "memory": {"state": "back"}}))

    def _note(self, call: Call) -> Reply:
        given = json.loads(call.stdin)
        self.asked.append(("note", given))
        self.verdict = given.get("verdict", self.verdict)
        self.baseline = given.get("baseline", self.baseline)
        for order in given.get("lift", ()):
            self.notes = [
                one
                for one in self.notes
                if one["kind"] not in order["kinds"] or not quarantine.same_card(one["card"], order["card"])
            ]
        for one in given.get("add", ()):
            self.notes = quarantine.added(self.notes, one)
        return reply(
            json.dumps({"notes": quarantine.in_force(self.notes, self.boot, self.now, lambda _: True)})
        )

    def _xccl(self, call: Call) -> Reply:
        given = json.loads(call.stdin)
        self.asked.append(("xccl", given))
        if self.refuses is not None:
            return reply(json.dumps({"error": self.refuses}) + "\n", rc=1)
        if given["scan"]:
            rows = [{"world": world, "bytes": 2600000, "us": 100.0, "algbw": 26.0} for world in (2, 4, 8)]
            return reply(json.dumps({"result": {"scan": rows, "failed": []}}) + "\n")
        found, formed = self.diagnosis(Aim.of(given["aim"]))
        result = {
            "diagnosis": found.as_json(),
            "collectives_run": formed,
            "rank_processes": len(given["cards"]),
            "renewed": 0,
            "order": [],
            "left": [],
        }
        progress = {"progress": "all 8 cards together", "percent": 50.0}
        return reply(json.dumps(progress) + "\n" + json.dumps({"result": result}) + "\n")

    def diagnosis(self, aim: Aim) -> tuple[Diagnosis, int]:
        """The real plan and the real verdict over these cards; and how many groups were formed."""
        formed = 0
        steps = diagnose(aim)
        batch = next(steps)
        while True:
            formed += sum(not test.single for test in batch.tests)
            try:
                batch = steps.send(self._outcomes(batch))
            except StopIteration as end:
                return end.value, formed

    def _outcomes(self, batch: Batch) -> list[Outcome]:
        return [self._outcome(test.cards) for test in batch.tests]

    def _outcome(self, cards: tuple[int, ...]) -> Outcome:
        silent = tuple(card for card in cards if card in self.bad)
        if silent:
            return Outcome(cards, TIMEOUT, "collective", "no answer within 20 s", silent=silent, failures=1)
        broken = any(link <= {*cards} for link in self.links)
        if broken or (self.size and len(cards) == self.size):
            return Outcome(cards, ERROR, "init", "RuntimeError: it failed", told=cards, failures=1)
        return Outcome(cards, OK, samples=(Sample(2600000, 10, us=135.0), Sample(1 << 24, 10, us=900.0)))
