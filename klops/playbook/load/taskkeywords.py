"""Read the keywords of plays, blocks and tasks that end up in a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from klops.errors import Location
from klops.inventory.connection import VARIABLES as CONNECTION
from klops.playbook.handdown import HANDED_DOWN
from klops.playbook.load.keywords import Place, supported
from klops.playbook.load.nodes import (
    Mistakes,
    Placed,
    as_bool,
    as_bool_or_template,
    as_conditions,
    as_environment,
    as_list_or_template,
    as_number,
    as_tags,
    as_template,
    as_text,
    as_texts,
    as_vars,
    check_name,
    check_templates,
    is_empty,
)
from klops.playbook.model import LoopControl, Retry
from klops.yamlsource import MappingNode, Node, ScalarNode, SequenceNode, nearest, to_python

#: connection variables that a keyword stands for
_KEYWORDS = {
    "ansible_become": "become",
    "ansible_become_user": "become_user",
    "ansible_sudo_user": "become_user",
}
_ELSEWHERE = ("ansible_host", "ansible_ssh_host", "ansible_connection")
LOOP_CONTROL = ("loop_var", "index_var", "label", "pause", "extended", "break_when")


def handed_down(node: MappingNode, place: Place, mistakes: Mistakes) -> dict[str, Any]:
    """Keywords in ``node`` that hold for what is within it, those that are given only."""
    found: dict[str, Any] = {}
    for name in _READERS:
        value = node.get(name)
        if name == "vars" and place is Place.PLAY:
            continue  # they have a place of their own among the sources of variables
        if value is not None and name in supported(place):
            found[name] = _READERS[name](value, mistakes)
    method = node.get("become_method")
    if method is not None and as_text(method, "become_method", mistakes) not in ("sudo", ""):
        mistakes.add(method.location, "become_method is sudo", "there is no other way to become another user")
    return found


def _variables(node: Node, mistakes: Mistakes) -> dict[str, Any]:
    found = as_vars(node, mistakes)
    for name, value in found.items():
        refuse_connection(name, value.location, mistakes)
    return {name: to_python(value) for name, value in found.items()}


def refuse_connection(name: str, where: Location, mistakes: Mistakes) -> None:
    """Note a variable that says how a host is reached: that is settled before the first task runs."""
    if name in CONNECTION:
        hint = "put it into the inventory, the vars of the play, or -e"
        if name in _KEYWORDS:
            hint = f"use the keyword {_KEYWORDS[name]}"
        elif name in _ELSEWHERE:
            hint += "; for a task that runs elsewhere: delegate_to"
        mistakes.add(where, f"{name} says how a host is reached, and no task can change that", hint)


def _check_mode(node: Node, mistakes: Mistakes) -> bool:
    before = len(mistakes.found)
    found = as_bool(node, "check_mode", mistakes)
    if not found and len(mistakes.found) == before:
        hint = "leave it out; what reads only runs in check mode anyway"
        mistakes.add(node.location, "check_mode: false: no task can override check mode", hint)
    return found


def _named(read: Callable[[Node, str, Mistakes], Any], key: str) -> Callable[[Node, Mistakes], Any]:
    return lambda node, mistakes: read(node, key, mistakes)


def _notify(node: Node, mistakes: Mistakes) -> tuple[str, ...]:
    check_templates(node, mistakes)
    items = node.items if isinstance(node, SequenceNode) else (node,)
    texts = ((as_text(item, "notify", mistakes), item.location) for item in items)
    return tuple(Placed(text, where) for text, where in texts if text)


_READERS: dict[str, Callable[[Node, Mistakes], Any]] = {
    "when": _named(as_conditions, "when"),
    "vars": _variables,
    "tags": as_tags,
    "notify": _notify,
    "environment": as_environment,
    "check_mode": _check_mode,
    "throttle": lambda node, mistakes: as_number(node, "throttle", mistakes, whole=True, template=False),
    **{
        name: _named(as_bool, name)
        for name in ("diff", "no_log", "run_once", "any_errors_fatal", "delegate_facts")
    },
    **{name: _named(as_bool_or_template, name) for name in ("become", "ignore_errors", "ignore_unreachable")},
    **{name: _named(as_template, name) for name in ("become_user", "delegate_to")},
}
#: what isn't written as a keyword of its own
_MADE = frozenset(["include_vars"])
assert _READERS.keys() == set(HANDED_DOWN) - _MADE  # noqa: S101 - the two lists are one, written twice


def of_task(node: MappingNode, mistakes: Mistakes) -> dict[str, Any]:
    """Keywords that are a task's own, as fields of ``Task``; those of a handler too."""
    register = node.get("register")
    if isinstance(register, ScalarNode):
        check_name(register, mistakes)
    loop = node.get("loop")
    control = node.get("loop_control")
    if control is not None and loop is None and not any(k.text.startswith("with_") for k, _ in node.entries):
        mistakes.add(control.location, "loop_control without a loop", "add loop, or leave it out")
    return {
        "loop": None if loop is None else as_list_or_template(loop, "loop", mistakes),
        "loop_control": LoopControl() if control is None else _loop_control(control, mistakes),
        "register": as_text(register, "register", mistakes) if register is not None else "",
        "retry": _retry(node, mistakes),
        "failed_when": _own_conditions(node, "failed_when", mistakes),
        "changed_when": _own_conditions(node, "changed_when", mistakes),
        "listen": _listen(node.get("listen"), mistakes),
    }


