"""The variables of one host of a play, from the weakest to the strongest, for each of its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from klops.errors import TaskFailed
from klops.playbook.model import Play, Task
from klops.playbook.tasks import facts, magic
from klops.playbook.tasks.host import Host
from klops.playbook.tasks.loops import ONLY, Turn
from klops.playbook.tasks.place import Places
from klops.playbook.tasks.replies import Replies
from klops.playbook.tasks.surroundings import PlayHosts, Surroundings
from klops.playbook.template.scope import Layer, Live, Scope, Variables
from klops.playbook.template.templar import Templar, scope

_NOTHING: Mapping[str, Any] = {}


class Scopes:
    """Makes the scope in which a task's templates are rendered.

    The order is Ansible's as far as klops has the levels: facts < inventory < play < block and task < what
    tasks set or registered < ``include_tasks`` < ``-e`` < what klops itself gives < the loop.
    """

    def __init__(
        self,
        host: Host,
        play: Play,
        variables: Mapping[str, Any],
        settings: Mapping[str, Any],
        around: Surroundings,
        places: Places,
        hosts: PlayHosts,
    ) -> None:
        self._host = host
        self._play = play
        self._variables = variables
        self._settings = settings
        self._around = around
        self._places = places
        self._of_play = magic.OfPlay(play, hosts)
        self._facts = facts.Facts(host, lambda: places.home.replies)
        self._of_host = magic.of_host(host.name, variables, around.fleet)
        self._of_run = {check: magic.of_run(around, play, check) for check in (False, True)}
        self._others: dict[str, Scope] = {}
        #: of the turn that was last asked for; several ask for it one after the other
        self._last: tuple[Task, Turn, Templar] | None = None
        names = around.fleet.names
        self._hostvars = {"hostvars": magic.HostVars(names, self._other)} if names else {}

    def templar(
        self, task: Task, turn: Turn = ONLY, more: Mapping[str, Any] = _NOTHING, *, asks: bool = True
    ) -> Templar:
        """For a turn of a task; ``more`` are variables as strong as those of the loop.

        Without ``asks`` nothing is read on the host for it: a fact that isn't known raises NotKnown.
        """
        if more or not asks:
            return self._made(task, turn, more, asks)
        # what tasks set meanwhile is seen in it all the same
        if self._last is None or self._last[0] is not task or self._last[1] is not turn:
            self._last = (task, turn, self._made(task, turn, more, asks))
        return self._last[2]

    def _made(self, task: Task, turn: Turn, more: Mapping[str, Any], asks: bool) -> Templar:
        own = {**self._magic(task.check_mode), **turn.variables, **more}
        made = scope(
            Layer(own, templates=False),
            Layer(self._of_play, templates=False),
            Layer(self._around.extra, templates=True),
            Layer(task.data, templates=False),
            Layer(task.include_vars, templates=True),
            Layer(self._host.data, templates=False),
            Layer(task.vars, templates=True),
            Layer(self._variables, templates=True),
            Layer(
                self._facts if asks else facts.Facts(self._host, facts.not_asked),
                templates=False,
                listed=False,
            ),
            files=(task.file, self._play.file),
        )
        own["vars"] = Variables(made, self._host.name)
        return Templar(made)

    def of_play(self) -> Templar:
        """For keywords of the play itself. Nothing is read on the host for it."""
        return Templar(
            scope(
                Layer(self._magic(check=False), templates=False),
                Layer(self._of_play, templates=False),
                Layer(self._around.extra, templates=True),
                Layer(self._host.data, templates=False),
                Layer(self._variables, templates=True),
                Layer(facts.Facts(self._host, facts.not_asked), templates=False, listed=False),
                files=(self._play.file,),
            )
        )

    def delegated(self, name: str) -> dict[str, Any]:
        """Variables that a task delegated to ``name`` sees besides."""
        known = name in self._around.fleet.names
        return {"ansible_delegated_vars": {name: Variables(self._other(name), name) if known else {}}}

    def _magic(self, check: bool) -> dict[str, Any]:
        return {
            **self._of_host,
            **self._of_run[self._around.check or check],
            "klops_settings": self._settings,
            **self._hostvars,
        }

    def _other(self, name: str) -> Scope:
        """Another host's variables (or this one's) as ``hostvars`` has them: without those of the play.

        Made once: what tasks add to them is seen all the same.
        """
        if name not in self._others:
            self._others[name] = self._made_for(name)
        return self._others[name]

    def _made_for(self, name: str) -> Scope:
        around = self._around
        other, known = around.fleet.host(name), around.fleet.variables(name)
        groups = {key: self._of_host[key] for key in ("groups",) if key in self._of_host}
        own = {
            **magic.of_host(name, {**groups, **known}, around.fleet),
            **self._of_run[around.check],
            **self._hostvars,
        }
        return scope(
            Layer(own, templates=False),
            Layer(around.extra, templates=True),
            Layer(Live(other.data), templates=False),
            Layer(known, templates=True),
            Layer(
                facts.Facts(other, lambda: self._replies_of(name), facts.of_other),
                templates=False,
                listed=False,
            ),
        )

    def _replies_of(self, name: str) -> Replies:
        """Where to ask another host; one that failed isn't asked any more."""
        host = self._around.fleet.host(name)
        if host.error is not None and host is not self._host:
            raise TaskFailed(f"the facts of {name} are not known: {host.error}", code="facts")
        return self._places.at(name).replies
