"""Parameters of a task: from the file to typed values, with what each field of an action wants."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Union, get_args, get_origin

from pydantic import AliasChoices, ValidationError
from pydantic.fields import FieldInfo

from klops.actions.base import Action, Params
from klops.actions.fields import AsWritten, Evaluated, IsExpression
from klops.errors import Location, Mistake, TaskFailed
from klops.playbook.template.templar import OMIT, Templar, is_template
from klops.yamlsource import MappingNode, Node, ScalarNode, SequenceNode, nearest, to_python

_MISSING_KEY = "missing"
#: the parameter that is written behind the module's name and nowhere else: no author knows the name
FREE_FORM = "free_form"


def fields(action: Action[Any]) -> dict[str, FieldInfo]:
    """Fields of an action by every key under which a playbook may give them."""
    found: dict[str, FieldInfo] = {}
    for name, info in action.params.model_fields.items():
        alias = info.validation_alias
        if isinstance(alias, AliasChoices):
            for choice in alias.choices:
                found[str(choice)] = info
        else:
            found[str(alias or name)] = info
    return found


def is_expression(info: FieldInfo | None) -> bool:
    """Whether a field holds Jinja2 expressions without braces."""
    return info is not None and any(isinstance(mark, IsExpression) for mark in info.metadata)


def is_condition(info: FieldInfo | None) -> bool:
    """Whether a field holds expressions that must be true or false."""
    return is_expression(info) and info is not None and get_origin(info.annotation) is tuple


def takes_any_name(action: Action[Any]) -> bool:
    """Whether the action's parameters have names of the author's own, as ``set_fact`` has."""
    free: bool = action.params.model_config.get("extra") == "allow"
    return free


def read(action: Action[Any], entries: Mapping[str, Node]) -> dict[str, Any]:
    """Raw parameters (templates not rendered) from located nodes; keys that the action lacks are left out."""
    known = fields(action)
    raw = {key: _as_annotated(node, known[key]) for key, node in entries.items() if key in known}
    if takes_any_name(action):
        raw.update({key: to_python(node) for key, node in entries.items() if key not in known})
    return raw


def mistakes(
    action: Action[Any], entries: Mapping[str, Node], keys: Mapping[str, Location], task: Location
) -> Iterator[Mistake]:
    """What can be told to be wrong before anything is rendered: unknown keys, and wrong values without
    templates."""
    known = fields(action)
    meant: set[str] = set()
    for key, where in keys.items():
        if key in action.refused:
            yield Mistake(where, f"{action.name}: klops doesn't take {key!r}", action.refused[key])
        elif key not in known and not takes_any_name(action):
            near = nearest(key, known)
            meant.add(near)
            hint = f"did you mean {near}?" if near else _list_of("it has", known)
            yield Mistake(where, f"{action.name} has no parameter {key!r}", hint)
    raw = read(action, entries)
    waiting = {key for key, value in raw.items() if key in known and _holds_template(value)}
    try:
        action.params.model_validate({key: value for key, value in raw.items() if key not in waiting})
    except ValidationError as error:
        waiting_fields = {id(known[key]) for key in waiting}
        for item in error.errors(include_url=False, include_input=False, include_context=False):
            path = item["loc"]
            if not path:
                if not waiting:
                    yield Mistake(task, f"{action.name}: {_message(item)}")
                continue
            key = str(path[0])
            if id(known.get(key)) in waiting_fields or key not in known:
                continue
            if item["type"] == _MISSING_KEY and len(path) == 1:
                if key in meant:
                    continue  # misspelt, which is told already
                yield Mistake(task, f"{action.name} needs the parameter {key!r}")
                continue
            where = _deepest(entries.get(key), path[1:], task)
            what = f"{_shown(action, key)}: {_message(item)}"
            yield Mistake(where, what, _nearest_value(item, entries.get(key)))


def _nearest_value(item: Mapping[str, Any], node: Node | None) -> str:
    """The value most like the one that is none of those a field takes; "" when none is near."""
    if item["type"] != "literal_error" or not isinstance(node, ScalarNode):
        return ""
    near = nearest(node.text, re.findall(r"'([^']*)'", str(item["msg"])))
    return f"did you mean {near}?" if near else ""


def render(action: Action[Any], raw: Mapping[str, Any], templar: Templar) -> Params:
    """Typed parameters. Raises :class:`TaskFailed` when a rendered value isn't what its field wants."""
    known = fields(action)
    values: dict[str, Any] = {}
    for key, value in raw.items():
        info = known.get(key)
        if info is not None and is_expression(info):
            values[key] = _evaluate(value, templar, lenient=IsExpression(undefined=True) in info.metadata)
            continue
        rendered = templar.render(value)
        if info is not None and not is_as_written(info):
            rendered = _textual(rendered, info.annotation)
        if rendered is not OMIT:
            values[key] = _without_omitted(rendered)
    return validate(action, values)


