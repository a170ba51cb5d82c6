"""JSON Schema of a module's parameters, from its pydantic model, as a playbook may write them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError
from pydantic.fields import FieldInfo

from klops.actions.base import Action
from klops.playbook import params
from klops.playbook.schema.kinds import BOOL, SCALAR, TEMPLATE, Schema, ref

_ALLOWED_NAME = r"^[^\W\d]\w*$"


def parameters(action: Action[Any]) -> Schema:
    """What may stand after the module's name: a mapping, nothing, and a text where the module takes one."""
    known = params.fields(action)
    mapping: Schema = {
        "type": ["object", "null"],
        "properties": {name: _described(name, info) for name, info in known.items()},
    }
    if params.takes_any_name(action):
        mapping["propertyNames"] = {"pattern": _ALLOWED_NAME}
    else:
        mapping["additionalProperties"] = False
    text = {**SCALAR, "description": f"the parameter {action.free_form}"}
    return {"anyOf": [mapping, text]} if action.free_form else mapping


def summary(action: Action[Any]) -> str:
    """The first line of what is documented of the module."""
    return (type(action).__doc__ or action.name).strip().split("\n", 1)[0]


def _described(name: str, info: FieldInfo) -> Schema:
    found = _field(info)
    return {**found, "description": info.description} if info.description else found


def _field(info: FieldInfo) -> Schema:
    if params.is_condition(info):
        return ref("conditions")
    if params.is_expression(info):
        return {"type": [*SCALAR["type"], "null"]}
    if params.is_as_written(info):
        # it reads the text itself: whatever is a single value may be right
        return {}
    annotated: Any = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
    try:
        return _written(TypeAdapter(annotated).json_schema(ref_template="{model}"))
    except (PydanticInvalidForJsonSchema, PydanticSchemaGenerationError):
        return {}


def _written(schema: Schema, definitions: Schema | None = None) -> Schema:
    """What a playbook may write for what pydantic wants: templates for anything, single values as typed."""
    below = schema.get("$defs", definitions or {})
    if "$ref" in schema:
        return _written(below.get(schema["$ref"], {}), below)
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return {"anyOf": [_written(part, below) for part in schema[key]]}
    kind = schema.get("type")
    if kind == "string" and "enum" not in schema:
        return SCALAR
    if kind == "boolean":
        return {"anyOf": [BOOL, TEMPLATE]}
    if kind in ("integer", "number"):
        # pydantic takes the text of a number for it
        return {"anyOf": [_bare(schema), {"type": "string"}]}
    if kind == "array":
        items = schema.get("items")
        listed = {"type": "array", **({"items": _written(items, below)} if items else {})}
        return {"anyOf": [listed, TEMPLATE]}
    if kind == "object":
        return {"anyOf": [_object(schema, below), TEMPLATE]}
    if "enum" in schema or "const" in schema:
        return {"anyOf": [_bare(schema), TEMPLATE]}
    return _bare(schema)


def _object(schema: Schema, below: Schema) -> Schema:
    found: Schema = {"type": "object"}
    if "properties" in schema:
        found["properties"] = {k: _written(v, below) for k, v in schema["properties"].items()}
    more = schema.get("additionalProperties")
    if more is not None:
        found["additionalProperties"] = _written(more, below) if isinstance(more, dict) else more
    return found


def _bare(schema: Schema) -> Schema:
    wanted = ("type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    return {key: schema[key] for key in wanted if key in schema}
