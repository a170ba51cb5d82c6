"""The three small things every action is: probe, plan, apply.

``probe`` names what to read on the host, ``plan`` is a pure function from parameters and what was read to
typed steps, ``apply`` carries them out. No steps means ok. Check mode is probe and plan; a diff is the plan,
printed.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from klops.actions.touched import Touched
from klops.errors import KlopsError
from klops.remote.base import Remote, Replies
from klops.remote.environment import EnvironmentRemote

if TYPE_CHECKING:
    from klops.inventory.settings import Settings
    from klops.remote.reads import Read


class Params(BaseModel):
    """Parameters of an action: typed, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


P = TypeVar("P", bound=Params)


@dataclass(frozen=True)
class View:
    """What a plan may know of its host without asking it."""

    host: str
    settings: Settings
    variables: Mapping[str, Any]
    #: renders a Jinja2 template text with the host's variables and the task's; keywords as Templar.text has
    render: Callable[..., str]
    check: bool = False
    #: the texts of changes are shown: what they cost is not for nothing
    diff: bool = False
    #: the run this is part of: a lock with the same name is our own
    run: str = ""
    #: ``environment`` of the task: for the programs that it runs on the host
    environment: Mapping[str, str] = field(default_factory=dict)
    #: how often -v was given
    verbosity: int = 0
    #: the task is carried out on another host than ``host``
    delegated: bool = False
    #: what the last task of this run told that may have changed something where this one is carried out; None
    #: as long as nothing was. What it reads is asked anew then
    changed: Mapping[str, Any] | None = None
    #: kind of folder ("files" or "templates") and a path as written -> file or folder of the control node;
    #: raises :class:`TaskFailed` when there is none
    find_local: Callable[[str, str], Path] = lambda kind, path: Path(path)


class LocalLook(Hashable, Protocol):
    """A look at the control node that is more than one file, such as at a repository. Changes nothing.

    Equal looks are answered once a run, for all its hosts: a frozen dataclass of all that the answer depends
    on.
    """

    @property
    def what(self) -> str:
        """What is looked at, for whoever waits: ``reading /src/vllm``."""

    def look(self) -> object:
        """What is there. Raises :class:`KlopsError`: then each task that asks fails with it."""


@dataclass(frozen=True)
class Probe:
    """What a plan needs: reads on the host, and files of the control node (found beside the playbook)."""

    reads: tuple[Read, ...] = ()
    #: key -> (kind of folder to look in: "files" or "templates", path as written)
    files: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    #: key -> a look at the control node
    local: Mapping[str, LocalLook] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """What was read: replies of the host by key of the read; of the control node by key, too."""

    replies: Replies = field(default_factory=dict)
    #: contents of local files
    files: Mapping[str, bytes] = field(default_factory=dict)
    #: answers to looks
    local: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """One thing that was, or would be, changed. ``before``/``after``: texts for a unified diff, or None."""

    what: str
    before: str | None = None
    after: str | None = None


class Step(abc.ABC):
    """One typed step of a plan."""

    #: False for steps that only wait or look: a plan of such steps is ok, not changed
    changes: ClassVar[bool] = True
    #: False for steps that leave the host alone (and change the control node, say): they need no lock of it
    on_host: ClassVar[bool] = True
    #: True for a step that begins with what changes nothing: the host's lock is taken meanwhile, and the step
    #: itself waits for that (:attr:`Context.locked`) before it goes on
    awaits_lock: ClassVar[bool] = False

    @abc.abstractmethod
    def change(self) -> Change:
        """What this step does, in one line, and the texts for a diff."""

    def changed(self) -> tuple[Change, ...]:
        """The same, of a step that does several things at once."""
        return (self.change(),)

    def touches(self) -> tuple[Touched, ...]:
        """What it makes of which paths, so that a dry run doesn't rely on what was read there before.

        Nothing for a step whose effects no read of another task looks at, and for one that runs the author's
        own program: nobody knows what that does.
        """
        return ()

    @abc.abstractmethod
    def carry_out(self, ctx: Context) -> Mapping[str, Any] | None:
        """Do it. What is returned is merged into the task's result."""


