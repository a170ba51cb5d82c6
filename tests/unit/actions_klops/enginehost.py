"""A fake host with an engine that keeps containers, and an agent in them that keeps units."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from klops.actions.base import Context, Plan, Seen, View
from klops.actions.own.container.action import ContainerAction, ContainerParams
from klops.errors import KlopsError
from klops.inventory.settings import Settings
from klops.remote.base import Reply
from klops.remote.fake import Call, FakeRemote, reply
from klops.yamlsource import load_file, to_python

BASE = Path(__file__).parents[2] / "cases" / "_klops_host.yml"
OLD = "c0ffee0000000000000000000000000000000000000000000000000000000000"
NEW = "beef000000000000000000000000000000000000000000000000000000000000"
NAME, ASIDE, UNIT, ROOT = "klops", "klops.before-c0ffee000000", "main", "/data/klops"
RECORD = f"{ROOT}/recreation.json"
#: what a command is answered with in place of what it would do; called with whether it was carried out
Fault = Reply | KlopsError


@cache
def base() -> Any:
    return to_python(load_file(BASE))


def settings(**container: Any) -> Settings:
    """Those of the base, the container's with something that its container has not."""
    given = copy.deepcopy(base()["settings"])
    given["container"] |= {"env": {"ADDED": "1"}, "recreate": "allow", **container}
    return Settings.model_validate(given)


@dataclass
class Box:
    """A container."""

    id: str
    name: str
    state: str = "running"
    restart: str = "always"
    labels: dict[str, str] = field(default_factory=dict)


