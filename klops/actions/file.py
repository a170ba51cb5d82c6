"""``file``: folders, links, absence, and the attributes of what is there.

.. code-block:: yaml

    - file: {path: /data/models, state: directory, mode: "0755", owner: root}
    - file: {path: /data/current, src: /data/models/v2, state: link}
"""

from __future__ import annotations

import posixpath
from typing import Literal

from pydantic import AliasChoices, Field, field_validator, model_validator

from klops.actions.base import Action, Plan, Probe, Seen, Step, View
from klops.actions.ownership import Owned, reads, steps
from klops.actions.steps import MakeDirectory, MakeLink, Remove, Touch
from klops.commands.listing import Entry, parse
from klops.errors import TaskFailed
from klops.remote.reads import ListRead


class FileParams(Owned):
    """``state`` left out: what is there keeps its kind. ``src`` is the target of a link."""

    path: str = Field(validation_alias=AliasChoices("path", "dest", "name"))
    state: Literal["absent", "directory", "file", "link", "touch"] | None = None
    src: str | None = None

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: str) -> str:
        if not path.startswith("/"):
            raise ValueError(f"{path!r} is not an absolute path")
        return posixpath.normpath("/" + path.lstrip("/"))

    @model_validator(mode="after")
    def _source_of_a_link(self) -> FileParams:
        if (self.state == "link") != (self.src is not None):
            raise ValueError("src and state: link go together")
        if self.state == "absent" and self.path == "/":
            raise ValueError("/ is not removed")
        return self


class File(Action[FileParams]):
    """Kind and attributes of one path."""

    name = "file"
    params = FileParams

    def probe(self, params: FileParams, view: View) -> Probe:
        """The path itself, and what it leads to when it is a link."""
        path = (params.path,)
        return Probe((ListRead("path", path), ListRead("target", path, follow=True), *reads(params)))

    def plan(self, params: FileParams, view: View, seen: Seen) -> Plan:
        """Make, link or remove, then the attributes."""
        own = parse(seen.replies["path"].text).get(params.path)
        target = parse(seen.replies["target"].text).get(params.path)
        made = _make(params, own, target)
        there = None if made and not isinstance(made[0], Touch) else target
        attributes: list[Step] = []
        if params.state not in ("absent", "link"):
            attributes = steps(
                params, params.path, there, seen, mode_is_set=isinstance(_first(made), MakeDirectory)
            )
        kind = params.state if params.state not in (None, "touch") else (target.type if target else "file")
        return Plan((*made, *attributes), result={"path": params.path, "dest": params.path, "state": kind})


def _first(steps: list[Step]) -> Step | None:
    return steps[0] if steps else None


def _make(params: FileParams, own: Entry | None, target: Entry | None) -> list[Step]:
    """The step that gives the path its kind, if one is needed."""
    path, state = params.path, params.state
    if state == "absent":
        return [Remove(path, own.type)] if own else []
    if state == "touch":
        return [Touch(path)]
    if state == "link":
        return _link(path, params.src or "", own)
    if state == "directory":
        if target is None:
            mode = params.mode if params.mode is not None else 0o755
            return [MakeDirectory(path, mode)]
        if target.type != "directory":
            raise _other_kind(path, target, "a folder")
        return []
    if target is None:
        hint = "state: touch makes an empty file; copy and template make one with content"
        raise TaskFailed(f"{path} does not exist", hint=hint, code="absent")
    if state == "file" and target.type == "directory":
        raise _other_kind(path, target, "a file")
    return []


def _link(path: str, src: str, own: Entry | None) -> list[Step]:
    if own is None:
        return [MakeLink(path, src)]
    if own.type != "link":
        raise _other_kind(path, own, "a link")
    return [] if own.target == src else [MakeLink(path, src, own.target)]


def _other_kind(path: str, entry: Entry, wanted: str) -> TaskFailed:
    return TaskFailed(
        f"{path} is a {entry.type}, not {wanted}",
        hint="remove it first, with a task of its own: state: absent",
    )
