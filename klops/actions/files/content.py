"""A file of known content on the host: what copy, template and the editors of files share."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field, field_validator

from klops.actions.base import Context, Plan, Seen, Step, View
from klops.actions.fields import AsWritten
from klops.actions.files.attributes import Found, found, registered
from klops.actions.files.modes import SymbolicMode, parse
from klops.actions.files.ownership import NEW_FILE_MODE, Ownership, bits, reads, steps
from klops.actions.steps import WriteFile, as_text
from klops.errors import TaskFailed
from klops.remote.placing import NOTHING
from klops.remote.reads import DigestRead, FileRead, PathRead, Read, RealPathRead

#: bytes of a file up to which a diff is shown
DIFF_LIMIT = 64 * 1024


def absolute(path: str) -> str:
    """A path of the host as its parameter must have it. Raises ``ValueError``."""
    if not path.startswith("/"):
        raise ValueError(f"{path!r} is not an absolute path")
    if not path.isprintable():
        raise ValueError(f"{path!r} holds characters that no listing shows as they are")
    return path


def _mode_or_preserve(value: Any) -> Any:
    if value is None or value == "preserve":
        return value
    if isinstance(value, str):
        return parse(value)
    raise ValueError("a mode that comes from a variable must be text: quote it there, such as '0644'")


#: A mode, or ``preserve``: that of the source.
ModeOrPreserve = Annotated[
    int | SymbolicMode | Literal["preserve"] | None, AsWritten(), BeforeValidator(_mode_or_preserve)
]


class Written(Ownership):
    """How a file is replaced. ``validate`` is a command line without a shell; ``%s``: the new file."""

    backup: bool = False
    # pydantic has a method of the parameter's name
    validator: str | None = Field(default=None, validation_alias=AliasChoices("validate"))

    @field_validator("validator")
    @classmethod
    def _names_the_file(cls, validator: str | None) -> str | None:
        if validator is not None and "%s" not in validator:
            raise ValueError("validate needs %s where the name of the file belongs")
        return validator


class DestinationParams(Written):
    """A file on the host; ``dest`` ending in ``/``, or that is a folder, gets the file under its own name.

    ``force: false`` leaves what is there. ``follow: true`` writes to what a link leads to, otherwise the link
    makes way for the file.
    """

    dest: str
    mode: ModeOrPreserve = None
    force: bool = True
    follow: bool = False

    @field_validator("dest")
    @classmethod
    def _absolute(cls, dest: str) -> str:
        return absolute(dest)


@dataclass(frozen=True)
class Source:
    """What is to be written. ``name`` is the file's own, "" for a text that has none; ``mode`` as wanted."""

    data: bytes
    name: str
    mode: int | SymbolicMode | None


def wanted_mode(params: DestinationParams, local: Path | None) -> int | SymbolicMode | None:
    """The mode, ``preserve`` taken from the file of the control node."""
    if params.mode != "preserve":
        return params.mode
    if local is None:
        raise TaskFailed(
            "content has no mode to preserve", hint="write the mode in digits", code="parameters"
        )
    return local.stat().st_mode & 0o7777


def destinations(dest: str, name: str) -> tuple[str, ...]:
    """Where the file may belong: the path itself, and below it in case it is a folder."""
    if dest.endswith("/"):
        if not name:
            raise TaskFailed(
                f"{dest} is a folder, and content has no name of its own", hint="name the file in dest"
            )
        return (dest + name,)
    return (dest, f"{dest}/{name}") if name else (dest,)


def content_reads(params: DestinationParams, name: str) -> tuple[Read, ...]:
    """What is there: kind and mode, digest, and enough of the content for a diff."""
    found: list[Read] = []
    for prefix, path in zip(("", "in_"), destinations(params.dest, name), strict=False):
        found += [
            PathRead(f"{prefix}entry", (path,)),
            DigestRead(f"{prefix}digest", path),
            FileRead(f"{prefix}content", path, DIFF_LIMIT + 1),
        ]
        if params.follow:
            found.append(RealPathRead(f"{prefix}real", path))
    return (*found, *reads(params))


def content_plan(params: DestinationParams, source: Source, seen: Seen, view: View) -> Plan:
    """Steps to make the destination hold the content, with the attributes that are wanted."""
    paths = destinations(params.dest, source.name)
    path, prefix = paths[0], ""
    there = found(seen.replies["entry"])
    if there.is_dir and len(paths) == 2:
        path, prefix = paths[1], "in_"
        there = found(seen.replies["in_entry"])
    if there.is_dir and not (there.state == "link" and not params.follow and params.dest.endswith("/")):
        raise TaskFailed(
            f"{path} is a folder", hint="write the whole name of the file, or end dest with a slash"
        )
    result: dict[str, Any] = {"dest": path}
    if there.own is not None and not params.force:
        return Plan(result=result)
    if there.state == "link" and params.follow:
        path = seen.replies[f"{prefix}real"].text.removesuffix("\n") or path
        result["dest"] = path
        there = there.followed
    entry = None if there.own is None or there.own.type == "link" else there.own
    differs = entry is None or seen.replies[f"{prefix}digest"].text.strip() != _digest(source.data)
    made: list[Step] = []
    if differs:
        had = seen.replies[f"{prefix}content"].stdout if entry else None
        digest = seen.replies[f"{prefix}digest"].text.strip()
        known = NOTHING if found(seen.replies[f"{prefix}entry"]).own is None else digest if entry else ""
        made = [write(params, source, path, had, there, known)]
    attributes = steps(params, source.mode, path, entry, seen, mode_is_set=bool(made))
    result |= {"checksum": hashlib.sha1(source.data, usedforsecurity=False).hexdigest()}
    if made:
        result["md5sum"] = hashlib.md5(source.data, usedforsecurity=False).hexdigest()
    else:
        result |= {"path": path, **there.values}
    return Plan((*made, *attributes), result=result, unknown=unknown_validity(params, view) if made else "")


def write(
    params: Written, source: Source, path: str, had: bytes | None, there: Found, seen: str
) -> WriteFile:
    """The step that writes ``path``; ``had`` is the beginning of what is there, None for nothing.

    ``seen`` is what stood there when it was read: :attr:`WriteFile.seen`.
    """
    entry = there.own if there.own is not None and there.own.type != "link" else None
    mode = bits(source.mode, entry, is_dir=False)
    if mode is None:
        mode = entry.mode if entry else NEW_FILE_MODE
    before = "" if entry is None or had is None else _text(had)
    after = _text(source.data)
    if before is None or after is None:
        before = after = None
    return WriteFile(
        path,
        source.data,
        mode,
        before,
        after,
        (entry.uid, entry.gid) if entry else None,
        backup=path if params.backup and there.own is not None else "",
        validate=params.validator or "",
        seen=seen,
    )


def unknown_validity(params: Written, view: View) -> str:
    """Why check mode can't say what a changed file would come to; "" when it can."""
    if params.validator is None or not view.check:
        return ""
    return "whether the new file is valid only shows when the host has it"


def finished(ctx: Context, plan: Plan, added: dict[str, Any]) -> dict[str, Any]:
    """What the steps of a plan added, and what the path is now, where no step has said that already."""
    if not plan.steps or isinstance(plan.steps[-1], WriteFile):
        return added
    return {**added, **registered(ctx.remote, plan.result)}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _text(data: bytes) -> str | None:
    return as_text(data) if len(data) <= DIFF_LIMIT else None