@dataclass
class EngineHost:
    """One host. ``faults``: what a command is (its :meth:`word`) -> how it goes wrong, once."""

    settings: Settings = field(default_factory=settings)
    faults: dict[str, Fault] = field(default_factory=dict)
    #: the fault comes after the command has had its effect
    late: bool = False
    boxes: dict[str, Box] = field(default_factory=dict)
    desired: str = "running"
    kept: str = ""
    adopted: bool = False
    #: cards that the old container was denied
    denied: tuple[str, ...] = ()
    #: the old container was made with --rm
    auto_remove: bool = False
    #: state of the unit in the new container before anybody waits for it
    new_state: str = "starting"
    #: the agent in the old container doesn't answer
    silent: bool = False
    #: state of a second unit, which is wanted too; "" for none
    second: str = ""
    #: the lock is not that of this run any more
    robbed: bool = False
    #: what reads are answered with in place of the base's, by key
    replies: dict[str, Reply] = field(default_factory=dict)
    #: takes the name as soon as it is free
    stranger: Box | None = None
    warnings: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    run: str = "run1"
    remote: FakeRemote = field(default_factory=lambda: FakeRemote("h"))

    def __post_init__(self) -> None:
        if not self.boxes:
            labels = json.loads(base()["replies"]["container"])[0]["Config"]["Labels"]
            self.boxes[OLD] = Box(OLD, NAME, labels={} if self.adopted else dict(labels))
        if self.adopted:
            record = {"schema": 1, "id": OLD, "name": NAME, "who": "me", "at": 1.0}
            self.remote.files[f"{ROOT}/adopted.json"] = (json.dumps(record).encode(), 0o644)
        self.remote.on(lambda call: True, self.answer)

    # -- for tests -------------------------------------------------------------------------------------------

    @property
    def ctx(self) -> Context:
        view = View(host="h", settings=self.settings, variables={}, render=str, run=self.run)
        return Context(self.remote, view, lambda _: None, self.warnings.append)

    def plan(self, recreate: Literal["report", "allow"] | None = None) -> Plan:
        action, params = ContainerAction(), ContainerParams(recreate=recreate)
        reads = action.probe(params, self.ctx.view).reads
        return action.plan(params, self.ctx.view, Seen(self.remote.read(reads)))

    def up(self, recreate: Literal["report", "allow"] | None = None) -> dict[str, Any]:
        """Plan and apply; raises what goes wrong."""
        ctx, plan = self.ctx, self.plan(recreate)
        if plan.failure is not None:
            raise plan.failure
        return ContainerAction().apply(plan, ctx)

    @property
    def shown(self) -> dict[str, tuple[str, str, str]]:
        """Containers by name: id, state, restart policy."""
        return {box.name: (box.id, box.state, box.restart) for box in self.boxes.values()}

    @property
    def recorded(self) -> bool:
        return RECORD in self.remote.files

    # -- what it answers -------------------------------------------------------------------------------------

    def named(self, name: str) -> Box | None:
        return next((box for box in self.boxes.values() if name in (box.name, box.id)), None)

    def word(self, argv: tuple[str, ...]) -> str:
        """A command in one or two words: ``rename old``, ``agent keep`` ..."""
        if argv[0] != "docker":
            return argv[0]
        if argv[1] == "exec":
            return "agent " + next(word for word in argv if word in VERBS)
        if argv[1] in ("create", "run", "commit"):
            return argv[1]
        target = argv[2] if argv[1] == "rename" else argv[-1]
        box = self.named(target)
        return f"{argv[1]} {'old' if box and box.id == OLD else 'new'}"

    def answer(self, call: Call) -> Reply:
        if call.kind == "read":
            assert call.read is not None
            return self.read(call)
        if call.kind == "put":
            self.words.append("put")
            return self.faulty("put", reply)
        word = self.word(call.argv)
        self.words.append(word)
        return self.faulty(word, lambda: self.carry_out(call))

    def faulty(self, word: str, work: Callable[[], Reply]) -> Reply:
        fault = self.faults.pop(word, None)
        done = work() if fault is None or self.late else reply()
        if isinstance(fault, KlopsError):
            raise fault
        return fault or done

    def read(self, call: Call) -> Reply:
        assert call.read is not None
        key = call.read.key
        if key in self.replies:
            return self.replies[key]
        if key == "lock":
            lock = {"schema": 1, "who": "me", "from": "here", "boot_id": "b", "expires": 60, "taken": 0}
            return reply(json.dumps(lock | {"run": "other" if self.robbed else self.run}))
        if key == "container":
            box = self.named(call.text.split()[-1])
            if box is None:
                return reply(rc=1, stderr="Error: No such container")
            shown = json.loads(base()["replies"]["container"])[0]
            shown |= {"Id": box.id, "Name": f"/{box.name}", "State": {"Status": box.state}}
            shown["Config"] |= {"Labels": box.labels}
            shown["HostConfig"]["RestartPolicy"] = {"Name": box.restart}
            shown["HostConfig"]["AutoRemove"] = self.auto_remove
            if box.id != OLD:
                shown["Config"]["Env"] = [*shown["Config"]["Env"], "ADDED=1"]
            return reply(json.dumps([shown]))
        if key == "agent.status":
            return self.status()
        if key == "about":
            return reply('{"python": "3.10", "agent": "a"}')
        if key in ("recreation", "adopted"):
            found = self.remote.files.get(f"{ROOT}/{'recreation' if key == 'recreation' else 'adopted'}.json")
            return reply(found[0]) if found else reply(rc=44)
        given = base()["replies"].get(key, {"rc": 1})
        return reply(**given) if isinstance(given, dict) else reply(given)

    def status(self) -> Reply:
        box = self.named(NAME)
        if box is None or box.state != "running":
            return reply(rc=1, stderr="Error response from daemon: is not running")
        if self.silent and box.id == OLD:
            return reply(rc=1, stderr="no agent there")
        known = json.loads(base()["replies"]["agent.status"])
        known["units"][UNIT] |= {"desired": self.desired, "state": "ready"}
        if box.id != OLD:
            known["units"][UNIT]["state"] = self.new_state
        if self.desired == "stopped":
            known["units"][UNIT]["state"] = "stopped"
        if self.second:
            known["units"]["second"] = known["units"][UNIT] | {"desired": "running", "state": self.second}
        if box.id == OLD:
            error = {"error": "Operation not permitted", "fault": "container"}
            known["access"] = [{"node": node, **error} for node in self.denied]
        if "no agent" in self.faults and box.id != OLD:
            known["supervisor"] = None
        return reply(json.dumps(known))

    def carry_out(self, call: Call) -> Reply:
        argv = call.argv
        if argv[0] == "rm":
            for path in argv[argv.index("--") + 1 :]:
                self.remote.files.pop(path, None)
            return reply()
        if argv[0] != "docker":
            return reply()
        if argv[1] == "exec":
            return self.agent(self.word(argv).partition(" ")[2])
        if argv[1] == "create":
            taken = self.named(NAME)
            if taken is not None:
                text = f'Conflict. The container name "/klops" is already in use by container "{taken.id}"'
                return reply(rc=1, stderr=text)
            labels = dict(word.split("=", 1) for word in argv if word.startswith("io.klops."))
            self.boxes[NEW] = Box(NEW, NAME, "created", labels=labels)
            return reply(NEW + "\n")
        if argv[1] in ("run", "commit", "logs"):
            return reply('klops-python {"version": [3, 10, 1], "psutil": "5.9", "why": ""}\n')
        box = self.named(argv[2] if argv[1] == "rename" else argv[-1])
        if box is None:
            return reply(rc=1, stderr="Error: No such container")
        return self.change(box, argv)

    def change(self, box: Box, argv: tuple[str, ...]) -> Reply:
        if argv[1] == "start":
            other = next((b for b in self.boxes.values() if b is not box and b.state == "running"), None)
            assert other is None, "two containers run at once"
            box.state = "running"
        elif argv[1] == "stop":
            box.state = "exited" if box.state != "created" else box.state
        elif argv[1] == "rm":
            if box.state == "running":
                return reply(rc=1, stderr="You cannot remove a running container")
            del self.boxes[box.id]
        elif argv[1] == "rename":
            if self.named(argv[3]) is not None:
                return reply(rc=1, stderr="Conflict")
            box.name = argv[3]
            if self.stranger is not None:
                self.boxes[self.stranger.id] = self.stranger
        elif argv[1] == "update":
            box.restart = argv[argv.index("--restart") + 1]
        return reply()

    def agent(self, verb: str) -> Reply:
        box = self.named(NAME)
        if box is None or box.state != "running" or (self.silent and box.id == OLD):
            return reply(rc=1, stderr="is not running")
        if verb == "keep":
            self.kept = self.desired
            wanted = [UNIT] if self.desired == "running" else []
            return reply(json.dumps({"units": [*wanted, *(["second"] if self.second else [])]}))
        if verb == "stop":
            self.desired = "stopped"
        elif verb == "bring-back":
            if not self.kept:
                error = {"code": "nothing-kept", "message": "nothing was kept", "hint": ""}
                return reply(json.dumps({"error": error}), rc=1)
            self.desired = self.kept
        elif verb == "forget-kept":
            self.kept = ""
        elif verb == "stack":
            return reply('{"done": {"changed": []}}\n')
        elif verb == "wait":
            if box.id != OLD and "unit" in self.faults:
                known = {"state": "failed", "error": {"message": "no memory"}, "log": ["last words"]}
                return reply(json.dumps(known) + "\n", rc=1)
            return reply('{"state": "ready"}\n')
        return reply("{}")


VERBS = frozenset(["keep", "stop", "start", "bring-back", "forget-kept", "wait", "quit", "stack"])
