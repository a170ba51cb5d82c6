"""Lookups of variables, and of the environment of this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from klops.errors import TaskFailed
from klops.playbook.template.lookups.base import Context, only, wrong
from klops.yamlsource import nearest


def _env(context: Context, terms: list[Any], options: dict[str, Any]) -> list[Any]:
    """Variables of klops' own environment; ``default`` (or nothing) for those that aren't set."""
    only("env", options, ("default",))
    for term in terms:
        if not isinstance(term, str):
            raise wrong(f"the lookup env takes names, not {type(term).__name__}")
    return [os.environ.get(term, options.get("default", "")) for term in terms]


def _vars(context: Context, terms: list[Any], options: dict[str, Any]) -> list[Any]:
    """Variables by name, ``default`` for those that aren't there."""
    only("vars", options, ("default",))
    found = []
    for term in terms:
        if not isinstance(term, str):
            raise wrong(f"the lookup vars takes names, not {type(term).__name__}")
        if term in context.variables:
            found.append(context.variables[term])
        elif "default" in options:
            found.append(options["default"])
        else:
            near = nearest(term, context.variables)
            hint = f"did you mean {near}?" if near else "give it a value, or the lookup a default=..."
            raise TaskFailed(f"no variable is called {term!r}", hint=hint, code="undefined")
    return found


def _varnames(context: Context, terms: list[Any], options: dict[str, Any]) -> list[Any]:
    """Names of variables in which one of the regular expressions is found."""
    only("varnames", options, ())
    found = []
    for term in terms:
        try:
            pattern = re.compile(str(term))
        except re.error as error:
            raise wrong(f"the lookup varnames: {term!r}: {error}") from None
        found += [name for name in context.variables if pattern.search(name)]
    return found


LOOKUPS: dict[str, Callable[..., list[Any]]] = {"env": _env, "vars": _vars, "varnames": _varnames}