def _own_conditions(node: MappingNode, key: str, mistakes: Mistakes) -> tuple[str, ...] | None:
    # an empty list is as good as none, as in Ansible
    return as_conditions(node.get(key), key, mistakes) or None


def _listen(node: Node | None, mistakes: Mistakes) -> tuple[str, ...]:
    topics = as_texts(node, "listen", mistakes)
    if node is not None and any("{{" in topic for topic in topics):
        mistakes.add(node.location, "listen takes no templates", "write the topic as it is")
    return topics


def _retry(node: MappingNode, mistakes: Mistakes) -> Retry | None:
    until, retries, delay = node.get("until"), node.get("retries"), node.get("delay")
    if until is None and retries is None:
        if delay is not None:
            mistakes.add(delay.location, "delay without until or retries", "add until, or leave it out")
        return None
    conditions = as_conditions(until, "until", mistakes)
    if not conditions and retries is None:
        return None
    given: dict[str, Any] = {}
    if retries is not None:
        given["retries"] = as_number(retries, "retries", mistakes, whole=True)
    if delay is not None:
        given["delay"] = as_number(delay, "delay", mistakes, whole=False)
    return Retry(until=conditions, **given)


def _loop_control(node: Node, mistakes: Mistakes) -> LoopControl:
    if is_empty(node):
        return LoopControl()
    if not isinstance(node, MappingNode):
        mistakes.add(node.location, "loop_control is a mapping", f"it has: {', '.join(LOOP_CONTROL)}")
        return LoopControl()
    given: dict[str, Any] = {}
    for key, value in node.entries:
        name = key.text
        if name in ("loop_var", "index_var"):
            if isinstance(value, ScalarNode):
                check_name(value, mistakes)
            given[name] = as_text(value, name, mistakes)
        elif name == "label":
            check_templates(value, mistakes)
            given[name] = to_python(value)
        elif name == "pause":
            given[name] = as_number(value, name, mistakes, whole=False)
        elif name == "extended":
            given[name] = as_bool(value, name, mistakes)
        elif name == "break_when":
            given[name] = as_conditions(value, name, mistakes)
        elif name == "extended_allitems":
            hint = "leave it out: extended gives ansible_loop.allitems always, at no cost"
            mistakes.add(key.location, "extended_allitems in loop_control is not supported", hint)
        else:
            near = nearest(name, LOOP_CONTROL)
            hint = f"did you mean {near}?" if near else f"it has: {', '.join(LOOP_CONTROL)}"
            mistakes.add(key.location, f"loop_control has no {name!r}", hint)
    return LoopControl(**given)
