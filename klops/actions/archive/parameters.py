"""Parameters of unarchive, and what its two ways of unpacking share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, model_validator

from klops.actions.files.ownership import Owned
from klops.errors import TaskFailed
from klops.remote.archivereads import STRIP, like_options
from klops.remote.base import Reply
from klops.remote.filereads import NO_PROGRAM, UNREADABLE
from klops.remote.reads import ABSENT

#: names of members that a step shows
_SHOWN = 5


class UnarchiveParams(Owned):
    """``src`` is found in ``files`` beside the playbook; with ``remote_src`` it is a path of the host."""

    src: str = Field(min_length=1)
    dest: str = Field(min_length=1)
    remote_src: bool = False
    creates: str | None = None
    include: list[str] = Field(default_factory=list)
    exclude: list[str] = Field(default_factory=list)
    keep_newer: bool = False
    list_files: bool = False
    extra_opts: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _together(self) -> UnarchiveParams:
        if self.include and self.exclude:
            raise ValueError("give one of include and exclude")
        if odd := like_options((*self.include, *self.exclude)):
            raise ValueError(f"{odd[0]!r} is no name of a member but an option: write it as ./{odd[0]}")
        if "://" in self.src:
            raise ValueError("klops downloads nothing here: get the file first, with a task of its own")
        if self.remote_src and not self.src.startswith(("/", "~")):
            raise ValueError(f"src: {self.src!r} is not an absolute path of the host")
        if self.remote_src and (self.owner, self.group, self.mode) != (None, None, None):
            raise ValueError(
                "owner, group and mode go with remote_src: false; use the module file afterwards"
            )
        if not self.remote_src and any(STRIP.fullmatch(option) is None for option in self.extra_opts):
            raise ValueError(
                "extra_opts: of an archive of the control node only --strip-components=N; "
                "with remote_src: true the host's tar gets any option"
            )
        return self

    @property
    def strip(self) -> int:
        """Folders to take off the members' names."""
        found = [match for option in self.extra_opts if (match := STRIP.fullmatch(option))]
        return int(found[-1][1]) if found else 0

    @property
    def known_options(self) -> tuple[str, ...]:
        """Options that may go into a read: tar's others can run programs."""
        return tuple(option for option in self.extra_opts if STRIP.fullmatch(option))


def shown(names: Sequence[str]) -> str:
    """The first of several names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def text(data: bytes) -> str:
    """A piece of an answer; names of files may be any bytes."""
    return data.decode("utf-8", "surrogateescape")


def result(
    params: UnarchiveParams, dest: Mapping[str, Any], kind: str, names: Sequence[str]
) -> dict[str, Any]:
    """What is registered: the archive, and the folder as it was before."""
    files = {"files": list(names)} if params.list_files else {}
    return {
        "src": params.src,
        "dest": dest["path"],
        "handler": kind,
        "state": "directory",
        "mode": dest["mode"],
        "uid": dest["uid"],
        "gid": dest["gid"],
        "owner": dest.get("pw_name", str(dest["uid"])),
        "group": dest.get("gr_name", str(dest["gid"])),
        "size": dest["size"],
        **files,
    }


def unreadable(params: UnarchiveParams, reply: Reply) -> TaskFailed:
    """Why a read of an archive gave no answer."""
    if reply.rc == ABSENT:
        return TaskFailed(f"{params.src} does not exist", code="absent")
    if reply.rc == UNREADABLE:
        return TaskFailed(f"{params.src} can't be read", hint="become: true", code="unreadable")
    if reply.rc == NO_PROGRAM:
        return TaskFailed(
            "the host lacks a program for it",
            hint="install tar, unzip and coreutils there",
            code="no-program",
        )
    said = reply.error_text.strip().splitlines()[-1:]
    return TaskFailed(
        f"{params.src} is no archive: {said[0] if said else 'it has no members'}", code="archive"
    )
