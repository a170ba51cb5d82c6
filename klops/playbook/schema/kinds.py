"""JSON Schema of what keywords take: one definition for each ``kind`` of the table of keywords."""

from __future__ import annotations

from typing import Any, TypeAlias

from klops.playbook.load.keywords import TABLE, Place, supported
from klops.playbook.load.playkeywords import ORDERS, STRATEGIES
from klops.playbook.load.taskkeywords import LOOP_CONTROL

Schema: TypeAlias = dict[str, Any]

#: a text with a template in it, which may stand for anything
TEMPLATE: Schema = {"type": "string", "pattern": r"\{\{|\{%"}
#: a single value that is taken as typed
SCALAR: Schema = {"type": ["string", "number", "boolean"]}
_NAME = r"^[^\W\d]\w*$"
_WORDS = ("true", "false", "yes", "no", "on", "off", "y", "n", "t", "f")
#: editors that read YAML 1.2 take yes for a text
BOOL: Schema = {
    "anyOf": [
        {"type": "boolean"},
        {"enum": [spelled for word in _WORDS for spelled in (word, word.title(), word.upper())]},
        {"enum": [0, 1]},
    ]
}
_CONDITION: Schema = {
    "anyOf": [{"type": "boolean"}, {"type": "string", "pattern": r"\S", "not": {"pattern": r"\{\{|\{%|\{#"}}]
}
_ENVIRONMENT: Schema = {
    "type": ["object", "null"],
    "additionalProperties": {"type": [*SCALAR["type"], "null"]},
}
_SERIAL: Schema = {
    "anyOf": [
        {"type": "integer"},
        {"type": "string", "pattern": r"^\s*(-?(0|[1-9][0-9]*)|[0-9]+%)\s*$"},
    ]
}
_COUNT: Schema = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]+$"}]}
_NUMBER: Schema = {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": r"^[0-9.]+$"}]}


def ref(name: str) -> Schema:
    """A reference to a definition."""
    return {"$ref": f"#/$defs/{name}"}


def _or_list(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "array", "items": schema}]}


def _or_template(schema: Schema) -> Schema:
    return {"anyOf": [schema, TEMPLATE]}


def _list_of(item: str) -> Schema:
    return {"type": ["array", "null"], "items": ref(item)}


def _loop_control() -> Schema:
    kinds = {
        "loop_var": ref("variable"),
        "index_var": ref("variable"),
        "label": {},
        "pause": ref("number_or_template"),
        "extended": BOOL,
        "break_when": ref("conditions"),
    }
    properties = {name: kinds[name] for name in LOOP_CONTROL}
    return {"type": ["object", "null"], "properties": properties, "additionalProperties": False}


#: kind of a keyword -> its schema
KINDS: dict[str, Schema] = {
    "text": SCALAR,
    "name": {"type": [*SCALAR["type"], "null"]},
    "patterns": _or_list({**SCALAR, "pattern": r"\S"}),
    "tasks": _list_of("item"),
    "handlers": _list_of("handler_item"),
    "vars_files": {
        "anyOf": [{"type": ["string", "null"]}, {"type": "array", "items": _or_list({"type": "string"})}]
    },
    "bool": BOOL,
    "bool_or_template": _or_template(BOOL),
    "serial": _or_list(_SERIAL),
    "percentage": {
        "anyOf": [
            {"type": "number", "minimum": 0, "maximum": 100},
            {"type": "string", "pattern": r"^[0-9.]+%?$"},
        ]
    },
    "strategy": {"enum": [*STRATEGIES, *(f"ansible.builtin.{name}" for name in STRATEGIES)]},
    "order": {"enum": list(ORDERS)},
    "sudo": {"const": "sudo"},
    "vars": {"type": ["object", "null"], "propertyNames": {"pattern": _NAME}},
    "tags": _or_list({"type": [*SCALAR["type"], "null"], "not": TEMPLATE}),
    "conditions": _or_list(_CONDITION),
    "environment": _or_list(_or_template(_ENVIRONMENT)),
    "check_mode": {"anyOf": [{"const": True}, {"enum": ["yes", "on", "true"]}]},
    "count": _COUNT,
    "count_or_template": _or_template(_COUNT),
    "number_or_template": _or_template(_NUMBER),
    "names": _or_list(SCALAR),
    "args": {"type": "object"},
    "list_or_template": _or_template({"type": "array"}),
    "loop_control": _loop_control(),
    "variable": {"type": "string", "pattern": _NAME},
}


def keyword_properties(place: Place) -> dict[str, Schema]:
    """Properties of a mapping at ``place``, each with its line of explanation."""
    names = supported(place)
    return {k.name: {**ref(k.kind), "description": k.note} for k in TABLE if k.name in names}