@dataclass(frozen=True)
class Plan:
    """What an action would do.

    ``unknown`` says why the effect can't be known before it is applied: such a task is reported as unknown in
    check mode, never as ok or skipped. ``failure`` ends the task with nothing done. ``skipped`` says why
    there is nothing to do here.
    """

    steps: tuple[Step, ...] = ()
    result: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""
    unknown: str = ""
    skipped: str = ""
    failure: KlopsError | None = None
    warnings: tuple[str, ...] = ()
    #: check mode: it was made from what earlier tasks would have left, and so not all of ``result`` is known
    foreseen: bool = False
    #: check mode: what it would make of which paths
    touches: tuple[Touched, ...] = ()

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes of the steps that change something."""
        return tuple(change for step in self.steps if step.changes for change in step.changed())


@dataclass(frozen=True)
class Progress:
    """How far a step is: one line, and a percentage where one is known (0 to 100)."""

    message: str
    percent: float | None = None


@dataclass
class Context:
    """What steps are carried out with. Whatever they read and run has the ``environment`` of the task."""

    remote: Remote
    view: View
    progress: Callable[[Progress], None]
    warn: Callable[[str], None]
    #: what was changed so far
    done: list[Change] = field(default_factory=list)
    #: entered while the host restarts, at most so many seconds: its lock is left alone, and then taken anew
    restarting: Callable[[float], AbstractContextManager[None]] = lambda seconds: nullcontext()
    #: raises :class:`LockHeld` once the lock is known to be lost; asks nobody, so before each change
    still_ours: Callable[[], None] = lambda: None
    #: waits until the lock is taken; raises what taking it raises
    locked: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        if self.view.environment:
            self.remote = EnvironmentRemote(self.remote, self.view.environment)

    def before(self, step: Step) -> None:
        """Raises :class:`LockHeld` where the lock of the host isn't ours, as a step that changes it needs."""
        if not step.awaits_lock:
            self.locked()
        self.still_ours()


class Action(abc.ABC, Generic[P]):
    """A playbook module. Stateless: one instance serves all hosts and threads."""

    #: name in a playbook, such as ``klops.container`` or ``copy``
    name: ClassVar[str]
    params: type[P]
    #: the parameter that a plain string after the module's name stands for (``command: uptime``); "" for none
    free_form: ClassVar[str] = ""
    #: True for an action that runs once for all hosts of a batch, with the first of them, as pause does
    once: ClassVar[bool] = False
    #: True for an action that is there for what earlier tasks do: that its plan moves with that is no news
    follows: ClassVar[bool] = False
    #: parameters that name a file of the control node -> the kind of folder it is looked for in
    local_files: ClassVar[Mapping[str, str]] = {}
    #: parameters of Ansible's module of that name that are refused when the file is loaded -> why, and what
    #: to write instead
    refused: ClassVar[Mapping[str, str]] = {}

    def local_name(self, text: str) -> str:
        """The file of the control node that a parameter in :attr:`local_files` names; "" for none."""
        return text

    @abc.abstractmethod
    def probe(self, params: P, view: View) -> Probe:
        """Name what to read."""

    @abc.abstractmethod
    def plan(self, params: P, view: View, seen: Seen) -> Plan:
        """From parameters and what was read to steps. Pure: the same arguments give an equal plan."""

    def apply(self, plan: Plan, ctx: Context) -> dict[str, Any]:
        """Carry the steps out in order, noting those that changed something in ``ctx.done``.

        Returns what they add to the task's result.
        """
        result: dict[str, Any] = {}
        for step in plan.steps:
            if step.changes and step.on_host:
                ctx.before(step)
            result.update(step.carry_out(ctx) or {})
            if step.changes:
                ctx.done.append(step.change())
        return result


def registry(actions: Sequence[Action[Any]]) -> dict[str, Action[Any]]:
    """Actions by name; two of one name are a fault of klops."""
    found: dict[str, Action[Any]] = {}
    for action in actions:
        if action.name in found:
            raise ValueError(f"two actions are called {action.name}")
        found[action.name] = action
    return found
