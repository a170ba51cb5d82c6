"""What lineinfile and blockinfile share: a file is read whole, edited, and written if it differs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import AliasChoices, Field, field_validator

from klops.actions.base import Plan, Seen, View
from klops.actions.fields import Mode
from klops.actions.files.attributes import found
from klops.actions.files.content import Source, Written, absolute, unknown_validity, write
from klops.actions.files.ownership import NEW_FILE_MODE, reads, steps
from klops.actions.steps import WriteFile
from klops.commands.linefile import encoded
from klops.errors import TaskFailed
from klops.remote.placing import NOTHING, digest_of
from klops.remote.reads import FileRead, PathRead, Read, RealPathRead

#: bytes of a file that is edited line by line; a larger one is no file for this
SIZE_LIMIT = 8 * 1024 * 1024

#: said of a file whose attributes alone changed, as Ansible says it
_ATTRIBUTES = "ownership, perms or SE linux context changed"


class EditParams(Written):
    """The file, and where something new in it belongs; ``create``: make it if it isn't there."""

    path: str = Field(validation_alias=AliasChoices("path", "dest", "destfile", "name"))
    mode: Mode = None
    insertafter: str | None = None
    insertbefore: str | None = None
    create: bool = False

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: str) -> str:
        return absolute(path)

    @field_validator("insertafter", "insertbefore")
    @classmethod
    def _place(cls, value: str | None) -> str | None:
        return pattern(value)


def pattern(value: str | None) -> str | None:
    """A regular expression that compiles, over bytes. Raises ``ValueError``."""
    if value is not None:
        try:
            re.compile(encoded(value))
        except re.error as error:
            raise ValueError(f"{value!r} is no regular expression: {error}") from error
    return value


def edit_reads(params: EditParams) -> tuple[Read, ...]:
    """The file whole: an edit needs all of it. Links are followed."""
    path = params.path
    return (
        PathRead("entry", (path,)),
        RealPathRead("real", path),
        FileRead("content", path, SIZE_LIMIT + 1),
        *reads(params),
    )


def before(params: EditParams, seen: Seen) -> bytes | None:
    """The content; None when there is no file. Raises :class:`TaskFailed` when it can't be edited."""
    there = found(seen.replies["entry"])
    if there.is_dir:
        raise TaskFailed(f"Path {params.path} is a directory !", hint="name a file", code="not-a-file")
    if there.target is None:
        return None
    reply = seen.replies["content"]
    if not reply.ok:
        raise TaskFailed(f"{params.path} can't be read: {reply.error_text.strip()}", code="unreadable")
    if len(reply.stdout) > SIZE_LIMIT:
        hint = "use command with sed, or keep what changes in a file of its own"
        raise TaskFailed(f"{params.path} is larger than {SIZE_LIMIT >> 20} MiB", hint=hint, code="too-large")
    return reply.stdout


def needs_create(what: str) -> TaskFailed:
    """The failure for a file that isn't there, in Ansible's words."""
    return TaskFailed(f"{what} does not exist !", hint="create: true makes it", code="absent")


def edit_plan(
    params: EditParams,
    had: bytes | None,
    new: bytes,
    message: str,
    seen: Seen,
    view: View,
    more: Mapping[str, Any],
) -> Plan:
    """Steps that write ``new`` where it differs from what was there, and set attributes."""
    there = found(seen.replies["entry"])
    path = seen.replies["real"].text.removesuffix("\n") or params.path
    there = there.followed if there.state == "link" else there
    made: list[WriteFile] = []
    if had is None or had != new:
        known = NOTHING if found(seen.replies["entry"]).own is None else ""
        known = known if had is None else digest_of(had)
        step = write(params, Source(new, "", params.mode), path, had, there, known)
        # as Ansible: beside the link, when the path is one
        made = [replace(step, backup=params.path if step.backup else "")]
    attributes = steps(params, params.mode, path, there.own, seen, mode_is_set=bool(made))
    mode = there.own.mode if there.own is not None else NEW_FILE_MODE
    if attributes or (made and made[0].mode != mode):
        message = f"{message} and {_ATTRIBUTES}" if made else _ATTRIBUTES
    validity = unknown_validity(params, view) if made else ""
    return Plan((*made, *attributes), result={"msg": message, **more}, message=message, unknown=validity)


def edit_result(added: Mapping[str, Any], backup: str) -> dict[str, Any]:
    """What a finished edit registers: the name of the copy, under ``backup``."""
    return {backup: added["backup_file"]} if "backup_file" in added else {}
