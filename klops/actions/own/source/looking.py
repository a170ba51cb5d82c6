"""What ``klops.source`` looks at: the repository on the control node, and the releases on the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from klops.source.here import place

if TYPE_CHECKING:
    from klops.inventory.settings import Settings
    from klops.remote.base import Reply
    from klops.source.manifest import Entry
    from klops.source.tree import Tree


#: Key of a look at a tree.
TREE = "tree"


@dataclass(frozen=True)
class TreeLook:
    """A look at a ref of a repository; see :class:`klops.source.tree.Request`."""

    repo: Path
    ref: str
    dirty: bool

    @property
    def what(self) -> str:
        """Named for whoever waits."""
        return f"reading {self.repo}{' with what is not committed' if self.dirty else f' at {self.ref}'}"

    def look(self) -> Tree:
        """The tree. Raises :class:`TaskFailed`."""
        # git and archives are for those who sync something
        from klops.source import tree

        return tree.look(tree.Request(self.repo, self.ref, self.dirty))


def tree_look(settings: Settings, ref: str | None, dirty: bool | None) -> TreeLook | None:
    """The look that the settings ask for, unless ``ref`` and ``dirty`` say otherwise; None for no source."""
    source = settings.source
    if source.repo is None:
        return None
    ref, dirty = source.ref if ref is None else ref, source.dirty if dirty is None else dirty
    return TreeLook(place(Path(source.repo)), ref, dirty)


@dataclass(frozen=True)
class Standing:
    """The releases of a host.

    ``damage``: paths of the current one that aren't as they were laid down; ``misplaced``: where its targets
    aren't; ``elsewhere``: why a package is imported from somewhere else. ``entries``: what the current one
    consists of; None when that wasn't asked.
    """

    current: str | None = None
    names: frozenset[str] = frozenset()
    damage: tuple[str, ...] = ()
    misplaced: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    entries: tuple[Entry, ...] | None = None

    def sound(self, name: str) -> bool:
        """Whether a release is there, and not known to be damaged."""
        return name in self.names and not (name == self.current and self.damage)

    def built(self, name: str) -> bool:
        """Whether a build of that name is there, or the same of another commit, which is then copied."""
        made_of = name.partition("-")[2]
        return any(one.partition("-")[2] == made_of and self.sound(one) for one in self.names)

    def lacks(self, name: str) -> str:
        """Why that release isn't what runs here; "" when it is, undamaged and where it is to be."""
        if self.current != name:
            return f"the current release is {self.current}" if self.current else "there is no release yet"
        for what, found in (("not as laid down", self.damage), ("not in place", self.misplaced)):
            if found:
                return f"{what}: {_some(found)}"
        return _some(self.elsewhere)


def standing(reply: Reply) -> Standing | None:
    """What the agent's verb ``releases`` says; None when it gives no answer."""
    said = reply.json() if reply.stdout else None
    if not reply.ok or not isinstance(said, Mapping) or "current" not in said:
        return None
    entries = said.get("entries")
    return Standing(
        current=said["current"],
        names=frozenset(str(one["name"]) for one in said["releases"]),
        damage=tuple(str(one["path"]) for one in said.get("damage") or ()),
        misplaced=tuple(str(one["at"]) for one in said.get("targets") or () if not one["ok"]),
        elsewhere=tuple(str(one["why"]) for one in said.get("imports") or () if not one["ok"]),
        entries=None if entries is None else _entries(entries),
    )


def _entries(values: list[Any]) -> tuple[Entry, ...]:
    from klops.source.manifest.entry import from_json

    return tuple(map(from_json, values))


def _some(texts: tuple[str, ...]) -> str:
    more = f" and {len(texts) - 3} more" if len(texts) > 3 else ""
    return f"{', '.join(texts[:3])}{more}"
