"""What systemctl says of a unit, read; and the words that change it. Pure.

The shapes are those of systemctl's manual: ``show`` has ``KEY=VALUE`` lines, of which only the ``Exec`` ones
may go over several lines, in braces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: states of a unit that runs, or is about to
_RUNNING = ("active", "activating")
#: answers of is-enabled with status 0 that don't mean enabled for good
_NOT_FOR_GOOD = ("enabled-runtime", "indirect", "alias")
_MARK = "@is-enabled "


@dataclass(frozen=True)
class Unit:
    """A unit: the properties that ``show`` gives, and what ``is-enabled`` said, with its exit status."""

    status: Mapping[str, str]
    enabled_word: str
    enabled_rc: int

    @property
    def found(self) -> bool:
        """Whether systemd knows it, or would once it is unmasked."""
        return self.status.get("LoadState", "not-found") != "not-found"

    @property
    def load_error(self) -> str:
        """Why its file can't be used; "" when it can."""
        return "" if self.masked else self.status.get("LoadError", "")

    @property
    def running(self) -> bool:
        """Whether it runs or is being started."""
        return self.status.get("ActiveState") in _RUNNING

    @property
    def stopping(self) -> bool:
        """Whether it is being stopped."""
        return self.status.get("ActiveState") == "deactivating"

    @property
    def enabled(self) -> bool:
        """Whether it starts at boot, by a link that is there for good."""
        return self.enabled_rc == 0 and self.enabled_word not in _NOT_FOR_GOOD

    @property
    def masked(self) -> bool:
        """Whether it is masked for good."""
        return self.enabled_word == "masked"


def unit(text: str) -> Unit:
    """The answer to a :class:`~klops.remote.reads.UnitRead`.

    >>> unit("LoadState=loaded\\nActiveState=active\\n@is-enabled 0\\nenabled\\n").enabled
    True
    """
    shown, mark, rest = ("\n" + text).rpartition("\n" + _MARK)
    if not mark:
        return Unit(properties(text), "", 1)
    rc, _, said = rest.partition("\n")
    return Unit(properties(shown), said.split("\n")[0].strip(), int(rc))


def properties(text: str) -> dict[str, str]:
    """``systemctl show`` as a mapping.

    >>> properties("Id=a.service\\nExecStart={ path=/a ;\\n argv[]=/a }\\nDescription={ odd")["Description"]
    '{ odd'
    """
    found: dict[str, str] = {}
    rest = iter(text.split("\n"))
    for line in rest:
        key, equals, value = line.partition("=")
        if not equals:
            continue
        if key.startswith("Exec") and value.lstrip().startswith("{"):
            while not value.rstrip().endswith("}") and (more := next(rest, None)) is not None:
                value += "\n" + more
        found[key] = value.strip()
    return found
