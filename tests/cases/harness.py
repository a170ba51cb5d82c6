"""Case tests of actions: one file a case, parameters and what the host reports in, expected steps out.

A case, ``tests/cases/<action>/<case>.yml``::

    action: copy
    params: {src: motd, dest: /etc/motd}    # as in a playbook; templates are rendered
    settings: {}                            # the host's klops settings, as under `klops:` of an inventory
    variables: {}                           # of the host
    check: false
    files: {motd: "hello\\n"}                # files of the control node, by the path the action asks for
    local:                                  # what looks at the control node give, by their key
      tree: {files: {a.py: "A = 1"}}        # a tree of a repository, and what is noted on it
    replies:                                # by the key of the read; plain text is standard output, status 0
      digest: {rc: 44}
    steps: [...]                            # every step of the plan in one line; or
    changes: [...]                          # only those that change something; or
    failure: task-failed                    # the code of the failure; or
    unknown: text / skipped: text           # a piece of the reason, or true
    message: text                           # a piece of the message (of the failure, where there is one)
    warns: text                             # a piece of one of the plan's warnings; "": there are none
    result: {key: value}                    # a part of the plan's result
    then: {digest: ...}                     # what the host reports afterwards, over `replies`: no more
    changes not_idempotent: reason                  # instead of `then`

``base: FILE`` takes what isn't given from another file of the folder (mappings are merged in depth); files
whose names begin with ``_`` are no cases themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from klops.actions.base import Action, Plan, Seen, View
from klops.inventory.settings import Settings
from klops.inventory.validate import build_settings
from klops.playbook.params import read, render
from klops.playbook.template.scope import Layer, Scope
from klops.playbook.template.templar import Templar, scope
from klops.remote.base import Reply
from klops.yamlsource import MappingNode, Node, load_file, to_python
from tests.trees import written

HERE = Path(__file__).parent
OUTCOMES = ("steps", "changes", "failure", "unknown", "skipped")
GIVEN = ("action", "params", "settings", "variables", "check", "files", "local", "replies", "base")
KEYS = frozenset([*OUTCOMES, *GIVEN, "message", "warns", "result", "then", "not_idempotent"])


def cases() -> list[Path]:
    """All case files."""
    return sorted(path for path in HERE.glob("*/*.yml") if not path.name.startswith("_"))


@dataclass(frozen=True)
class Case:
    """One case file, read; ``nodes`` (parameters) and ``settings`` keep their places."""

    path: Path
    given: Mapping[str, Any]
    nodes: Mapping[str, Node]
    settings: Node | None

    @classmethod
    def load(cls, path: Path) -> Case:
        """Read a case and what it is based on."""
        root = load_file(path)
        assert isinstance(root, MappingNode), f"{path}: a case is a mapping"
        given = to_python(root)
        params = root.get("params")
        nodes = {key.text: node for key, node in params.entries} if isinstance(params, MappingNode) else {}
        settings = root.get("settings")
        if "base" in given:
            below = cls.load(path.parent / given.pop("base"))
            given = _merged(below.given, given)
            nodes = {**below.nodes, **nodes}
            settings = _merged_nodes(below.settings, settings)
        assert set(given) <= KEYS, f"{path}: unknown keys {sorted(set(given) - KEYS)}"
        return cls(path, given, nodes, settings)

    @property
    def name(self) -> str:
        """``action/case``."""
        return f"{self.path.parent.name}/{self.path.stem}"

    @cached_property
    def typed_settings(self) -> Settings:
        """The settings, once: to compare two would read their secrets, which a case may lack on purpose."""
        return build_settings(self.settings)

    def plan(self, action: Action[Any], replies: Mapping[str, Any]) -> Plan:
        """What the action plans when the host reports ``replies``."""
        variables: Scope = scope(Layer(self.given.get("variables") or {}, templates=True))
        templar = Templar(variables)
        params = render(action, read(action, self.nodes), templar)
        view = View(
            host="h",
            settings=self.typed_settings,
            variables=variables,
            render=templar.text,
            check=bool(self.given.get("check", False)),
        )
        probe = action.probe(params, view)
        keys = [wanted.key for wanted in probe.reads]
        assert len(keys) == len(set(keys)), f"two reads share a key: {keys}"
        missing = set(keys) - set(replies)
        assert not missing, f"replies lack {sorted(missing)}; the probe reads {keys}"
        for wanted in probe.reads:
            assert wanted.script, f"{wanted.key} renders to nothing"
        contents = self.given.get("files") or {}
        files = {key: contents[path].encode() for key, (_, path) in probe.files.items()}
        trees = self.given.get("local") or {}
        local = {key: written(**trees[key]) for key in probe.local}
        return action.plan(params, view, Seen({key: _reply(replies[key]) for key in keys}, files, local))


def _reply(given: Any) -> Reply:
    if isinstance(given, Mapping):
        assert set(given) <= {"rc", "stdout", "stderr"}, f"a reply has rc, stdout, stderr: {given}"
        out, err = str(given.get("stdout", "")), str(given.get("stderr", ""))
        return Reply(int(given.get("rc", 0)), out.encode(), err.encode())
    return Reply(0, str(given).encode())


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def _merged_nodes(below: Node | None, above: Node | None) -> Node | None:
    if not isinstance(below, MappingNode) or not isinstance(above, MappingNode):
        return above or below
    entries = {key.text: (key, value) for key, value in below.entries}
    for key, value in above.entries:
        entries[key.text] = (key, _merged_nodes(below.get(key.text), value) or value)
    return MappingNode(above.location, tuple(entries.values()))


def lines(plan: Plan, *, changing: bool) -> list[str]:
    """The plan's steps in one line each."""
    steps = [step for step in plan.steps if step.changes or not changing]
    return [change.what for step in steps for change in step.changed()]


def matches(expected: Any, reason: str) -> bool:
    """``true`` wants any reason, a text wants to be a piece of it."""
    return bool(reason) if expected is True else str(expected) in reason
