"""Read a playbook file; all its mistakes are found at once, each with its place, before anything runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from klops.errors import Location, Mistake, SourceErrors
from klops.playbook.handdown import HandedDown
from klops.playbook.load import taskkeywords
from klops.playbook.load.keywords import PLAY_KEYWORDS, Place, refuse_unknown
from klops.playbook.load.lists import ListLoader
from klops.playbook.load.nodes import (
    Mistakes,
    as_conditions,
    as_tags,
    as_template,
    as_text,
    as_vars,
    is_empty,
)
from klops.playbook.load.notifications import check_notifications
from klops.playbook.load.playkeywords import of_play, patterns, vars_files
from klops.playbook.load.tasks import Around, Registry, short_name
from klops.playbook.model import Item, Play, Playbook, Task, tasks_of
from klops.playbook.template.templar import is_template
from klops.userfolders import expanded
from klops.yamlsource import MappingNode, Node, ScalarNode, SequenceNode, load_file, nearest

_IMPORT = "import_playbook"


def load_playbook(path: str | Path, registry: Registry) -> Playbook:
    """The playbook in a file. Raises :class:`SourceErrors` with every mistake found.

    Files that it imports or includes are read, too, and so are files of variables, wherever their names hold
    no template.
    """
    file = Path(path)
    mistakes = Mistakes()
    plays = _Plays(registry, mistakes).of_file(file, load_file(file, mistakes.found), _Outer())
    if mistakes.found:
        raise SourceErrors(mistakes.found)
    return Playbook(file, tuple(plays))


@dataclass(frozen=True)
class _Outer:
    """What an ``import_playbook`` gives to the plays it imports."""

    when: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    vars: tuple[tuple[str, Node], ...] = ()
    #: resolved files that import one another down to this one
    chain: tuple[Path, ...] = ()


class _Plays:
    def __init__(self, registry: Registry, mistakes: Mistakes) -> None:
        self._registry = registry
        self._mistakes = mistakes

    def of_file(self, file: Path, root: Node | None, outer: _Outer) -> list[Play]:
        add = self._mistakes.add
        if root is None:
            add(Location(str(file)), "an empty playbook", "a playbook is a list of plays")
            return []
        if not isinstance(root, SequenceNode):
            add(root.location, "a playbook is a list of plays", "begin each with '- hosts:'")
            return []
        return _told_apart(file, [play for item in root.items for play in self._entry(file, item, outer)])

    def _entry(self, file: Path, node: Node, outer: _Outer) -> list[Play]:
        if not isinstance(node, MappingNode):
            self._mistakes.add(node.location, "a play is a mapping", "it has at least hosts and tasks")
            return []
        for key, value in node.entries:
            if short_name(key.text) == _IMPORT:
                return self._import(file, node, key, value, outer)
        return [self._play(file, node, outer)]

    # -- imports ---------------------------------------------------------------------------------------------

    def _import(
        self, file: Path, node: MappingNode, key: ScalarNode, value: Node, outer: _Outer
    ) -> list[Play]:
        add = self._mistakes.add
        refuse_unknown(node, Place.IMPORT_PLAYBOOK, self._mistakes, but=[key.text])
        when = node.get("when")
        conditions = () if when is None else as_conditions(when, "when", self._mistakes)
        own_vars = as_vars(node.get("vars"), self._mistakes)
        inner = _Outer(
            when=(*outer.when, *conditions),
            tags=(*as_tags(node.get("tags"), self._mistakes), *outer.tags),
            # as in Ansible those of an import win over those of the play, and the outermost import over all
            vars=tuple({**own_vars, **dict(outer.vars)}.items()),
            chain=(*outer.chain, file.resolve()),
        )
        name = as_text(value, key.text, self._mistakes)
        if not name:
            return []
        if is_template(name):
            hint = "write the name, and give the import a when"
            add(value.location, f"{key.text} takes no templates: it is read before anything is known", hint)
            return []
        imported = file.parent / expanded(name)
        if imported.resolve() in inner.chain:
            circle = [*inner.chain[inner.chain.index(imported.resolve()) :], imported.resolve()]
            names = " -> ".join(part.name for part in circle)
            add(value.location, f"playbooks that import one another in a circle: {names}")
            return []
        if not imported.is_file():
            folder = imported.parent
            near = nearest(imported.name, [f.name for f in folder.iterdir()] if folder.is_dir() else [])
            hint = f"did you mean {near}?" if near else "the name counts from the file that imports it"
            add(value.location, f"no playbook {name!r} in {folder}", hint)
            return []
        noted: list[Mistake] = []
        try:
            root = load_file(imported, noted)
        except SourceErrors as error:
            self._mistakes.add_all(error.mistakes)
            return []
        self._mistakes.add_all(noted)
        return self.of_file(imported, root, inner)

    # -- plays -----------------------------------------------------------------------------------------------

    def _play(self, file: Path, node: MappingNode, outer: _Outer) -> Play:
        mistakes = self._mistakes
        refuse_unknown(node, Place.PLAY, mistakes)
        hosts = node.get("hosts")
        # a key that is a misspelt hosts is one mistake, not two
        if hosts is None and "hosts" not in {nearest(key.text, PLAY_KEYWORDS) for key, _ in node.entries}:
            mistakes.add(node.location, "a play needs hosts", "hosts: all, or a group's name")
        handed_down = HandedDown(tags=outer.tags, play_file=file).inside(
            taskkeywords.handed_down(node, Place.PLAY, mistakes)
        )
        lists = ListLoader(self._registry, mistakes)
        around = Around(file, replace(handed_down, when=outer.when))
        sections = {
            key: tuple(lists.items(node.get(key), key, around))
            for key in ("pre_tasks", "tasks", "post_tasks")
        }
        # handlers don't get the conditions of an import, as in Ansible
        within = Around(file, replace(handed_down, handlers=True, loaded={}))
        handlers = _flat(lists.items(node.get("handlers"), "handlers", within))
        tasks = [*tasks_of([item for items in sections.values() for item in items]), *lists.found_inside]
        check_notifications(tasks, handlers, mistakes)
        found = patterns(hosts, mistakes)
        name = node.get("name")
        given_name = None if name is None or is_empty(name) else as_template(name, "name", mistakes)
        return Play(
            name=", ".join(found) if given_name is None else given_name,
            hosts=found,
            location=node.location,
            file=file,
            vars={**as_vars(node.get("vars"), mistakes), **dict(outer.vars)},
            vars_files=vars_files(node.get("vars_files"), file, mistakes),
            handlers=handlers,
            become=handed_down.become,
            become_user=handed_down.become_user,
            any_errors_fatal=handed_down.any_errors_fatal,
            pre_tasks=sections["pre_tasks"],
            tasks=sections["tasks"],
            post_tasks=sections["post_tasks"],
            **of_play(node, mistakes),
        )


def _told_apart(file: Path, plays: list[Play]) -> list[Play]:
    """Plays, those of ``file`` with names of which no two are the same."""
    seen: Counter[str] = Counter()
    kept: dict[int, str] = {}
    for place, play in enumerate(plays):
        if play.file == file:
            seen[play.name] += 1
            kept[place] = play.name if seen[play.name] == 1 else f"{play.name} ({seen[play.name]})"
    siblings = tuple(kept.values())
    return [
        replace(play, kept_as=kept[place], siblings=siblings) if place in kept else play
        for place, play in enumerate(plays)
    ]


def _flat(items: list[Item]) -> tuple[Task, ...]:
    """Handlers: blocks among them were refused."""
    return tuple(item for item in items if isinstance(item, Task))
