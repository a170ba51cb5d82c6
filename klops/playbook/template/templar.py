"""Templates rendered with the variables of a scope.

What a template gives is never rendered again, and data from hosts is never a template.
"""

from __future__ import annotations

import functools
import re
from ast import literal_eval
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from types import GeneratorType
from typing import Any, NoReturn

from jinja2 import Template, TemplateAssertionError, TemplateError, UndefinedError
from jinja2.runtime import Context, Undefined

from klops.actions.fields import Evaluated
from klops.errors import KlopsError, TaskFailed
from klops.playbook.localfiles import places, shown_path
from klops.playbook.template.jinja import (
    OMIT,
    OVERRIDES,
    RESULT,
    Omit,
    Over,
    compiled,
    compiled_expression,
    compiled_file,
    environment,
    joined,
    text_of,
)
from klops.playbook.template.lookups import Lookups
from klops.playbook.template.pending import NotKnown, Pending
from klops.playbook.template.scope import Layer, Scope
from klops.playbook.template.static import (
    file_syntax_error,
    is_template,
    literal,
    names,
    syntax_error,
    with_hint,
)
from klops.yamlsource import nearest

__all__ = [
    "OMIT",
    "Omit",
    "Templar",
    "file_problem",
    "is_template",
    "literal",
    "names",
    "scope",
    "syntax_error",
    "with_hint",
]

_UNDEFINED = re.compile(r"'([^']+)' is undefined")
_HEADER = "#jinja2:"
#: types of most values, which are as they should be
_SINGLE = frozenset((str, int, bool, float, type(None)))
_OVERRIDE = re.compile(r"\s*(\w+)\s*:\s*('[^']*'|\"[^\"]*\"|[^,]*?)\s*(?:,|$)")


def scope(*layers: Layer, files: Sequence[Path] = ()) -> Scope:
    """Variables in layers, the strongest first, over Jinja2's own functions, ``omit`` and the lookups.

    ``files`` are those beside which lookups and included templates are looked for, the nearest first.
    """
    functions = dict(_globals())
    made = _Bound(
        (*layers, Layer(functions, templates=False)),
        lambda value, own: Templar(own).render(value),
        files=tuple(files),
    )
    # these look up names in the very scope they are part of
    functions.update(
        Lookups(made, made.files, lambda *args, **more: Templar(made).text(*args, **more)).functions
    )
    return made


@dataclass
class _Bound(Scope):
    """A scope with the files beside which others are looked for."""

    files: tuple[Path, ...] = ()


