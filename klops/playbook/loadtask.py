"""Read one task: its keywords, its one module, and that module's parameters."""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from klops.actions.base import Action
from klops.errors import Location
from klops.playbook import params
from klops.playbook.keywords import not_supported
from klops.playbook.localfiles import is_missing, missing
from klops.playbook.model import Task
from klops.playbook.nodes import (
    Mistakes,
    as_bool,
    as_tags,
    as_text,
    as_texts,
    as_vars,
    check_name,
    check_templates,
)
from klops.playbook.template import is_template, literal, syntax_error
from klops.yamlsource import MappingNode, Node, ScalarNode, SequenceNode, nearest, to_python

#: Keywords and parameters whose expressions are conditions.
_CONDITIONS = ("when", "that")
_COLLECTIONS = ("ansible.builtin.", "ansible.legacy.")
#: Characters of parameters in the name of a task that has none.
_SHOWN = 60


def short_name(word: str) -> str:
    """A module's name without Ansible's built-in collection."""
    for prefix in _COLLECTIONS:
        word = word.removeprefix(prefix)
    return word


def _shown(action: Action[Any], given: Mapping[str, Any]) -> str:
    """The name of a task that has none: its module, and its parameters as they are written."""
    parts = (str(value) if key == action.free_form else f"{key}={value}" for key, value in given.items())
    text = " ".join(" ".join(parts).split())
    text = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return f"{action.name} {text}".rstrip()


