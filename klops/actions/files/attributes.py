"""What a path of the host is, and the values that a task registers about it, under Ansible's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from klops.commands.listing import Entry, names, parse
from klops.remote.base import Remote, Reply
from klops.remote.reads import PathRead


@dataclass(frozen=True)
class Found:
    """A path: ``own`` is what stands there, ``target`` what it leads to (itself, unless it is a link).

    ``owner`` and ``group`` are names of the path itself, numbers where the host has no name; ``behind`` are
    those of the target.
    """

    own: Entry | None = None
    target: Entry | None = None
    owner: str = ""
    group: str = ""
    behind: tuple[str, str] = ("", "")

    @property
    def followed(self) -> Found:
        """What the path leads to, as found there."""
        return Found(self.target, self.target, *self.behind, self.behind) if self.own else self

    @property
    def is_dir(self) -> bool:
        """Whether it is a folder or leads to one."""
        return self.target is not None and self.target.type == "directory"

    @property
    def state(self) -> str:
        """Ansible's word for it: absent, directory, link, hard or file (anything else, too)."""
        if self.own is None:
            return "absent"
        if self.own.type in ("directory", "link"):
            return self.own.type
        return "hard" if self.own.links > 1 else "file"

    @property
    def values(self) -> dict[str, Any]:
        """uid, gid, owner, group, mode (``0644``), size (bytes) and state."""
        if self.own is None:
            return {"state": "absent"}
        return {
            "uid": self.own.uid,
            "gid": self.own.gid,
            "owner": self.owner,
            "group": self.group,
            "mode": f"0{self.own.mode:03o}",
            "size": self.own.size,
            "state": self.state,
        }


def found(reply: Reply) -> Found:
    """The answer to a :class:`PathRead`."""
    listed, _, leads = reply.stdout.decode("utf-8", "surrogateescape").partition("\0")
    lines = listed.split("\n")
    # numbers, names; what a link leads to follows in the same way
    numbered = [next(iter(parse(line).values()), None) for line in lines[0:3:2]]
    own = numbered[0] if numbered else None
    if own is None:
        return Found()
    if own.type == "link" and leads:
        own = replace(own, target=leads)
    own_names = _named(own, lines, 1)
    if own.type != "link":
        return Found(own, own, *own_names, own_names)
    target = numbered[1] if len(numbered) > 1 else None
    return Found(own, target, *own_names, _named(target, lines, 3) if target else ("", ""))


def _named(entry: Entry, lines: list[str], place: int) -> tuple[str, str]:
    owner, group = names(lines[place]) if len(lines) > place else ("", "")
    return owner or str(entry.uid), group or str(entry.gid)


def look(remote: Remote, path: str) -> Found:
    """The path as it is now, in one remote command."""
    return found(remote.read([PathRead("path", (path,))])["path"])


def registered(remote: Remote, result: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the path that a result is about, after something was changed there."""
    path = str(result.get("path") or result.get("dest") or "/")
    # a folder that was copied whole is no path of its own
    return {} if path.endswith("/") else look(remote, path).values
