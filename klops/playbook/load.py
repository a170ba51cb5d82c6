"""Read a playbook file; all its mistakes are found at once, each with its place, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from klops.actions.base import Action
from klops.errors import Location, SourceErrors
from klops.playbook.keywords import PLAY_KEYWORDS, TASK_KEYWORDS, refuse_unknown
from klops.playbook.loadtask import TaskLoader
from klops.playbook.model import Play, Playbook, Task
from klops.playbook.nodes import Mistakes, as_bool, as_tags, as_text, as_vars
from klops.yamlsource import MappingNode, Node, ScalarNode, SequenceNode, load_file, nearest

Registry = Mapping[str, Action[Any]]


def load_playbook(path: str | Path, registry: Registry) -> Playbook:
    """The playbook in a file. Raises :class:`SourceErrors` with every mistake found."""
    file = Path(path)
    root = load_file(file)
    mistakes = Mistakes()
    plays: list[Play] = []
    if root is None:
        mistakes.add(Location(str(path)), "an empty playbook", "a playbook is a list of plays")
    elif not isinstance(root, SequenceNode):
        mistakes.add(root.location, "a playbook is a list of plays", "begin each with '- hosts:'")
    else:
        reader = _Plays(file, registry, mistakes)
        plays = [play for item in root.items if (play := reader.play(item)) is not None]
    if mistakes.found:
        raise SourceErrors(mistakes.found)
    return Playbook(file, tuple(plays))


class _Plays:
    def __init__(self, file: Path, registry: Registry, mistakes: Mistakes) -> None:
        self._file = file
        self._registry = registry
        self._mistakes = mistakes

    def play(self, node: Node) -> Play | None:
        add = self._mistakes.add
        if not isinstance(node, MappingNode):
            add(node.location, "a play is a mapping", "it has at least hosts and tasks")
            return None
        refuse_unknown(node, PLAY_KEYWORDS, "play", self._mistakes)
        hosts = node.get("hosts")
        # a key that is a misspelt hosts is one mistake, not two
        if hosts is None and "hosts" not in {nearest(key.text, PLAY_KEYWORDS) for key, _ in node.entries}:
            add(node.location, "a play needs hosts", "hosts: all, or a group's name")
        facts = node.get("gather_facts")
        if facts is not None and as_bool(facts, "gather_facts", self._mistakes):
            hint = "write gather_facts: false, or leave it out"
            add(facts.location, "klops gathers no facts; facts on demand come later", hint)
        become = node.get("become")
        tags = as_tags(node.get("tags"), self._mistakes)
        loader = TaskLoader(self._file, self._registry, self._mistakes, tags)
        tasks = self._list(node.get("tasks"), "tasks", loader)
        handlers = self._list(node.get("handlers"), "handlers", loader)
        self._check_notifications(tasks, handlers)
        patterns = self._patterns(hosts)
        name = node.get("name")
        return Play(
            name=as_text(name, "name", self._mistakes) if name is not None else ", ".join(patterns),
            hosts=patterns,
            location=node.location,
            vars=as_vars(node.get("vars"), self._mistakes),
            tasks=tuple(tasks),
            handlers=tuple(handlers),
            become=None if become is None else as_bool(become, "become", self._mistakes),
        )

    def _patterns(self, node: Node | None) -> tuple[str, ...]:
        if isinstance(node, SequenceNode):
            found = tuple(as_text(item, "hosts", self._mistakes) for item in node.items)
        else:
            found = () if node is None else (as_text(node, "hosts", self._mistakes),)
        if node is not None and not any(pattern.strip() for pattern in found):
            self._mistakes.add(node.location, "hosts is empty", "an empty pattern never means all: write all")
        return found

    def _list(self, node: Node | None, what: str, loader: TaskLoader) -> list[Task]:
        if node is None or (isinstance(node, ScalarNode) and node.value is None):
            return []
        if not isinstance(node, SequenceNode):
            self._mistakes.add(node.location, f"{what} is a list of tasks")
            return []
        return [task for item in node.items if (task := loader.task(item, TASK_KEYWORDS)) is not None]

    def _check_notifications(self, tasks: list[Task], handlers: list[Task]) -> None:
        names = [handler.name for handler in handlers]
        for place, task in enumerate([*tasks, *handlers]):
            own = place - len(tasks)
            for name in task.notify:
                if name not in names:
                    near = nearest(name, names)
                    hint = f"did you mean {near!r}?" if near else "handlers are notified by their names"
                    self._mistakes.add(
                        task.location, f"notifies {name!r}, and this play has no such handler", hint
                    )
                elif own >= 0 and names.index(name) <= own:
                    text = f"the handler {task.name!r} notifies {name!r}, which runs before it"
                    self._mistakes.add(task.location, text, "define the notified handler after it")
        for place, name in enumerate(names):
            if name in names[:place]:
                self._mistakes.add(handlers[place].location, f"a second handler is called {name!r}")