class TaskLoader:
    """Reads the tasks of one play in ``file``; ``tags`` are the play's, which its tasks inherit."""

    def __init__(
        self, file: Path, registry: Mapping[str, Action[Any]], mistakes: Mistakes, tags: tuple[str, ...]
    ) -> None:
        self._file = file
        self._registry = registry
        self._mistakes = mistakes
        self._tags = tags

    def task(self, node: Node, keywords: Set[str]) -> Task | None:
        """The task in ``node``, or None when it can't be made; mistakes are noted either way."""
        if not isinstance(node, MappingNode):
            self._mistakes.add(node.location, "a task is a mapping", "a name, a module, and its parameters")
            return None
        found = self._module(node, keywords)
        common = self._keywords(node)
        if found is None:
            return None
        action, key, value = found
        given = self._entries(action, key, value)
        if given is None:
            return None
        entries, keys = given
        self._add_args(node.get("args"), entries, keys)
        self._check(action, entries, keys, key.location)
        name = node.get("name")
        read = params.read(action, entries)
        unnamed = action.name if common["no_log"] else _shown(action, read)
        return Task(
            name=as_text(name, "name", self._mistakes) if name is not None else unnamed,
            action=action,
            params=read,
            location=node.location,
            **common,
        )

    def _module(self, node: MappingNode, keywords: Set[str]) -> tuple[Action[Any], ScalarNode, Node] | None:
        add = self._mistakes.add
        others = [(key, value) for key, value in node.entries if key.text not in keywords]
        modules = [(key, value) for key, value in others if short_name(key.text) in self._registry]
        for key, _ in others:
            word = short_name(key.text)
            if word in self._registry:
                continue
            hint = not_supported(word, "task")
            if hint:
                add(key.location, f"{word} on a task is not supported yet", hint)
                continue
            near = nearest(word, [*self._registry, *keywords])
            text = (
                f"there is no module {word!r}"
                if not modules
                else f"{word!r} is neither a keyword nor a module"
            )
            add(
                key.location,
                text,
                f"did you mean {near}?" if near else f"modules: {', '.join(sorted(self._registry))}",
            )
        if not others:
            add(node.location, "a task needs a module", f"modules: {', '.join(sorted(self._registry))}")
        for key, _ in modules[1:]:
            add(
                key.location,
                f"a second module in one task: {key.text} after {modules[0][0].text}",
                "make it two tasks",
            )
        if not modules:
            return None
        key, value = modules[0]
        return self._registry[short_name(key.text)], key, value

    def _entries(
        self, action: Action[Any], key: ScalarNode, value: Node
    ) -> tuple[dict[str, Node], dict[str, Location]] | None:
        """The parameters and the places of their keys, or None when what is given can't be parameters."""
        if isinstance(value, MappingNode):
            entries = {name.text: node for name, node in value.entries}
            return entries, {name.text: name.location for name, _ in value.entries}
        if isinstance(value, ScalarNode) and value.value is None:
            return {}, {}
        if isinstance(value, ScalarNode) and action.free_form:
            return {action.free_form: value}, {action.free_form: value.location}
        if isinstance(value, ScalarNode):
            hint = "one line each, such as 'dest: /etc/motd'"
            self._mistakes.add(value.location, f"{key.text} takes its parameters as a mapping", hint)
        else:
            self._mistakes.add(value.location, f"{key.text} takes a mapping of parameters, not a list")
        return None

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
        self, action: Action[Any], entries: Mapping[str, Node], keys: Mapping[str, Location], where: Location
    ) -> None:
        known = params.fields(action)
        for key, value in entries.items():
            if params.is_expression(known.get(key)):
                self._expressions(value, key)
            else:
                check_templates(value, self._mistakes)
            if params.takes_any_name(action) and not key.isidentifier():
                hint = "letters, digits and _ only"
                self._mistakes.add(keys[key], f"{key!r} is no name for a variable", hint)
        self._mistakes.found.extend(params.mistakes(action, entries, keys, where))
        self._local_files(action, entries)

    def _local_files(self, action: Action[Any], entries: Mapping[str, Node]) -> None:
        """Files of the project that aren't there: told now, not after earlier tasks have changed things.

        One with an absolute path is no part of the project: a task before may make it on this machine.
        """
        for key, kind in action.local_files.items():
            node = entries.get(key)
            if not isinstance(node, ScalarNode) or not node.text or is_template(node.text):
                continue
            if not node.text.startswith(("/", "~")) and is_missing(self._file, kind, node.text):
                error = missing(self._file, kind, node.text)
                self._mistakes.add(node.location, error.message, error.hint)

    # -- keywords --------------------------------------------------------------------------------------------

    def _keywords(self, node: MappingNode) -> dict[str, Any]:
        mistakes = self._mistakes
        register = node.get("register")
        if isinstance(register, ScalarNode):
            check_name(register, mistakes)
        own_tags = as_tags(node.get("tags"), mistakes)
        notify = node.get("notify")
        if notify is not None:
            check_templates(notify, mistakes)
        no_log = node.get("no_log")
        return {
            "when": self._expressions(node.get("when"), "when"),
            "vars": {name: to_python(value) for name, value in as_vars(node.get("vars"), mistakes).items()},
            "loop": self._loop(node),
            "register": as_text(register, "register", mistakes) if register is not None else "",
            "tags": tuple(dict.fromkeys((*self._tags, *own_tags))),
            "notify": as_texts(notify, "notify", mistakes),
            "check_mode": self._check_mode(node.get("check_mode")),
            "no_log": as_bool(no_log, "no_log", mistakes) if no_log is not None else False,
        }

    def _expressions(self, node: Node | None, key: str) -> tuple[str, ...]:
        if node is None:
            return ()
        texts: list[str] = []
        for item in node.items if isinstance(node, SequenceNode) else (node,):
            text = as_text(item, key, self._mistakes)
            self._check_expression(item, key, text)
            texts.append(text)
        return tuple(texts)

    def _check_expression(self, node: Node, key: str, text: str) -> None:
        add = self._mistakes.add
        if is_template(text):
            hint = "it is an expression already: leave the braces out"
            add(node.location, f"{key} takes no {{{{ }}}}", hint)
        elif not isinstance(node, ScalarNode) or node.value is None:
            return  # said already: it is no text at all
        elif not text.strip():
            add(node.location, f"{key} is empty", "write an expression, or leave it out")
        elif problem := syntax_error(text, expression=True):
            add(node.location, f"{key}: {problem}")
        elif key in _CONDITIONS:
            kind, right = literal(text), str(node.value).lower()
            if kind not in ("", "bool"):
                hint = "compare something, or write true or false"
                add(node.location, f"{key}: {text} is {kind}, not true or false", hint)
            elif node.plain and isinstance(node.value, bool) and not kind:
                # in an expression the words of YAML 1.1 are names of variables
                add(node.location, f"{key}: {text} is no expression", f"write {right}")

    def _loop(self, task: MappingNode) -> Any:
        node = task.get("loop")
        if node is None:
            return None
        check_templates(node, self._mistakes)
        if isinstance(node, SequenceNode) or (isinstance(node, ScalarNode) and is_template(node.text)):
            return to_python(node)
        self._mistakes.add(node.location, "loop is a list, or a template that gives one")
        return None

    def _check_mode(self, node: Node | None) -> bool:
        if node is None:
            return False
        if as_bool(node, "check_mode", self._mistakes):
            return True
        if isinstance(node, ScalarNode) and node.value is False:
            hint = "leave it out; what reads only runs in check mode anyway"
            self._mistakes.add(node.location, "check_mode: false: no task can override check mode", hint)
        return False
