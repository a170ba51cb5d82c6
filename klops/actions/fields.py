"""Kinds of parameters that are more than plain values.

A parameter annotated ``str`` is taken as written in the file (``1.10`` stays ``1.10``, ``no`` stays ``no``).
:data:`Mode` is such a text, read as a file mode. :data:`LenientExpression` and :data:`Conditions` hold Jinja2
expressions without braces: the engine evaluates them and hands over :class:`Evaluated`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator

from klops.actions.files.modes import SymbolicMode, parse
from klops.errors import TaskFailed


@dataclass(frozen=True)
class AsWritten:
    """Marks a field that wants a scalar's text as it stands in the file, whatever YAML makes of it."""


@dataclass(frozen=True)
class IsExpression:
    """Marks a field whose text (or each of a list) is a Jinja2 expression; it becomes :class:`Evaluated`.

    ``undefined``: the expression may come to nothing; that is then said in :attr:`Evaluated.undefined`.
    """

    undefined: bool = False


@dataclass(frozen=True)
class Evaluated:
    """An expression as written, and what it gave; ``undefined`` says why it gave nothing."""

    text: str
    value: Any
    undefined: str = ""

    @property
    def holds(self) -> bool:
        """The expression as a condition. Only true and false will do: "no" and 0 mean different things.

        Raises :class:`TaskFailed` for any other value.
        """
        if isinstance(self.value, bool):
            return self.value
        raise TaskFailed(
            f"the condition {self.text!r} gave {type(self.value).__name__}, not true or false",
            hint="compare it, or add a filter: | bool, | length > 0, is defined",
            code="condition",
        )


def _mode(value: Any) -> int | SymbolicMode | None:
    if value is None:
        return None
    if isinstance(value, str):
        return parse(value)
    raise ValueError("a mode that comes from a variable must be text: quote it there, such as '0644'")


def _optional(value: Any) -> Evaluated | None:
    return None if value is None else _evaluated(value)


def _evaluated(value: Any) -> Evaluated:
    if isinstance(value, Evaluated):
        return value
    if isinstance(value, (str, bool)):
        # only while a playbook is loaded: what the expression gives isn't known yet
        return Evaluated(str(value), value)
    raise ValueError("expected an expression")


def _conditions(value: Any) -> tuple[Evaluated, ...]:
    return tuple(_evaluated(item) for item in (value if isinstance(value, (list, tuple)) else [value]))


#: A file mode: every usual way of writing 644 gives 0o644, symbols (``u+x``) what they change, and what could
#: mean two things is refused.
Mode = Annotated[int | SymbolicMode | None, AsWritten(), BeforeValidator(_mode)]
#: One expression, or none; what isn't defined is no failure.
LenientExpression = Annotated[
    Evaluated | None, AsWritten(), IsExpression(undefined=True), BeforeValidator(_optional)
]
#: One condition or a list of them.
Conditions = Annotated[tuple[Evaluated, ...], AsWritten(), IsExpression(), BeforeValidator(_conditions)]
