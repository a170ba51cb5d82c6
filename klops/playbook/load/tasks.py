"""Read one task: its keywords, its one module, and that module's parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from klops.actions.base import Action
from klops.errors import Location
from klops.playbook import params
from klops.playbook.handdown import HandedDown
from klops.playbook.load import foreign, freeform, taskkeywords
from klops.playbook.load.keywords import Place, refuse_unknown, supported, why_not
from klops.playbook.load.nodes import Mistakes, as_expression, as_template, check_templates, is_empty
from klops.playbook.localfiles import is_missing, missing, places
from klops.playbook.model import Task
from klops.playbook.template.jinja import OVERRIDES
from klops.playbook.template.templar import file_problem, is_template
from klops.yamlsource import MappingNode, Node, ScalarNode, SequenceNode, nearest

Registry = Mapping[str, Action[Any]]

INCLUDE = "include_tasks"
COLLECTIONS = ("ansible.builtin.", "ansible.legacy.")
#: Characters of parameters in the name of a task that has none.
_SHOWN = 60


@dataclass(frozen=True)
class Around:
    """Where a list of tasks stands."""

    file: Path
    handed_down: HandedDown
    #: resolved files that import one another down to this one
    chain: tuple[Path, ...] = ()

    @property
    def handlers(self) -> bool:
        """Whether it is a list of handlers."""
        return self.handed_down.handlers

    @property
    def files(self) -> tuple[Path, ...]:
        """Files beside which other files are looked for."""
        return self.file, self.handed_down.play_file


def short_name(word: str) -> str:
    """A module's name without Ansible's built-in collection."""
    for prefix in COLLECTIONS:
        word = word.removeprefix(prefix)
    return word


def _shown(action: Action[Any], given: Mapping[str, Any]) -> str:
    """The name of a task that has none: its module, and its parameters as they are written."""
    parts = (str(value) if key == action.free_form else f"{key}={value}" for key, value in given.items())
    text = " ".join(" ".join(parts).split())
    text = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return f"{action.name} {text}".rstrip()


class TaskLoader:
    """Reads single tasks of a play."""

    def __init__(self, registry: Registry, mistakes: Mistakes) -> None:
        self._registry = registry
        self._mistakes = mistakes

    def task(self, node: MappingNode, around: Around) -> Task | None:
        """The task in ``node``, or None when it can't be made; mistakes are noted either way."""
        found = self._module(node, around)
        including = found is not None and found[0].name == INCLUDE
        place = Place.INCLUDE_TASKS if including else Place.HANDLER if around.handlers else Place.TASK
        inside = around.handed_down.inside(taskkeywords.handed_down(node, place, self._mistakes))
        own = taskkeywords.of_task(node, self._mistakes)
        name = node.get("name")
        given_name = "" if name is None or is_empty(name) else as_template(name, "name", self._mistakes)
        if found is None:
            return None
        action, key, value = found
        given = self._entries(action, key, value)
        if given is None:
            return None
        entries, keys = given
        self._add_args(node.get("args"), entries, keys)
        self._check(action, entries, keys, key.location, around)
        handed_down = self._for_included(node, entries, around) if including else None
        if including:
            # taken in now: its templates are for the tasks of the file
            entries.pop("apply", None)
        read = params.read(action, entries)
        return Task(
            name=given_name or (action.name if inside.no_log else _shown(action, read)),
            action=action,
            params=read,
            location=node.location,
            file=around.file,
            handed_down=handed_down,
            **own,
            **inside.for_task(),
        )

    # -- the module ------------------------------------------------------------------------------------------

    def _module(self, node: MappingNode, around: Around) -> tuple[Action[Any], ScalarNode, Node] | None:
        add = self._mistakes.add
        place = Place.HANDLER if around.handlers else Place.TASK
        known = supported(place)
        others = [(key, value) for key, value in node.entries if key.text not in known]
        modules = [(key, value) for key, value in others if short_name(key.text) in self._registry]
        including = bool(modules) and short_name(modules[0][0].text) == INCLUDE
        if including:
            self._refuse_on_include(node, modules[0][0], around)
        for key, _ in others:
            word = short_name(key.text)
            if word not in self._registry:
                self._unknown(key, word, known, Place.INCLUDE_TASKS if including else place, bool(modules))
        if not others:
            add(node.location, "a task needs a module", f"modules: {', '.join(sorted(self._registry))}")
        for key, _ in modules[1:]:
            text = f"a second module in one task: {key.text} after {modules[0][0].text}"
            add(key.location, text, "make it two tasks")
        if not modules:
            return None
        key, value = modules[0]
        return self._registry[short_name(key.text)], key, value

    def _unknown(
        self, key: ScalarNode, word: str, known: Iterable[str], place: Place, with_module: bool
    ) -> None:
        add = self._mistakes.add
        if hint := why_not(word, place):
            where = "an include_tasks" if place is Place.INCLUDE_TASKS else f"a {place.value}"
            add(key.location, f"{word} on {where} is not supported", hint)
            return
        if not with_module and (instead := foreign.instead_of(key.text)):
            add(key.location, f"there is no module {key.text!r} in klops", f"instead: {instead}")
            return
        near = nearest(word, [*self._registry, *known])
        text = (
            f"{word!r} is neither a keyword nor a module" if with_module else f"there is no module {word!r}"
        )
        hint = f"did you mean {near}?" if near else f"modules: {', '.join(sorted(self._registry))}"
        add(key.location, text, hint)

    def _refuse_on_include(self, node: MappingNode, module: ScalarNode, around: Around) -> None:
        """Keywords that tasks may have and an include may not: it hands nothing down but its ``vars``."""
        allowed = supported(Place.INCLUDE_TASKS) | ({"listen"} if around.handlers else set())
        of_tasks = supported(Place.HANDLER if around.handlers else Place.TASK)
        for key, _ in node.entries:
            if key is not module and key.text in of_tasks and key.text not in allowed:
                hint = why_not(key.text, Place.INCLUDE_TASKS)
                self._mistakes.add(key.location, f"{key.text} on an include_tasks is not supported", hint)

    # -- its parameters --------------------------------------------------------------------------------------

    def _entries(
        self, action: Action[Any], key: ScalarNode, value: Node
    ) -> tuple[dict[str, Node], dict[str, Location]] | None:
        """The parameters and the places of their keys, or None when what is given can't be parameters."""
        if isinstance(value, MappingNode):
            entries = {name.text: node for name, node in value.entries}
            return entries, {name.text: name.location for name, _ in value.entries}
        if is_empty(value):
            return {}, {}
        if isinstance(value, ScalarNode):
            return self._from_text(action, key, value)
        self._mistakes.add(value.location, f"{key.text} takes a mapping of parameters, not a list")
        return None

    def _from_text(
        self, action: Action[Any], key: ScalarNode, value: ScalarNode
    ) -> tuple[dict[str, Node], dict[str, Location]] | None:
        add = self._mistakes.add
        hidden = freeform.hidden_options(action.name, value.text)
        if hidden:
            hint = (
                f"write it under args: {freeform.args(value.text)}; if it is for the program, quote the word"
            )
            add(value.location, f"{key.text}: {' '.join(hidden)} stands within the text of the command", hint)
        elif action.free_form and (action.name in freeform.PROGRAMS or not self._is_old(action, value.text)):
            return {action.free_form: value}, {action.free_form: value.location}
        else:
            before = len(self._mistakes.found)
            check_templates(value, self._mistakes)
            # what is wrong is not to be pasted
            wrong = len(self._mistakes.found) > before
            old = "" if wrong else freeform.mapping(key.text, value.text)
            hint = f"write it as {old}" if old else "one line each, such as 'dest: /etc/motd'"
            add(value.location, f"{key.text} takes its parameters as a mapping", hint)
        return None

    def _is_old(self, action: Action[Any], text: str) -> bool:
        """Whether a text is Ansible's old form: it begins with the name of a parameter and ``=``."""
        first = next(freeform.pairs(text), None)
        return first is not None and first[0] in params.fields(action) and text.lstrip().startswith(first[0])

    def _add_args(self, node: Node | None, entries: dict[str, Node], keys: dict[str, Location]) -> None:
        if node is None:
            return
        if not isinstance(node, MappingNode):
            self._mistakes.add(node.location, "args is a mapping of parameters")
            return
        for key, value in node.entries:
            if key.text in entries:
                self._mistakes.add(key.location, f"{key.text!r} is given twice, here and with the module")
            entries.setdefault(key.text, value)
            keys.setdefault(key.text, key.location)

    def _check(
        self,
        action: Action[Any],
        entries: Mapping[str, Node],
        keys: Mapping[str, Location],
        where: Location,
        around: Around,
    ) -> None:
        known = params.fields(action)
        for key, value in entries.items():
            if params.is_expression(known.get(key)):
                for item in value.items if isinstance(value, SequenceNode) else (value,):
                    as_expression(item, key, self._mistakes, condition=params.is_condition(known[key]))
            else:
                check_templates(value, self._mistakes)
            if params.takes_any_name(action) and key not in known and not key.isidentifier():
                hint = "letters, digits and _ only"
                self._mistakes.add(keys[key], f"{key!r} is no name for a variable", hint)
            elif params.takes_any_name(action) and key not in known:
                taskkeywords.refuse_connection(key, keys[key], self._mistakes)
        self._mistakes.found.extend(
            m for m in params.mistakes(action, entries, keys, where) if m not in self._mistakes.found
        )
        self._local_files(action, entries, around)

    def _local_files(self, action: Action[Any], entries: Mapping[str, Node], around: Around) -> None:
        """Files of the project that aren't there: told now, not after earlier tasks have changed things.

        One with an absolute path is no part of the project: a task before may make it on this machine.
        """
        for key, kind in action.local_files.items():
            node = entries.get(key)
            if not isinstance(node, ScalarNode):
                continue
            name = action.local_name(node.text)
            if not name or is_template(name):
                continue
            if not name.startswith(("/", "~")) and is_missing(around.files, kind, name):
                error = missing(around.files, kind, name)
                self._mistakes.add(node.location, error.message, error.hint)
            elif kind == "templates":
                self._template_file(name, entries, around)

    def _template_file(self, name: str, entries: Mapping[str, Node], around: Around) -> None:
        """Wrong syntax, and names that aren't there, in a template file that is there already."""
        given = {key: entries[key] for key in OVERRIDES if key in entries and key != "newline_sequence"}
        settings = {key: node.value for key, node in given.items() if isinstance(node, ScalarNode)}
        if len(settings) < len(given) or any(is_template(str(value)) for value in settings.values()):
            return
        for place in places(around.files, "templates", name):
            if place.is_file():
                try:
                    source = place.read_bytes().decode("utf-8")
                except (OSError, UnicodeDecodeError):
                    return  # said when the task runs
                line, problem, hint = file_problem(source, settings)
                if problem:
                    self._mistakes.add(Location(str(place), line, 1), f"Jinja2: {problem}", hint)
                return

    # -- includes --------------------------------------------------------------------------------------------

    def _for_included(self, node: MappingNode, entries: Mapping[str, Node], around: Around) -> HandedDown:
        """What the tasks of an included file get: all that is around the include, ``apply`` and its ``vars``.

        As in Ansible neither its ``when`` nor its ``tags`` are theirs, and its ``vars`` win over all others.
        """
        inside = around.handed_down
        apply = entries.get("apply")
        if isinstance(apply, MappingNode):
            refuse_unknown(apply, Place.APPLY, self._mistakes)
            inside = inside.inside(taskkeywords.handed_down(apply, Place.APPLY, self._mistakes))
        elif apply is not None and not is_empty(apply):
            self._mistakes.add(apply.location, "apply is a mapping of keywords", "such as {become: true}")
        own = taskkeywords.handed_down(node, Place.INCLUDE_TASKS, self._mistakes)
        return inside.inside({"include_vars": own.get("vars", {})})
