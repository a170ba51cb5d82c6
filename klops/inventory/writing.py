"""How typed values may be written, as JSON schema: what an editor is told while a file is being written.

The readers in :mod:`klops.inventory.scalars` decide; a schema here takes everything they take, and refuses
what it can of the rest.
"""

from __future__ import annotations

from typing import Any

from pydantic import GetJsonSchemaHandler
from pydantic_core import CoreSchema

Schema = dict[str, Any]

TEXT: Schema = {"type": ["string", "number", "boolean"]}
NAME: Schema = {"type": ["string", "number", "boolean"], "pattern": r"\S"}
FLAG: Schema = {"anyOf": [{"type": "boolean"}, {"enum": ["true", "false", "yes", "no", "on", "off"]}]}
ABSOLUTE: Schema = {"type": "string", "pattern": "^/"}
DURATION: Schema = {
    "anyOf": [
        {"type": "number", "minimum": 0},
        {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)?$"},
    ]
}
SIZE: Schema = {
    "anyOf": [
        {"type": "integer", "minimum": 0},
        {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?[kKmMgGtTpP]?([iI]?[bB])?$"},
    ]
}
SECRET: Schema = {
    "anyOf": [
        NAME,
        {
            "type": "object",
            "properties": {
                "env": {**NAME, "description": "an environment variable of this machine"},
                "file": {
                    **NAME,
                    "description": "a file of this machine, relative to the one at hand",
                },
                "command": {
                    "type": "array",
                    "items": NAME,
                    "minItems": 1,
                    "description": "a program of this machine that prints it, and its arguments",
                },
            },
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 1,
        },
    ]
}
ARGUMENT: Schema = {
    "anyOf": [{"type": ["string", "number", "boolean", "null"]}, {"type": "array", "items": TEXT}]
}


class Also:
    """Annotation of a section that may be written in a second, shorter way."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        return {"anyOf": [handler(core), self._schema]}


def optional(schema: Schema) -> Schema:
    """The same, or nothing."""
    return {"anyOf": [schema, {"type": "null"}]}


def whole(low: int, high: int) -> Schema:
    """A whole number from ``low`` to ``high``, quoted or not."""
    return {
        "anyOf": [
            {"type": "integer", "minimum": low, "maximum": high},
            {"type": "string", "pattern": "^(0|[1-9][0-9]*)$"},
        ]
    }


def matching(pattern: str) -> Schema:
    """Text that matches an expression as a whole; a number is its digits."""
    return {"type": ["string", "number"], "pattern": f"^({pattern})$"}


AUTO_OR_COUNT: Schema = {"anyOf": [{"const": "auto"}, whole(1, 256)]}
