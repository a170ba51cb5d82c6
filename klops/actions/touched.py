"""What a step makes of a path: how a dry run knows what later tasks would find there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


class Becomes(Enum):
    """What is there afterwards."""

    FILE = "file"
    DIRECTORY = "directory"
    #: nothing, and nothing below
    ABSENT = "absent"
    #: what was there, with other attributes
    SAME = "same"
    #: it can't be told
    UNSURE = "unsure"


@dataclass(frozen=True)
class Touched:
    """One path of the host, or what a read looks at besides, and what becomes of it.

    ``mode``, ``owner`` (user and group as numbers) and ``content``: None for what isn't known, and with
    ``SAME`` for what stays. ``below``: whatever is below the path can't be told either. ``leads``: where a
    new link leads, so that what is changed through it is changed there.
    """

    path: str
    becomes: Becomes = Becomes.UNSURE
    mode: int | None = None
    owner: tuple[int | None, int | None] = (None, None)
    content: bytes | None = None
    below: bool = False
    leads: str = ""

    @property
    def unsure(self) -> Touched:
        """The same where it may not happen, or otherwise."""
        below = self.below or self.becomes is Becomes.ABSENT
        return replace(self, becomes=Becomes.UNSURE, below=below)