class Templar:
    """Renders with the variables of one scope."""

    def __init__(self, variables: Scope) -> None:
        self.variables = variables
        self.files = variables.files if isinstance(variables, _Bound) else ()

    def render(self, value: Any) -> Any:
        """``value`` with every template in it rendered, in depth; keys are left alone.

        A string that gives one piece (``"{{ x }}"``) gives its value as it is, any other text.
        Raises :class:`TaskFailed` (codes ``undefined``, ``template``) and :class:`NotKnown`.
        """
        if isinstance(value, str):
            return self._string(value) if is_template(value) else value
        if isinstance(value, dict):
            return {key: self.render(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.render(item) for item in value]
        return value

    def text(
        self, source: str, *, name: str = "", more: Mapping[str, Any] | None = None, **overrides: Any
    ) -> str:
        """``source``, the text of a template file, rendered to text.

        ``name`` is the file's path as the task has it: what it includes is looked for beside it first.
        ``more`` are variables for this text alone. ``overrides`` are Jinja2's settings by the names that
        Ansible's module ``template`` has for them (:data:`OVERRIDES`); a first line ``#jinja2: KEY: VALUE``
        in the text goes before them. Raises as :meth:`render` does.
        """

        def work() -> str:
            body, own = _header(source)
            given = {**overrides, **own}
            settings = tuple(sorted(_known(given).items()))
            folder = name.replace("\\", "/").rpartition("/")[0]
            template = compiled_file(body, self.files, folder, settings)
            pieces = template.root_render_func(self._context(template, more))
            try:
                found = text_of(pieces)
            except UndefinedError as error:
                # what isn't there is found out when it is put into the text: the template waits at its line
                frame = getattr(pieces, "gi_frame", None)
                if frame is not None:
                    error.lineno = template.get_corresponding_lineno(frame.f_lineno)  # type: ignore[attr-defined]  # as a syntax error has it
                raise
            # as in Ansible: newlines at the end are the author's, whatever block tag stands before them
            lost = _newlines(body) - _newlines(found.replace("\r\n", "\n"))
            return found + str(given.get("newline_sequence") or "\n") * lost

        rendered: str = self._guarded(source, work, name)
        return rendered

    def evaluate(self, expression: str) -> Evaluated:
        """The value of an expression without braces."""

        def work() -> Any:
            template = compiled_expression(expression)
            context = self._context(template)
            for _ in template.root_render_func(context):
                pass
            return _settled(context.vars[RESULT])

        return Evaluated(expression, self._guarded(expression, work))

    def _string(self, source: str) -> Any:
        def work() -> Any:
            template = compiled(source, self.files)
            parts: list[Any] = list(template.root_render_func(self._context(template)))
            # alone, what "omit" holds is a value like any other
            found = OMIT if len(parts) == 1 and parts[0] is OMIT else _settled(joined(parts))
            if isinstance(found, str) and source.endswith("\n"):
                # as in Ansible: newlines at the end are the author's
                found += "\n" * (_newlines(source) - _newlines(found))
            return found

        return self._guarded(source, work)

    def _context(self, template: Template, more: Mapping[str, Any] | None = None) -> Context:
        variables = self.variables if not more else Over(more, self.variables)
        return template.new_context(variables, shared=True)  # type: ignore[arg-type]  # any mapping will do

    def _guarded(self, source: str, work: Callable[[], Any], name: str = "") -> Any:
        """What ``work`` gives; ``name`` is that of the template file whose text ``source`` is."""

        def shown(error: Exception) -> str:
            return self._place(source, error, name) if name else _shown(source)

        try:
            return work()
        except (KlopsError, NotKnown):
            raise
        except UndefinedError as error:
            self._undefined(shown(error), error)
        except TemplateAssertionError as error:
            # a filter or test that isn't there, in a file: others were looked at when the playbook was read
            said = syntax_error(source) or str(error)
            raise TaskFailed(f"template {shown(error)}: {said}", code="template") from error
        except TemplateError as error:
            raise TaskFailed(f"template {shown(error)}: {error}", code="template") from error
        except Exception as error:
            # an expression is the author's program: whatever it raises is a mistake in it
            raise TaskFailed(
                f"template {shown(error)}: {type(error).__name__}: {error}", code="template"
            ) from error

    def _place(self, source: str, error: Exception, name: str) -> str:
        """The template file, or one that it includes, and the line in it at which an error came up."""
        line, own = getattr(error, "lineno", 0), getattr(error, "name", None)
        trace = None if line else error.__traceback__
        while trace is not None:
            template = trace.tb_frame.f_globals.get("__jinja_template__")
            if isinstance(template, Template):
                line, own = template.get_corresponding_lineno(trace.tb_lineno), template.name
            trace = trace.tb_next
        if line and not (own and isinstance(own, str)):
            # a first line of settings was taken off
            line += source.startswith(_HEADER)
        file = own if own and isinstance(own, str) else name
        found = next((p for p in places(self.files, "templates", file) if p.is_file()), None)
        shown = shown_path(found) if found is not None else file
        return f"{shown}:{line}" if line else shown

    def _undefined(self, shown: str, error: UndefinedError) -> NoReturn:
        message = str(error)
        match = _UNDEFINED.search(message)
        near = nearest(match[1], self.variables) if match else ""
        hint = f"did you mean {near}?" if near else "give it a value, or a default: | default(...)"
        raise TaskFailed(f"{message}, in {shown}", hint=hint, code="undefined") from error


def file_problem(source: str, overrides: Mapping[str, Any]) -> tuple[int, str, str]:
    """The line, what is wrong there and a hint, for the text of a template file; nothing: (0, "", "").

    ``overrides`` as of :meth:`Templar.text`.
    """
    try:
        body, own = _header(source)
        settings = sorted(_known({**overrides, **own}).items())
    except TaskFailed as error:
        return 1, error.message, error.hint
    line, problem = file_syntax_error(body, settings)
    return (line + (body is not source) if line else 0, *with_hint(problem))


@functools.cache
def _globals() -> Mapping[str, Any]:
    own = {key: value for key, value in environment().globals.items() if key != "lipsum"}
    return {**own, "now": _now, "omit": OMIT, "undef": _undef}


def _now(utc: bool = False, fmt: str | None = None) -> Any:
    """The time on this machine: a date, or a text as ``fmt`` says."""
    # a date without a zone, as in Ansible
    found = datetime.now(timezone.utc).replace(tzinfo=None) if utc else datetime.now()  # noqa: DTZ005
    return found.strftime(fmt) if fmt else found


def _undef(hint: str | None = None) -> Undefined:
    """A value that isn't defined: using it is an error that says ``hint``."""
    return environment().undefined(hint or "mandatory variable has not been overridden")


def _header(source: str) -> tuple[str, dict[str, Any]]:
    """A template without its first line ``#jinja2: ...``, and the settings that the line makes."""
    if not source.startswith(_HEADER):
        return source, {}
    line, _, body = source.partition("\n")
    found: dict[str, Any] = {}
    for key, value in _OVERRIDE.findall(line.removeprefix(_HEADER).rstrip()):
        try:
            found[key] = literal_eval(value)
        except (ValueError, SyntaxError):
            raise TaskFailed(
                f"{_HEADER} {key}: {value!r} is no value such as True or '<%'", code="template"
            ) from None
    return body, found


def _known(overrides: Mapping[str, Any]) -> Mapping[str, Any]:
    for key in overrides:
        if key not in OVERRIDES:
            near = nearest(key, OVERRIDES)
            hint = f"did you mean {near}?" if near else f"it has: {', '.join(OVERRIDES)}"
            raise TaskFailed(f"a template has no setting {key!r}", hint=hint, code="template")
    return overrides


def _newlines(text: str) -> int:
    return len(text) - len(text.rstrip("\n"))


def _settled(value: Any) -> Any:
    """A native value of dictionaries, lists and single values, without undefined parts and lazy pieces.

    What is omitted in it isn't there, as in Ansible.
    """
    if type(value) in _SINGLE:
        return value
    if isinstance(value, Undefined):
        # that of an "if" without "else" is lenient in text, and no value either
        value._fail_with_undefined_error()
    if isinstance(value, Pending):
        value.fail()
    if isinstance(value, Mapping):
        return {key: _settled(item) for key, item in value.items() if item is not OMIT}
    if isinstance(value, (list, tuple, set, frozenset, range, GeneratorType)) or _is_view(value):
        return [_settled(item) for item in value if item is not OMIT]
    return value


def _is_view(value: Any) -> bool:
    return isinstance(value, (type({}.keys()), type({}.values()), type({}.items())))


def _shown(source: str) -> str:
    flat = " ".join(source.split())
    return repr(flat if len(flat) <= 80 else flat[:77] + "...")
