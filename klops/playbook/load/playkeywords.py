"""Read the keywords that only plays have."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeGuard

from klops.errors import SourceErrors
from klops.playbook.load.nodes import (
    Mistakes,
    as_bool,
    as_bool_or_template,
    as_text,
    check_templates,
    is_empty,
)
from klops.playbook.load.varsfiles import find_vars_file, not_found, read_vars_file
from klops.playbook.model import VarsFile
from klops.playbook.playvalues import PERCENTAGE, SERIAL, batch_size, percentage
from klops.playbook.template.templar import is_template
from klops.yamlsource import MappingNode, Node, ScalarNode, SequenceNode, nearest

STRATEGIES = ("linear", "free")
ORDERS = ("inventory", "reverse_inventory", "sorted", "reverse_sorted", "shuffle")
_BUILTIN = "ansible.builtin."
#: strategies of Ansible's that klops lacks -> what to use instead
_OTHER_STRATEGIES = {
    "host_pinned": "free, with throttle or --forks for how many hosts at a time",
    "debug": "linear, with -v and --start-at-task",
}


def of_play(node: MappingNode, mistakes: Mistakes) -> dict[str, Any]:
    """Fields of ``Play``, those that are given only."""
    found: dict[str, Any] = {}
    facts = node.get("gather_facts")
    if facts is not None:
        as_bool_or_template(facts, "gather_facts", mistakes)  # all mean the same: facts are read on demand
    if (serial := node.get("serial")) is not None:
        found["serial"] = _serial(serial, mistakes)
    if (most := node.get("max_fail_percentage")) is not None:
        found["max_fail_percentage"] = _percentage(most, mistakes)
    if (strategy := node.get("strategy")) is not None:
        found["strategy"] = _strategy(strategy, mistakes)
    if (order := node.get("order")) is not None:
        found["order"] = _one_of("order", as_text(order, "order", mistakes), ORDERS, order, mistakes)
    if (force := node.get("force_handlers")) is not None:
        found["force_handlers"] = as_bool(force, "force_handlers", mistakes)
    return found


def patterns(node: Node | None, mistakes: Mistakes) -> tuple[str, ...]:
    """``hosts``: one text or a list, as typed."""
    if node is None:
        return ()
    check_templates(node, mistakes)
    items = node.items if isinstance(node, SequenceNode) else (node,)
    found = tuple(as_text(item, "hosts", mistakes) for item in items)
    if not any(pattern.strip() for pattern in found):
        mistakes.add(node.location, "hosts is empty", "an empty pattern never means all: write all")
    return found


def vars_files(node: Node | None, play_file: Path, mistakes: Mistakes) -> tuple[VarsFile, ...]:
    """``vars_files``; one whose names hold no templates must be there, and be right."""
    if node is None or is_empty(node):
        return ()
    found: list[VarsFile] = []
    for item in node.items if isinstance(node, SequenceNode) else (node,):
        check_templates(item, mistakes)
        choices = item.items if isinstance(item, SequenceNode) else (item,)
        paths = tuple(filter(None, (as_text(choice, "vars_files", mistakes) for choice in choices)))
        if not paths:
            continue
        found.append(VarsFile(paths, item.location))
        if not any(map(is_template, paths)):
            _look_inside(found[-1], play_file, mistakes)
    return tuple(found)


def _look_inside(entry: VarsFile, play_file: Path, mistakes: Mistakes) -> None:
    file = find_vars_file(play_file, entry.paths)
    if file is None:
        mistakes.add(entry.location, *not_found(play_file, entry.paths))
        return
    try:
        read_vars_file(file)
    except SourceErrors as error:
        for mistake in error.mistakes:
            mistakes.add(mistake.location, mistake.message, mistake.hint)


def _serial(node: Node, mistakes: Mistakes) -> tuple[Any, ...]:
    found: list[Any] = []
    for item in node.items if isinstance(node, SequenceNode) else (node,):
        if _is_template(item, mistakes):
            found.append(item.text)
            continue
        try:
            found.append(batch_size(item.text if isinstance(item, ScalarNode) else ""))
        except ValueError:
            mistakes.add(item.location, SERIAL, "or a list of these; 0 is all at once")
    return tuple(found)


def _percentage(node: Node, mistakes: Mistakes) -> Any:
    if _is_template(node, mistakes):
        return node.text
    try:
        return percentage(node.text if isinstance(node, ScalarNode) else "")
    except ValueError:
        mistakes.add(node.location, PERCENTAGE)
        return None


def _is_template(node: Node, mistakes: Mistakes) -> TypeGuard[ScalarNode]:
    if not isinstance(node, ScalarNode) or not is_template(node.text):
        return False
    check_templates(node, mistakes)
    return True


def _strategy(node: Node, mistakes: Mistakes) -> str:
    text = as_text(node, "strategy", mistakes).removeprefix(_BUILTIN)
    if text in _OTHER_STRATEGIES:
        text_of_it = f"the strategy {text} is not supported"
        mistakes.add(node.location, text_of_it, f"instead: {_OTHER_STRATEGIES[text]}")
        return STRATEGIES[0]
    return _one_of("strategy", text, STRATEGIES, node, mistakes)


def _one_of(key: str, text: str, choices: tuple[str, ...], node: Node, mistakes: Mistakes) -> str:
    if text in choices or not text:
        return text or choices[0]
    near = nearest(text, choices)
    hint = f"did you mean {near}?" if near else f"one of: {', '.join(choices)}"
    mistakes.add(node.location, f"{key} is not {text!r}", hint)
    return choices[0]