def validate(action: Action[Any], values: Mapping[str, Any]) -> Params:
    """Typed parameters of rendered values; raises :class:`TaskFailed` with all that is wrong."""
    try:
        validated: Params = action.params.model_validate(values)
    except ValidationError as error:
        # values stay out of the message: one of them may be a secret
        items = error.errors(include_url=False, include_input=False, include_context=False)
        text = "; ".join(
            f"{'.'.join(map(str, _path(item)))}: {_message(item)}".removeprefix(": ") for item in items
        )
        raise TaskFailed(f"{action.name}: {text}", code="parameters") from None
    return validated


def _evaluate(value: Any, templar: Templar, *, lenient: bool) -> Any:
    if isinstance(value, list):
        return [_evaluate(item, templar, lenient=lenient) for item in value]
    try:
        return templar.evaluate(value)
    except TaskFailed as error:
        if not lenient or error.code != "undefined":
            raise
        return Evaluated(value, None, undefined=error.message)


# -- what a field's annotation says --------------------------------------------------------------------------


def is_as_written(info: FieldInfo) -> bool:
    """Whether a field wants a scalar's text as it stands in the file."""
    return any(isinstance(mark, AsWritten) for mark in info.metadata)


def _as_annotated(node: Node, info: FieldInfo) -> Any:
    if is_expression(info):
        return _convert(node, _expression)
    if is_as_written(info):
        return _convert(node, _text)
    return _by_type(node, info.annotation)


def _text(node: ScalarNode) -> str | None:
    return None if node.value is None else node.text


def _expression(node: ScalarNode) -> str | None:
    # yes and no are booleans in YAML, and would be names of variables in an expression
    return str(node.value).lower() if isinstance(node.value, bool) else _text(node)


def _convert(node: Node, scalar: Callable[[ScalarNode], Any]) -> Any:
    if isinstance(node, ScalarNode):
        return scalar(node)
    if isinstance(node, SequenceNode):
        return [_convert(item, scalar) for item in node.items]
    return to_python(node)


def _by_type(node: Node, annotation: Any) -> Any:
    """``node`` in Python, scalars as written wherever the annotation wants a ``str`` and nothing else would
    do."""
    options = _options(annotation)
    if isinstance(node, ScalarNode):
        return _text(node) if _is_text(options) else node.value
    for option in options:
        origin, args = get_origin(option), get_args(option)
        if isinstance(node, SequenceNode) and origin in (list, tuple) and args:
            return [_by_type(item, args[0]) for item in node.items]
        if isinstance(node, MappingNode) and origin in (dict, Mapping) and len(args) == 2:
            return {key.text: _by_type(item, args[1]) for key, item in node.entries}
    return to_python(node)


def _textual(value: Any, annotation: Any) -> Any:
    """A rendered value for a field: a number that a template gave for a ``str`` is written out.

    A field that marks itself :class:`AsWritten` gets what the template gave instead, and judges by itself.
    """
    options = _options(annotation)
    if isinstance(value, (bool, int, float)):
        return str(value) if _is_text(options) else value
    for option in options:
        origin, args = get_origin(option), get_args(option)
        if isinstance(value, list) and origin in (list, tuple) and args:
            return [_textual(item, args[0]) for item in value]
        if isinstance(value, dict) and origin in (dict, Mapping) and len(args) == 2:
            return {key: _textual(item, args[1]) for key, item in value.items()}
    return value


def _options(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(option for part in get_args(annotation) for option in _options(part))
    if hasattr(annotation, "__metadata__"):
        return _options(get_args(annotation)[0])
    return (annotation,)


def _is_text(options: tuple[Any, ...]) -> bool:
    return str in options and not {bool, int, float} & set(options)


# -- small helpers -------------------------------------------------------------------------------------------


def _holds_template(value: Any) -> bool:
    if isinstance(value, str):
        return is_template(value)
    if isinstance(value, list):
        return any(_holds_template(item) for item in value)
    if isinstance(value, dict):
        return any(_holds_template(item) for item in value.values())
    return False


def _without_omitted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_omitted(item) for key, item in value.items() if item is not OMIT}
    if isinstance(value, list):
        return [_without_omitted(item) for item in value if item is not OMIT]
    return value


def _deepest(node: Node | None, path: tuple[Any, ...], otherwise: Location) -> Location:
    if node is None:
        return otherwise
    for part in path:
        inner: Node | None = None
        if isinstance(node, MappingNode):
            inner = node.get(str(part))
        elif isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.items):
            inner = node.items[part]
        if inner is None:
            break
        node = inner
    return node.location


def _shown(action: Action[Any], key: str) -> str:
    """A parameter as the author knows it: one that only stands behind the module's name has no other."""
    return action.name if key == FREE_FORM else key


def _path(item: Mapping[str, Any]) -> tuple[Any, ...]:
    path: tuple[Any, ...] = item["loc"]
    return path[1:] if path[:1] == (FREE_FORM,) else path


def _message(item: Mapping[str, Any]) -> str:
    text = str(item["msg"]).removeprefix("Value error, ")
    return text[:1].lower() + text[1:] if text.startswith("Input ") else text


def _list_of(words: str, names: Mapping[str, Any]) -> str:
    return f"{words}: {', '.join(names)}" if names else "it takes no parameters"
