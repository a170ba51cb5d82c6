"""Where a task runs: the host itself or one it is delegated to, and as whom."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from klops.errors import KlopsError, TaskFailed
from klops.playbook.model import Play, Task
from klops.playbook.tasks.host import Host, Replies
from klops.playbook.tasks.surroundings import Surroundings
from klops.playbook.template.filters.values import to_bool
from klops.playbook.template.pending import NotKnown
from klops.playbook.template.templar import OMIT, Templar
from klops.remote.base import ReadOnlyRemote, Remote
from klops.yamlsource import nearest

if TYPE_CHECKING:
    from klops.inventory.settings import Settings

#: names of this machine that need not be in the inventory
LOCAL = ("localhost", "127.0.0.1", "::1")


@dataclass
class Place:
    """A host as one user; ``by`` is the host whose task was delegated there, "" for its own tasks.

    ``settings``: None for a host that has no lock, which is this machine without an entry in the inventory.
    """

    host: Host
    become: bool | None
    become_user: str
    by: str
    check: bool
    settings: Settings | None
    #: the play becomes root: so does its lock, whoever changes something first
    lock_as_root: bool = False
    replies: Replies = field(init=False)

    def __post_init__(self) -> None:
        self.replies = Replies(self.remote, changes=lambda: self.host.changes)

    def remote(self) -> Remote:
        """What tasks work with; in check mode it can't write."""
        remote = self.host.remote(self.become, self.become_user, by=self.by)
        return ReadOnlyRemote(remote) if self.check else remote

    def lock(self) -> None:
        """Take the host's lock where it has one."""
        if self.settings is not None:
            self.host.lock(True if self.lock_as_root else self.become, self.settings)

    def changed(self) -> None:
        """Something may have been changed there."""
        self.host.touched()


class Places:
    """The places where the tasks of one host of a play run, each made when it is first needed."""

    def __init__(self, host: Host, play: Play, settings: Settings, around: Surroundings) -> None:
        self._host = host
        self._play = play
        self._identity: tuple[bool | None, str] | None = None
        self._settings = settings
        self._around = around
        self._known: dict[tuple[str, bool | None, str], Place] = {}
        #: renders keywords of the play; None: they are as they are written
        self.templar: Callable[[], Templar] | None = None
        #: called with each place on the host itself before it is used
        self.made: Callable[[Place], None] | None = None

    @property
    def home(self) -> Place:
        """The host itself, as the play says."""
        return self._place(self._host.name, *self._as_play())

    @property
    def keeper(self) -> Place:
        """The host itself for what klops keeps there: with the rights of the play's ``become``, whoever its
        tasks become."""
        return self._place(self._host.name, self._as_play()[0], "")

    def at(self, name: str) -> Place:
        """A host of the inventory as its connection says; this one as the play says."""
        return self.home if name == self._host.name else self._place(name, None, "")

    def of(self, task: Task, templar: Templar) -> Place:
        """Where ``task`` runs. Raises :class:`TaskFailed` for a host that nobody knows."""
        become, user = _identity(task.become, task.become_user, templar)
        name = _name("delegate_to", task.delegate_to, templar) or self._host.name
        return self._place(name, become, user)

    def _as_play(self) -> tuple[bool | None, str]:
        """``become`` and ``become_user`` of the play, rendered once."""
        if self._identity is None:
            raw = self._play.become
            # if they can't be rendered its tasks, which have them too, say so
            self._identity = (raw if isinstance(raw, bool) else None, "")
            if self.templar is not None:
                with suppress(KlopsError, NotKnown):
                    self._identity = _identity(raw, self._play.become_user, self.templar())
        return self._identity

    def _place(self, name: str, become: bool | None, user: str) -> Place:
        key = (name, become, user)
        if key not in self._known:
            host, settings = self._found(name)
            by = "" if host is self._host else self._host.name
            check = self._around.check
            root = self._as_play()[0] is True
            self._known[key] = Place(host, become, user, by, check, settings, root)
            if self.made is not None and not by:
                self.made(self._known[key])
        return self._known[key]

    def _found(self, name: str) -> tuple[Host, Settings | None]:
        if name == self._host.name:
            return self._host, self._settings
        fleet = self._around.fleet
        if name in fleet.names:
            return fleet.host(name), fleet.settings(name)
        if name in LOCAL:
            return fleet.host(name), None
        near = nearest(name, fleet.names)
        hint = (
            f"did you mean {near}?"
            if near
            else "a task is delegated to a host of the inventory, or localhost"
        )
        raise TaskFailed(f"delegate_to: no host is called {name!r}", hint=hint, code="delegate")


def _identity(become: Any, user: Any, templar: Templar) -> tuple[bool | None, str]:
    flagged = flag("become", become, templar)
    named = _name("become_user", user, templar)
    # as in Ansible, a user alone becomes nobody
    return flagged, "" if flagged is False else named


def flag(keyword: str, value: Any, templar: Templar) -> bool | None:
    """A keyword that is true or false, or a template of that; None when it isn't given."""
    rendered = templar.render(value)
    if rendered is None or rendered is OMIT:
        return None
    try:
        return to_bool(rendered)
    except (ValueError, TemplateError) as error:
        raise TaskFailed(f"{keyword}: {error}", code="keyword") from error


def _name(keyword: str, value: Any, templar: Templar) -> str:
    rendered = templar.render(value)
    if rendered is None or rendered is OMIT:
        return ""
    if isinstance(rendered, (str, int)) and not isinstance(rendered, bool):
        return str(rendered)
    raise TaskFailed(f"{keyword} gave {type(rendered).__name__}, not a name", code="keyword")
