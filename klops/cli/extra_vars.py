"""``-e``: variables from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from klops.errors import UsageError

_FORMS = "KEY=VALUE, @FILE (YAML or JSON) or a JSON object"


def parse_extra_vars(values: Sequence[str]) -> dict[str, Any]:
    """Merge all ``-e`` values, later ones winning.

    ``KEY=VALUE`` gives a string, as typed; several pairs may stand in one value, quoted as in a shell. Raises
    :class:`UsageError` (or :class:`SourceErrors` for a mistake in a file).
    """
    merged: dict[str, Any] = {}
    for value in values:
        merged.update(_parse_one(value))
    return merged


def _parse_one(value: str) -> dict[str, Any]:
    text = value.strip()
    if text.startswith("@"):
        return _from_file(text[1:])
    if text.startswith(("{", "[")):
        return _from_json(text)
    return _from_pairs(value)


def _from_pairs(value: str) -> dict[str, Any]:
    import shlex

    # messages have no values: one may be a password
    try:
        words = shlex.split(value)
    except ValueError as error:
        key, equals, _ = value.partition("=")
        raise UsageError(f"-e {key}{equals and '=...'}: {error}", hint=f"expected {_FORMS}") from None
    pairs: dict[str, Any] = {}
    for word in words:
        key, equals, content = word.partition("=")
        if not equals or not key.isidentifier():
            hint = f"expected {_FORMS}"
            if pairs and not equals:
                hint = f"quote a value with spaces: -e '{next(reversed(pairs))}=\"two words\"'; {_FORMS}"
            if equals and all(part.isidentifier() for part in key.split(".")):
                hint = f"a key within a variable needs JSON: -e '{_nested(key.split('.'), content)}'"
            elif pairs:
                raise UsageError(f"-e {list(pairs)[-1]}=...: what follows it is not KEY=VALUE", hint=hint)
            raise UsageError(f"-e {key}{equals and '=...'}: not KEY=VALUE", hint=hint)
        pairs[key] = content
    if not pairs:
        raise UsageError("-e: empty", hint=f"expected {_FORMS}")
    return pairs


def _nested(path: Sequence[str], content: str) -> str:
    import json

    from klops.inventory.masking import masked

    document: Any = masked(content, tuple(path))
    for key in reversed(path):
        document = {key: document}
    return json.dumps(document, ensure_ascii=False)


def _from_json(text: str) -> dict[str, Any]:
    import json

    try:
        document = json.loads(text)
    except ValueError as error:
        raise UsageError(f"-e: not JSON: {error}", hint=f"expected {_FORMS}") from None
    return _mapping(document, "-e")


def _from_file(path: str) -> dict[str, Any]:
    from pathlib import Path

    from klops.yamlsource import load_file, to_python

    if not Path(path).is_file():
        raise UsageError(f"-e @{path}: no such file", hint=f"expected {_FORMS}")
    node = load_file(path)
    return _mapping({} if node is None else to_python(node), f"-e @{path}")


def _mapping(document: Any, where: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise UsageError(f"{where}: a mapping of variables is needed, not {type(document).__name__}")
    return {str(key): value for key, value in document.items()}
