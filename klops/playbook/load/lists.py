"""Read lists of tasks: blocks, what is imported, and what will be included."""

from __future__ import annotations

import os
from pathlib import Path

from klops.errors import Location, Mistake, SourceErrors
from klops.playbook.load import taskkeywords
from klops.playbook.load.keywords import Place, refuse_unknown
from klops.playbook.load.nodes import Mistakes, as_template, is_empty
from klops.playbook.load.tasks import INCLUDE, Around, Registry, TaskLoader, short_name
from klops.playbook.model import Block, Item, Task, tasks_of
from klops.playbook.template.templar import is_template
from klops.userfolders import expanded
from klops.yamlsource import MappingNode, Node, ScalarNode, SequenceNode, load_file, nearest

IMPORT = "import_tasks"
_SECTIONS = ("block", "rescue", "always")


def load_tasks(path: Path, registry: Registry, include: Task) -> tuple[Item, ...]:
    """The tasks of a file that ``include``, an ``include_tasks``, names, with what is handed down to them.

    A relative ``path`` is looked for beside the file in which ``include`` stands, then beside the play's.
    Handlers that are included are a flat list. The same file for the same task is read once.
    Raises :class:`SourceErrors`.
    """
    mistakes = Mistakes()
    items = ListLoader(registry, mistakes).included(path, include, include.location)
    if mistakes.found:
        raise SourceErrors(mistakes.found)
    return items


def find_file(name: Path, around: Around) -> Path | None:
    """A file of tasks that is named somewhere: beside that file, then beside the play's."""
    given = expanded(str(name))
    for file in around.files:
        place = file.parent / given
        if place.is_file():
            # as a person would write it: a/../b is b
            return Path(os.path.normpath(place))
    return None


