"""Jinja2 set up as playbooks use it: sandboxed, strict about undefined names, and giving native values."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import (
    BaseLoader,
    ChainableUndefined,
    Environment,
    StrictUndefined,
    Template,
    TemplateNotFound,
    TemplateSyntaxError,
    nodes,
)
from jinja2.exceptions import SecurityError
from jinja2.lexer import Lexer, TokenStream
from jinja2.nativetypes import NativeCodeGenerator
from jinja2.parser import Parser
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing

from klops.errors import TaskFailed
from klops.playbook.localfiles import places, read_local
from klops.playbook.template.filters import FILTERS, TESTS, settled
from klops.playbook.template.pending import Pending

#: The variable that an expression's value is assigned to.
RESULT = "result"
#: What a template or a task may set of Jinja2, as Ansible's module ``template`` names it.
OVERRIDES = (
    "block_end_string",
    "block_start_string",
    "comment_end_string",
    "comment_start_string",
    "lstrip_blocks",
    "newline_sequence",
    "trim_blocks",
    "variable_end_string",
    "variable_start_string",
)
#: a backslash, pairs of them before it left out, with which no escape begins
_FALSE_ESCAPE = re.compile(r"""(?<!\\)((?:\\\\)*)\\(?![\n\\'"abfnrtvxNuU0-7])""")
_LAST_NEWLINE = re.compile(r"(\r\n|\r|\n)\Z")
_INCLUDES = re.compile(r"\{%[-+]?\s*(?:include|import|from|extends)\b")
_MUTATING = ("add", "append", "clear", "extend", "insert", "pop", "remove", "sort", "update", "setdefault")

#: of Jinja2's own, those that ask no more of a value than whether it is there
_LENIENT_FILTERS = ("default", "d")
_LENIENT_TESTS = ("defined", "undefined")


class Omit:
    """What the variable ``omit`` holds: a parameter that gets it counts as not given."""

    def __repr__(self) -> str:
        return "omit"


OMIT = Omit()


def joined(parts: Iterable[Any]) -> Any:
    """What a template gives: its only piece as it is, or the text of several; nulls are nothing.

    Raises NotKnown, UndefinedError and :class:`TaskFailed`.
    """
    found = [part for part in parts if _checked(part) is not None]
    if len(found) == 1:
        return found[0]
    return "".join(map(str, found)) if found else None


def text_of(parts: Iterable[Any]) -> str:
    """What a template file gives: always text."""
    return "".join("" if part is None else str(_checked(part)) for part in parts)


def _checked(part: Any) -> Any:
    if isinstance(part, Undefined):
        str(part)  # raises UndefinedError, as StrictUndefined does for every use
    if isinstance(part, Pending):
        part.fail()
    if part is OMIT:
        raise TaskFailed("omit only works as the whole value of a parameter", code="template")
    return part


class _Generator(NativeCodeGenerator):
    """Constants stay what they are, and aren't read as Python again as Jinja2's native types do."""

    def _output_const_repr(self, group: Iterable[Any]) -> str:
        return repr(joined(group))


class Missing(ChainableUndefined, StrictUndefined):
    """What isn't there. As in Ansible what is looked up in it isn't there either; any use is an error."""

    __slots__ = ()


class Over(Mapping[str, Any]):
    """Variables over others; nothing is looked at before it is asked for."""

    def __init__(self, over: Mapping[str, Any], under: Mapping[str, Any]) -> None:
        self._both = (over, under)

    def __getitem__(self, key: str) -> Any:
        over, under = self._both
        return over[key] if key in over else under[key]

    def __contains__(self, key: object) -> bool:
        return any(key in one for one in self._both)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(key for one in self._both for key in one))

    def __len__(self) -> int:
        return len(list(iter(self)))


class _Context(Context):
    """Hands variables on to what a template includes without copying them: a copy would render them all."""

    def get_all(self) -> dict[str, Any]:
        """The variables of the template, over those it was given."""
        return Over(self.vars, self.parent) if self.vars else self.parent  # type: ignore[return-value]  # read only

    def derived(self, locals: dict[str, Any] | None = None) -> Context:  # noqa: A002 - Jinja2's name
        """For a block within: the same with its local variables."""
        made = type(self)(self.environment, _laid_over(locals, self.get_all()), self.name, {})
        made.eval_ctx = self.eval_ctx
        made.blocks.update((name, list(blocks)) for name, blocks in self.blocks.items())
        return made


class _Template(Template):
    def new_context(
        self,
        vars: dict[str, Any] | None = None,  # noqa: A002 - Jinja2's name
        shared: bool = False,
        locals: Mapping[str, Any] | None = None,  # noqa: A002 - Jinja2's name
    ) -> Context:
        """As Jinja2 does; local variables are laid over shared ones instead of being put into a copy."""
        if not shared or not locals:
            return super().new_context(vars, shared, locals)
        return super().new_context(_laid_over(locals, vars or {}), shared=True)


def _laid_over(own: Mapping[str, Any] | None, variables: Mapping[str, Any]) -> dict[str, Any]:
    given = {key: value for key, value in (own or {}).items() if value is not missing}
    return Over(given, variables)  # type: ignore[return-value]  # any mapping will do: it is only read


class _Environment(ImmutableSandboxedEnvironment):
    code_generator_class = _Generator
    context_class = _Context
    template_class = _Template
    concat = staticmethod(joined)  # of macros and blocks: native as well

    def _tokenize(
        self, source: str, name: str | None, filename: str | None = None, state: str | None = None
    ) -> TokenStream:
        # \d and the like are no escapes: written as Python will want them
        repaired = _with_texts(self.lexer, source, state, lambda text, _: _FALSE_ESCAPE.sub(r"\1\\\\", text))
        return super()._tokenize(repaired, name, filename, state)

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        """As the sandbox does; says what to do in place of changing a list or dictionary."""
        if attribute in _MUTATING and isinstance(obj, (list, dict, set)):
            return self.undefined(
                f"a template can't change a {type(obj).__name__} in place ({attribute}): make a new one, "
                f"such as {'old + [item]' if isinstance(obj, list) else 'old | combine({key: value})'}",
                name=attribute,
                obj=obj,
                exc=SecurityError,
            )
        return super().unsafe_undefined(obj, attribute)


class _Files(BaseLoader):
    """Templates that others include or import: beside the one that does, then where tasks find them."""

    def __init__(self, files: Sequence[Path], folder: str) -> None:
        self._files = files
        self._folder = folder

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        source = self._read(template)
        # as in Ansible only the file that a task names keeps its last newline
        body = _LAST_NEWLINE.sub("", source) if environment.keep_trailing_newline else source
        return body, template, lambda: self._read(template) == source

    def _read(self, name: str) -> str:
        if not self._files:
            raise TemplateNotFound(name, f"{name}: there is no folder here to look in")
        beside = f"{self._folder}/{name}"
        if self._folder and any(place.is_file() for place in places(self._files, "templates", beside)):
            name = beside
        try:
            return read_local(self._files, "templates", name).decode("utf-8")
        except TaskFailed as error:
            raise TemplateNotFound(name, error.message) from error
        except UnicodeDecodeError as error:
            raise TemplateNotFound(name, f"{name} is not UTF-8 text") from error


@functools.cache
def environment() -> Environment:
    """The environment of the texts in playbooks."""
    made = _Environment(
        undefined=Missing,
        # as Ansible: the newline after a block tag goes
        trim_blocks=True,
        autoescape=False,
        loader=_Files((), ""),
    )
    tables: tuple[tuple[dict[str, Any], tuple[str, ...]], ...] = (
        (made.filters, _LENIENT_FILTERS),
        (made.tests, _LENIENT_TESTS),
    )
    for table, lenient in tables:
        table.update({name: settled(work) for name, work in table.items() if name not in lenient})
    made.filters.update(FILTERS)
    made.tests.update(TESTS)
    return made


@functools.lru_cache(maxsize=256)
def file_environment(
    files: tuple[Path, ...], folder: str, overrides: tuple[tuple[str, Any], ...]
) -> Environment:
    """The environment of template files; see :func:`compiled_file`."""
    # the newline at the end of a file stays
    return environment().overlay(loader=_Files(files, folder), keep_trailing_newline=True, **dict(overrides))


@functools.lru_cache(maxsize=1024)
def compiled_file(
    source: str, files: tuple[Path, ...], folder: str, overrides: tuple[tuple[str, Any], ...]
) -> Template:
    """The text of a template file; ``folder`` is where it lies in ``templates``, for what it includes."""
    return file_environment(files, folder, overrides).from_string(source)


def compiled(source: str, files: tuple[Path, ...] = ()) -> Template:
    """The text of a value in a playbook; ``files`` are those beside which it finds what it includes."""
    return _compiled(source, files if _INCLUDES.search(source) else ())


@functools.lru_cache(maxsize=4096)
def _compiled(source: str, files: tuple[Path, ...]) -> Template:
    own = environment().overlay(loader=_Files(files, "")) if files else environment()
    return own.from_string(backslashes_kept(source))


@functools.lru_cache(maxsize=4096)
def compiled_expression(expression: str) -> Template:
    """An expression without braces, compiled to assign its value to :data:`RESULT`."""
    output = expression_tree(expression).body[0]
    assert isinstance(output, nodes.Output)  # noqa: S101 - made so just below
    assign = nodes.Assign(nodes.Name(RESULT, "store"), output.nodes[0], lineno=1)
    tree = nodes.Template([assign], lineno=1)
    tree.set_environment(environment())
    return environment().from_string(tree)


def expression_tree(expression: str) -> nodes.Template:
    """The tree of a template that puts out one expression. Raises TemplateSyntaxError."""
    parser = Parser(environment(), expression, state="variable")
    tree = parser.parse_expression()
    if not parser.stream.eos:
        raise TemplateSyntaxError(f"unexpected {parser.stream.current.value!r}", parser.stream.current.lineno)
    template = nodes.Template([nodes.Output([tree], lineno=1)], lineno=1)
    template.set_environment(environment())
    return template


def backslashes_kept(source: str) -> str:
    """``source`` with the backslashes of texts in ``{{ }}`` doubled, so that Jinja2 gives them as written.

    As in Ansible: ``regex_replace('a(.)', '\\1')`` means in a plain YAML value what it says. In ``{% %}``,
    in conditions and in template files Jinja2's own rules hold.
    """
    lexer = environment().lexer
    return _with_texts(
        lexer, source, None, lambda text, inside: text.replace("\\", "\\\\") if inside else text
    )


def _with_texts(lexer: Lexer, source: str, state: str | None, change: Callable[[str, bool], str]) -> str:
    """``source`` with its quoted texts changed; ``change`` is told whether one stands in ``{{ }}``."""
    if "\\" not in source:
        return source
    parts = []
    inside = False
    try:
        for _, token, text in lexer.tokeniter(source, None, state=state):
            if token in ("variable_begin", "variable_end"):
                inside = token == "variable_begin"  # noqa: S105 - a kind of token
            parts.append(change(text, inside) if token == "string" else text)  # noqa: S105 - the same
    except TemplateSyntaxError:
        return source  # compiling it says what is wrong
    dropped = source.endswith("\n") and not lexer.keep_trailing_newline
    return "".join(parts) + "\n" * dropped
