"""``file``: folders, links, absence, and the attributes of what is there.

.. code-block:: yaml

    - file: {path: /data/models, state: directory, mode: "0755", owner: root, recurse: true}
    - file: {path: /data/current, src: /data/models/v2, state: link}
    - file: {path: /run/klops.flag, state: touch, access_time: preserve, modification_time: preserve}
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import AliasChoices, Field, field_validator, model_validator

from klops.actions.base import Action, Context, Plan, Probe, Seen, Step, View
from klops.actions.files import filekinds, filetree
from klops.actions.files.attributes import Found, found
from klops.actions.files.content import absolute, finished
from klops.actions.files.filesteps import Touch
from klops.actions.files.ownership import REFUSED, Owned, reads, steps
from klops.remote.reads import PathRead, Read, RealPathRead, SameFileRead, TimesRead, TreeRead

#: how ``touch -t`` writes a time, and how Ansible does when nothing else is said
TIME_FORMAT = "%Y%m%d%H%M.%S"


class FileParams(Owned):
    """``state`` left out: what is there keeps its kind. ``src`` is the target of a link.

    ``follow``: attributes of what a link leads to. Times: ``now``, ``preserve``, or the host's local time in
    the format given.
    """

    path: str = Field(validation_alias=AliasChoices("path", "dest", "name"))
    state: Literal["absent", "directory", "file", "hard", "link", "touch"] | None = None
    src: str | None = None
    force: bool = False
    follow: bool = True
    recurse: bool = False
    access_time: str | None = None
    access_time_format: str = TIME_FORMAT
    modification_time: str | None = None
    modification_time_format: str = TIME_FORMAT

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: str) -> str:
        return absolute(path).rstrip("/") or "/"

    @model_validator(mode="after")
    def _fit_together(self) -> FileParams:
        if self.src is not None and self.state not in ("link", "hard"):
            raise ValueError("src goes with state: link or state: hard")
        if self.state == "hard" and self.src is not None and not self.src.startswith("/"):
            raise ValueError(f"{self.src!r} is not an absolute path")
        if self.recurse and self.state not in ("directory", None):
            raise ValueError("recurse goes with state: directory")
        if self.recurse and (self.access_time or self.modification_time):
            raise ValueError("recurse sets no times: use command: find ... -exec touch")
        if self.recurse and "follow" in self.model_fields_set and self.follow:
            raise ValueError(
                "recurse never leaves the folder: name what its links lead to in a task of its own"
            )
        if self.state == "absent" and posixpath.normpath("/" + self.path.lstrip("/")) == "/":
            raise ValueError("/ is not removed")
        for given, form in (
            (self.access_time, self.access_time_format),
            (self.modification_time, self.modification_time_format),
        ):
            _touch_time(given, form, "preserve")
        return self

    @property
    def times(self) -> tuple[str, str]:
        """Wanted access and modification time: now, preserve, or as ``touch -t`` takes it."""
        default = "now" if self.state == "touch" else "preserve"
        return (
            _touch_time(self.access_time, self.access_time_format, default),
            _touch_time(self.modification_time, self.modification_time_format, default),
        )


class File(Action[FileParams]):
    """Kind and attributes of one path."""

    name = "file"
    params = FileParams
    refused: ClassVar[Mapping[str, str]] = REFUSED

    def probe(self, params: FileParams, view: View) -> Probe:
        """The path itself, and what it leads to when it is a link."""
        path = params.path
        asked: list[Read] = [PathRead("path", (path,)), *reads(params)]
        if params.state != "absent" and params.follow:
            asked.append(RealPathRead("real", path))
        if params.state == "hard" and params.src is not None:
            asked += [PathRead("src", (params.src,)), SameFileRead("same", path, params.src)]
        if params.state == "link" and params.src is not None and not params.force:
            asked.append(PathRead("src", (posixpath.join(posixpath.dirname(path), params.src),)))
        if params.recurse:
            asked.append(TreeRead("tree", path))
        if set(params.times) != {"preserve"} and set(params.times) != {"now"}:
            asked.append(TimesRead("times", path))
        return Probe(tuple(asked))

    def plan(self, params: FileParams, view: View, seen: Seen) -> Plan:
        """Make, link or remove, then the attributes."""
        there = found(seen.replies["path"])
        state = _state(params, there)
        if state == "absent":
            return Plan(filekinds.absent(params.path, there), result={"path": params.path, "state": "absent"})
        if state in ("link", "hard"):
            return self._linked(params, state, there, seen)
        path = params.path
        if there.state == "link" and params.follow:
            path = seen.replies["real"].text.removesuffix("\n") or path
            there = there.followed
        made: list[Step] = []
        attributes: list[Step] = []
        if state == "directory":
            made = filekinds.directory(params, path, there, seen)
        elif state == "file":
            filekinds.expect_file(path, there)
        if not (made and state == "directory"):
            entry = there.own
            attributes = steps(params, params.mode, path, entry, seen, is_dir=there.is_dir)
        if there.own is None and state == "touch":
            made = [Touch(path, *params.times)]
        elif not made and (touched := _times(params, path, seen)):
            attributes.append(touched)
        if params.recurse and not made:
            attributes += filetree.below(params, path, seen)
        where = {"dest" if state == "touch" else "path": path}
        known = {} if made or attributes else {**there.values}
        return Plan((*made, *attributes), result={**where, **known})

    def _linked(self, params: FileParams, state: str, there: Found, seen: Seen) -> Plan:
        made, src = (filekinds.link if state == "link" else filekinds.hard)(params, there, seen)
        attributes: list[Step] = []
        warnings: tuple[str, ...] = ()
        given = params.mode is not None or params.owner is not None or params.group is not None
        if given:
            attributes, warnings = filekinds.of_the_link(params, state, there, made, seen)
        known = {} if made or attributes else there.values
        result = {"dest": params.path, **({"src": src} if src is not None else {}), **known}
        return Plan((*made, *attributes), result=result, warnings=warnings)

    def apply(self, plan: Plan, ctx: Context) -> dict[str, Any]:
        """As planned; then what the path has become."""
        return finished(ctx, plan, super().apply(plan, ctx))


def _state(params: FileParams, there: Found) -> str:
    """What is wanted; without ``state`` it is what is there."""
    if params.state is not None:
        return params.state
    if there.own is not None:
        return there.state
    return "directory" if params.recurse else "file"


def _times(params: FileParams, path: str, seen: Seen) -> Touch | None:
    """The step that sets the times of what is there, if they aren't as wanted."""
    atime, mtime = params.times
    if (atime, mtime) == ("preserve", "preserve"):
        return None
    if "now" not in (atime, mtime) and "times" in seen.replies:
        have = seen.replies["times"].text.split()
        if len(have) == 2 and atime in ("preserve", have[0]) and mtime in ("preserve", have[1]):
            return None
    return Touch(path, atime, mtime)


def _touch_time(given: str | None, form: str, default: str) -> str:
    if given is None:
        return default
    if given in ("now", "preserve"):
        return given
    try:
        return time.strftime(TIME_FORMAT, time.strptime(given, form))
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{given!r} is no time of the format {form!r}: now, preserve, or such as 202601312359.00"
        ) from error