class ListLoader:
    """Reads lists of tasks of one play. ``included`` tasks of literal names are read, too, and kept."""

    def __init__(self, registry: Registry, mistakes: Mistakes) -> None:
        self._registry = registry
        self._mistakes = mistakes
        self._tasks = TaskLoader(registry, mistakes)
        #: tasks of files that are included by a literal name, in the order they were found
        self.found_inside: list[Task] = []
        #: files looked into while looking into another one
        self._nested: set[Path] = set()
        self._looking = False

    def items(self, node: Node | None, what: str, around: Around) -> list[Item]:
        """The items of a list of tasks; ``what`` names the list."""
        if node is None or is_empty(node):
            return []
        if not isinstance(node, SequenceNode):
            self._mistakes.add(node.location, f"{what} is a list of tasks", "begin each with '- '")
            return []
        return [item for part in node.items for item in self._item(part, around)]

    def _item(self, node: Node, around: Around) -> list[Item]:
        if not isinstance(node, MappingNode):
            text = "a task is a mapping"
            self._mistakes.add(node.location, text, "a name, a module, and its parameters")
            return []
        if any(node.key(section) for section in _SECTIONS):
            return self._block(node, around)
        for key, value in node.entries:
            if short_name(key.text) == IMPORT:
                return self._import(node, key, value, around)
        task = self._tasks.task(node, around)
        if task is None:
            return []
        if task.handed_down is not None:
            self._look_inside(node, task, around)
        return [task]

    # -- blocks ----------------------------------------------------------------------------------------------

    def _block(self, node: MappingNode, around: Around) -> list[Item]:
        add = self._mistakes.add
        if around.handlers:
            hint = "write its tasks as handlers that listen to one topic"
            add(node.location, "a block can't be a handler", hint)
            return []
        modules = [key for key, _ in node.entries if short_name(key.text) in {*self._registry, IMPORT}]
        for key in modules:
            add(key.location, f"{key.text} beside a block", "make it a task of the block")
        refuse_unknown(node, Place.BLOCK, self._mistakes, but=[key.text for key in modules])
        if is_empty(node.get("block")):
            add(
                node.location, "a block needs tasks", "rescue and always are of a block: list its tasks there"
            )
        name = node.get("name")
        given_name = "" if name is None or is_empty(name) else as_template(name, "name", self._mistakes)
        inside = around.handed_down.inside(taskkeywords.handed_down(node, Place.BLOCK, self._mistakes))
        within = Around(around.file, inside, around.chain)
        block, rescue, always = (tuple(self.items(node.get(s), s, within)) for s in _SECTIONS)
        return [Block(given_name, node.location, block, rescue, always)]

    # -- imports ---------------------------------------------------------------------------------------------

    def _import(self, node: MappingNode, key: ScalarNode, value: Node, around: Around) -> list[Item]:
        refuse_unknown(node, Place.IMPORT_TASKS, self._mistakes, but=[key.text])
        own = taskkeywords.handed_down(node, Place.IMPORT_TASKS, self._mistakes)
        inside = around.handed_down.inside(own)
        name = self._file_of(key, value, node.get("args"))
        if name is None:
            return []
        file = self._find(name, around)
        if file is None or not self._is_no_circle(file, around, name.location):
            return []
        chain = (*around.chain, around.file.resolve())
        return self._of_file(file, Around(file, inside, chain))

    def _file_of(self, key: ScalarNode, value: Node, args: Node | None) -> ScalarNode | None:
        """The name that an import gives, or None for none that can be used."""
        add = self._mistakes.add
        given = args if is_empty(value) and args is not None else value
        if isinstance(given, MappingNode):
            for other, _ in given.entries:
                if other.text != "file":
                    hint = "write it beside import_tasks" if other.text == "apply" else "it has: file"
                    add(other.location, f"{key.text} has no parameter {other.text!r}", hint)
            file = given.get("file")
        else:
            file = given
        if not isinstance(file, ScalarNode) or is_empty(file):
            add(key.location, f"{key.text} needs the name of a file", f"{key.text}: FILE.yml")
            return None
        if is_template(file.text):
            hint = "include_tasks takes templates: its file is found while the play runs"
            add(file.location, f"{key.text} takes no templates: it is read before anything is known", hint)
            return None
        return file

    def _find(self, name: ScalarNode, around: Around) -> Path | None:
        found = find_file(Path(name.text), around)
        if found is None:
            self._no_file(Path(name.text), around, name.location)
        return found

    def _no_file(self, name: Path, around: Around, where: Location) -> None:
        folders = list(dict.fromkeys((file.parent / name).parent for file in around.files))
        beside = [entry.name for folder in folders if folder.is_dir() for entry in folder.iterdir()]
        near = nearest(name.name, beside)
        hint = f"did you mean {near}?" if near else "correct the name, or make the file"
        self._mistakes.add(where, f"no file {str(name)!r} in {' or '.join(map(str, folders))}", hint)

    def _is_no_circle(self, file: Path, around: Around, where: Location) -> bool:
        chain = (*around.chain, around.file.resolve())
        if file.resolve() not in chain:
            return True
        circle = [*chain[chain.index(file.resolve()) :], file.resolve()]
        text = f"files that import one another in a circle: {' -> '.join(part.name for part in circle)}"
        self._mistakes.add(where, text, "include_tasks with a condition may call itself")
        return False

    def _of_file(self, file: Path, around: Around) -> list[Item]:
        noted: list[Mistake] = []
        try:
            root = load_file(file, noted)
        except SourceErrors as error:
            self._mistakes.add_all(error.mistakes)
            return []
        self._mistakes.add_all(noted)
        if isinstance(root, SequenceNode):
            for item in root.items:
                if isinstance(item, MappingNode) and item.key("hosts") is not None:
                    hint = "import_playbook takes plays"
                    self._mistakes.add(item.location, "a play in a file of tasks", hint)
                    return []
        return self.items(root, f"{file.name}", around)

    # -- includes --------------------------------------------------------------------------------------------

    def included(self, path: Path, include: Task, where: Location) -> tuple[Item, ...]:
        """The tasks of a file that ``include`` names; mistakes are noted at ``where`` or in the file."""
        assert include.handed_down is not None  # noqa: S101 - every include_tasks has it
        outer = Around(include.file, include.handed_down)
        file = find_file(path, outer)
        if file is None:
            self._no_file(path, outer, where)
            return ()
        key = file.resolve()
        if key not in include.handed_down.loaded:
            before = len(self._mistakes.found)
            items = tuple(self._of_file(file, Around(file, include.handed_down)))
            if len(self._mistakes.found) > before:
                return items
            # of two threads that read it at once both get the same
            include.handed_down.loaded.setdefault(key, items)
        return include.handed_down.loaded[key]

    def _look_inside(self, node: MappingNode, include: Task, around: Around) -> None:
        """Read a file of a literal name now: what is wrong in it is told before anything runs."""
        name = include.params.get("file")
        if not isinstance(name, str) or not name or is_template(name):
            return
        file = find_file(Path(name), around)
        if self._looking and file is not None:
            # files that include one another, with a condition, are fine: once is enough
            if file.resolve() in self._nested:
                return
            self._nested.add(file.resolve())
        where = next(key.location for key, _ in node.entries if short_name(key.text) == INCLUDE)
        outermost, self._looking = not self._looking, True
        self.found_inside += tasks_of(self.included(Path(name), include, where))
        self._looking = not outermost
