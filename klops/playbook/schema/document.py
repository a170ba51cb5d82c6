"""JSON Schema (draft 2020-12) of playbooks, for editors; made from the table of keywords and the modules.

It refuses what the loader refuses as far as a schema can tell: not files that aren't there, nor names of
handlers, nor the syntax of templates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from klops.actions.base import Action
from klops.playbook.load.keywords import Place
from klops.playbook.load.lists import IMPORT
from klops.playbook.load.tasks import COLLECTIONS, INCLUDE
from klops.playbook.schema.kinds import KINDS, TEMPLATE, Schema, keyword_properties, ref
from klops.playbook.schema.parameters import parameters, summary

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_IMPORT_PLAYBOOK = "import_playbook"
_BLOCK = ("block", "rescue", "always")
_FILE: Schema = {"type": "string", "minLength": 1, "not": TEMPLATE}


def playbook_schema(registry: Mapping[str, Action[Any]]) -> Schema:
    """The schema of a playbook whose tasks may use the modules of ``registry``."""
    modules = {name: action for name, action in registry.items() if name != INCLUDE}
    definitions = {
        **KINDS,
        "entry": _choice([(_spellings(_IMPORT_PLAYBOOK), ref(_IMPORT_PLAYBOOK))], ref("play")),
        "play": _mapping(Place.PLAY, {}, required=["hosts"]),
        _IMPORT_PLAYBOOK: _mapping(
            Place.IMPORT_PLAYBOOK, _spelled(_IMPORT_PLAYBOOK, {**_FILE, "description": "the file of plays"})
        ),
        "item": _items(Place.TASK),
        "handler_item": _items(Place.HANDLER),
        "block": _mapping(Place.BLOCK, {}, required=["block"]),
        "task": _task(Place.TASK, modules),
        "handler": _task(Place.HANDLER, modules),
        IMPORT: _mapping(Place.IMPORT_TASKS, _spelled(IMPORT, _imported())),
        **{f"module-{name}": _module(action) for name, action in modules.items()},
        **_include(registry),
    }
    return {
        "$schema": DRAFT,
        "title": "Playbook for klops",
        "description": "A list of plays.",
        "type": "array",
        "minItems": 1,
        "items": ref("entry"),
        "$defs": definitions,
    }


def _spellings(name: str) -> list[str]:
    """A module's name, and with the collections that mean the same."""
    return [name, *(f"{collection}{name}" for collection in COLLECTIONS if "." not in name)]


def _spelled(name: str, schema: Schema) -> dict[str, Schema]:
    return dict.fromkeys(_spellings(name), schema)


def _mapping(place: Place, more: Mapping[str, Schema], *, required: Iterable[str] = ()) -> Schema:
    found: Schema = {
        "type": "object",
        "properties": {**keyword_properties(place), **more},
        "additionalProperties": False,
    }
    return {**found, "required": list(required)} if required else found


def _choice(cases: Iterable[tuple[list[str], Schema]], otherwise: Schema) -> Schema:
    """The schema of the first case one of whose keys is there: an editor then tells of that one only."""
    found = otherwise
    for keys, schema in reversed(list(cases)):
        found = {"if": {"anyOf": [{"required": [key]} for key in keys]}, "then": schema, "else": found}
    return found


def _items(place: Place) -> Schema:
    handler = place is Place.HANDLER
    include = "handler-include_tasks" if handler else INCLUDE
    cases = [(_spellings(IMPORT), ref(IMPORT)), (_spellings(INCLUDE), ref(include))]
    blocks = [] if handler else [(list(_BLOCK), ref("block"))]
    return _choice([*blocks, *cases], ref(place.value))


def _task(place: Place, modules: Mapping[str, Action[Any]]) -> Schema:
    spelled = {key: ref(f"module-{name}") for name in modules for key in _spellings(name)}
    return {**_mapping(place, spelled), "oneOf": [{"required": [key]} for key in spelled]}


def _module(action: Action[Any]) -> Schema:
    return {**parameters(action), "description": summary(action)}


def _imported() -> Schema:
    by_file = {"type": "object", "properties": {"file": _FILE}, "additionalProperties": False}
    return {
        "anyOf": [_FILE, {**by_file, "required": ["file"]}],
        "description": "a file of tasks, read at once",
    }


def _include(registry: Mapping[str, Action[Any]]) -> dict[str, Schema]:
    """``include_tasks``, whose ``apply`` has the keywords that it hands down."""
    if INCLUDE not in registry:
        return {}
    module = _module(registry[INCLUDE])
    file = {"type": "string", "minLength": 1}
    mapping = {
        "type": ["object", "null"],
        "properties": {"file": file, "apply": _mapping(Place.APPLY, {})},
        "additionalProperties": False,
    }
    value = {"anyOf": [file, mapping], "description": module["description"]}
    plain = _mapping(Place.INCLUDE_TASKS, _spelled(INCLUDE, value))
    listen = {"listen": keyword_properties(Place.HANDLER)["listen"]}
    heard = {**plain, "properties": {**plain["properties"], **listen}}
    return {INCLUDE: plain, "handler-include_tasks": heard}
