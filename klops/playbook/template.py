"""Jinja2 as playbooks use it: sandboxed, strict about undefined names, native types for a whole expression.

What a template gives is never rendered again, and data from hosts is never a template.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence, Set
from types import GeneratorType
from typing import Any, NoReturn

from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError, UndefinedError, meta, nodes
from jinja2.parser import Parser
from jinja2.runtime import Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from klops.actions.fields import Evaluated
from klops.errors import KlopsError, TaskFailed
from klops.playbook.filters import FILTERS, TESTS
from klops.playbook.pending import NotKnown, Pending
from klops.playbook.scope import Layer, Scope
from klops.yamlsource import nearest

_RESULT = "result"
_UNDEFINED = re.compile(r"'([^']+)' is undefined")


class Omit:
    """What the variable ``omit`` holds: a parameter that gets it counts as not given."""

    def __repr__(self) -> str:
        return "omit"


OMIT = Omit()


def is_template(text: str) -> bool:
    """Whether ``text`` holds anything for Jinja2 to do."""
    return "{{" in text or "{%" in text or "{#" in text


def scope(*layers: Layer) -> Scope:
    """Variables in layers, the strongest first, over Jinja2's own functions and ``omit``."""
    return Scope((*layers, _globals()), lambda value, own: Templar(own).render(value))


class Templar:
    """Renders with the variables of one scope."""

    def __init__(self, variables: Scope) -> None:
        self.variables = variables

    def render(self, value: Any) -> Any:
        """``value`` with every template in it rendered, in depth; keys are left alone.

        A string that is one expression (``"{{ x }}"``) gives the expression's own value, any other text.
        Raises :class:`TaskFailed` (codes ``undefined``, ``template``) and :class:`NotKnown`.
        """
        if isinstance(value, str):
            return self._string(value) if is_template(value) else value
        if isinstance(value, dict):
            return {key: self.render(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.render(item) for item in value]
        return value

    def text(self, source: str) -> str:
        """``source``, the text of a template file, rendered to text."""
        rendered: str = self._guarded(source, lambda: self._concatenated(_compiled_text(source)))
        return rendered

    def evaluate(self, expression: str) -> Evaluated:
        """The value of an expression without braces."""
        value = self._guarded(expression, lambda: self._native(_compiled_expression(expression)))
        return Evaluated(expression, value)

    def _string(self, source: str) -> Any:
        def work() -> Any:
            whole = _compiled_whole(source)
            return self._native(whole) if whole is not None else self._concatenated(_compiled_text(source))

        return self._guarded(source, work)

    def _concatenated(self, template: Template) -> str:
        context = template.new_context(self.variables, shared=True)  # type: ignore[arg-type]  # any mapping will do
        return "".join(template.root_render_func(context))

    def _native(self, template: Template) -> Any:
        context = template.new_context(self.variables, shared=True)  # type: ignore[arg-type]  # any mapping will do
        for _ in template.root_render_func(context):
            pass
        return _settled(context.vars[_RESULT])

    def _guarded(self, source: str, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except (KlopsError, NotKnown):
            raise
        except UndefinedError as error:
            self._undefined(source, error)
        except TemplateError as error:
            raise TaskFailed(f"template {_shown(source)}: {error}", code="template") from error
        except Exception as error:
            # an expression is the author's program: whatever it raises is a mistake in it
            raise TaskFailed(
                f"template {_shown(source)}: {type(error).__name__}: {error}", code="template"
            ) from error

    def _undefined(self, source: str, error: UndefinedError) -> NoReturn:
        message = str(error)
        match = _UNDEFINED.search(message)
        near = nearest(match[1], self.variables) if match else ""
        hint = f"did you mean {near}?" if near else "give it a value, or a default: | default(...)"
        raise TaskFailed(f"{message}, in {_shown(source)}", hint=hint, code="undefined") from error


def syntax_error(text: str, *, expression: bool = False) -> str:
    """What is wrong with the syntax of a template (or of an expression without braces); "" for nothing."""
    try:
        if expression:
            _compiled_expression(text)
        elif is_template(text):
            _compiled_text(text)
    except TemplateSyntaxError as error:
        return error.message or "syntax error"
    return ""


def literal(expression: str) -> str:
    """The type of an expression that is a literal, such as ``str`` or ``bool``; "" for any other."""
    (output,) = _expression_tree(expression).body
    assert isinstance(output, nodes.Output)  # noqa: S101 - made so by _expression_tree
    (found,) = output.nodes
    if isinstance(found, nodes.Const):
        return type(found.value).__name__
    return type(found).__name__.lower() if isinstance(found, nodes.Literal) else ""


def names(value: Any, *, expression: bool = False) -> Set[str]:
    """Names of variables that the templates in ``value`` mention, in depth. Wrong syntax mentions none."""
    if isinstance(value, str):
        if not expression and not is_template(value):
            return set()
        try:
            tree = _expression_tree(value) if expression else _environment().parse(value)
        except TemplateSyntaxError:
            return set()
        return meta.find_undeclared_variables(tree)
    parts: Sequence[Any] = ()
    if isinstance(value, Mapping):
        parts = list(value.values())
    elif isinstance(value, (list, tuple)):
        parts = value
    return {name for part in parts for name in names(part, expression=expression)}


# -- Jinja2 --------------------------------------------------------------------------------------------------


@functools.cache
def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined,
        # as Ansible: the newline after a block tag goes, the one at the end of a file stays
        trim_blocks=True,
        keep_trailing_newline=True,
        finalize=_finalized,
        autoescape=False,
    )
    environment.filters.update(FILTERS)
    environment.tests.update(TESTS)
    return environment


@functools.cache
def _globals() -> Layer:
    own = {key: value for key, value in _environment().globals.items() if key != "lipsum"}
    return Layer({**own, "omit": OMIT}, templates=False)


@functools.lru_cache(maxsize=4096)
def _compiled_text(source: str) -> Template:
    return _environment().from_string(source)


@functools.lru_cache(maxsize=4096)
def _compiled_whole(source: str) -> Template | None:
    """``source`` compiled to assign its value, or None when it is more than one expression."""
    body = _environment().parse(source).body
    if len(body) == 1 and isinstance(body[0], nodes.Output) and len(body[0].nodes) == 1:
        only = body[0].nodes[0]
        if not isinstance(only, nodes.TemplateData):
            return _assigning(only)
    return None


@functools.lru_cache(maxsize=4096)
def _compiled_expression(expression: str) -> Template:
    output = _expression_tree(expression).body[0]
    assert isinstance(output, nodes.Output)  # noqa: S101 - made so just below
    return _assigning(output.nodes[0])


def _expression_tree(expression: str) -> nodes.Template:
    environment = _environment()
    parser = Parser(environment, expression, state="variable")
    tree = parser.parse_expression()
    if not parser.stream.eos:
        raise TemplateSyntaxError(f"unexpected {parser.stream.current.value!r}", parser.stream.current.lineno)
    template = nodes.Template([nodes.Output([tree], lineno=1)], lineno=1)
    template.set_environment(environment)
    return template


def _assigning(expression: nodes.Expr) -> Template:
    tree = nodes.Template([nodes.Assign(nodes.Name(_RESULT, "store"), expression, lineno=1)], lineno=1)
    tree.set_environment(_environment())
    return _environment().from_string(tree)


def _finalized(value: Any) -> Any:
    """What stands in text for a value: nothing for None, as in Ansible."""
    if isinstance(value, Pending):
        value.fail()
    if value is OMIT:
        raise TaskFailed("omit only works as the whole value of a parameter", code="template")
    return "" if value is None else value


def _settled(value: Any) -> Any:
    """A native value without undefined parts and lazy pieces: only dict, list and single values."""
    if isinstance(value, Undefined):
        str(value)  # raises UndefinedError, as StrictUndefined does for every use
    if isinstance(value, Pending):
        value.fail()
    if isinstance(value, Mapping):
        return {key: _settled(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset, range, GeneratorType)) or _is_view(value):
        return [_settled(item) for item in value]
    return value


def _is_view(value: Any) -> bool:
    return isinstance(value, (type({}.keys()), type({}.values()), type({}.items())))


def _shown(source: str) -> str:
    flat = " ".join(source.split())
    return repr(flat if len(flat) <= 80 else flat[:77] + "...")
