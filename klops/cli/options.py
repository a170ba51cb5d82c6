"""Options that commands share, declared once.

A command takes ``common: Common`` and is decorated with :func:`host_command`, which turns that one parameter
into the options that every host command has.
"""

from __future__ import annotations

import copy
import functools
import inspect
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Annotated, Any, get_args

import typer

from klops.cli.complete import complete_hosts, complete_services
from klops.errors import Interrupted
from klops.playbook.options import FORKS
from klops.secret import Redactor


class Output(str, Enum):
    """Form of what a command prints."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True)
class Common:
    """The options that every host command has, as typed."""

    inventory: tuple[str, ...] = ()
    check: bool = False
    diff: bool = False
    forks: int = FORKS
    output: Output = Output.TEXT
    verbose: int = 0
    extra_vars: tuple[str, ...] = ()
    yes: bool = False
    ask_pass: bool = False
    ask_become_pass: bool = False
    #: learns every secret that the command meets; the last line of defence for all that is printed
    redactor: Redactor = field(default_factory=Redactor)

    @property
    def json(self) -> bool:
        """Whether standard output holds JSON alone."""
        return self.output is Output.JSON


InventoryOption = Annotated[
    list[str] | None,
    typer.Option(
        "--inventory",
        "-i",
        metavar="PATH",
        help="Inventory file, folder or program, or host1,host2, ; repeatable. "
        "Else $KLOPS_INVENTORY, else ./inventory.",
    ),
]
CheckOption = Annotated[bool, typer.Option("--check", "-C", help="Show what would change; write nothing.")]
DiffOption = Annotated[bool, typer.Option("--diff", "-D", help="Show differences of contents.")]
ForksOption = Annotated[
    int, typer.Option("--forks", "-f", min=1, metavar="N", help="Hosts worked on side by side.")
]
OutputOption = Annotated[
    Output, typer.Option("--output", "-o", help="text for people, json for programs.", case_sensitive=False)
]
VerboseOption = Annotated[
    int, typer.Option("--verbose", "-v", count=True, show_default=False, help="Say more; repeatable.")
]
ExtraVarsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--extra-vars",
        "-e",
        metavar="KEY=VALUE|@FILE|JSON",
        help="Variables that win over all others; repeatable.",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Answer yes to every question.")]
AskPassOption = Annotated[bool, typer.Option("--ask-pass", "-k", help="Ask for the ssh password.")]
AskBecomePassOption = Annotated[
    bool, typer.Option("--ask-become-pass", "-K", help="Ask for the password of sudo.")
]

HostsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="HOST",
        help="Hosts, groups or patterns: p800, 'p800:!host3', 'host[01:08]', all.",
        autocompletion=complete_hosts,
        show_default=False,
    ),
]
HostArgument = Annotated[
    str, typer.Argument(metavar="HOST", help="One host.", autocompletion=complete_hosts, show_default=False)
]
#: Of a command that takes one word for its hosts, as more words follow that are none.
PatternArgument = Annotated[
    str,
    typer.Argument(
        metavar="HOST",
        help="A host, a group or a pattern, such as 'host[01:08]'; with --tty one host.",
        autocompletion=complete_hosts,
        show_default=False,
    ),
]
TagsOption = Annotated[
    list[str] | None,
    typer.Option("--tags", "-t", metavar="TAG,...", help="Only tasks with one of these tags."),
]
SkipTagsOption = Annotated[
    list[str] | None,
    typer.Option("--skip-tags", metavar="TAG,...", help="Leave out tasks with one of these tags."),
]


def _finite(seconds: float | None) -> float | None:
    """Raises ``typer.BadParameter`` for what is a float and no length of time."""
    if seconds is not None and not math.isfinite(seconds):
        raise typer.BadParameter(f"{seconds} is not a length of time")
    return seconds


#: Of the commands that test cards.
BudgetOption = Annotated[
    float | None,
    typer.Option(
        "--budget",
        metavar="SECONDS",
        min=1,
        callback=_finite,
        help="At most this long on a host; else klops.cards.budget.",
        show_default=False,
    ),
]

DetailedExitcodeOption = Annotated[
    bool, typer.Option("--detailed-exitcode", help="With --check: exit with 3 when changes are pending.")
]
ServiceOption = Annotated[
    str | None,
    typer.Option(
        "--service",
        "-s",
        metavar="NAME",
        help="The service; needed when the host has several.",
        autocompletion=complete_services,
    ),
]

#: name -> (annotation, default), in the order of the help page
_COMMON: dict[str, tuple[Any, Any]] = {
    "inventory": (InventoryOption, None),
    "check": (CheckOption, False),
    "diff": (DiffOption, False),
    "forks": (ForksOption, FORKS),
    "output": (OutputOption, Output.TEXT),
    "verbose": (VerboseOption, 0),
    "extra_vars": (ExtraVarsOption, None),
    "yes": (YesOption, False),
    "ask_pass": (AskPassOption, False),
    "ask_become_pass": (AskBecomePassOption, False),
}
assert {*_COMMON, "redactor"} == {f.name for f in fields(Common)}  # noqa: S101 - the two lists are one, written twice


def host_command(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the common options in place of its parameter ``common``."""
    return _with_common(function, ())


def host_command_without(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """:func:`host_command` for a command to which some common options mean nothing.

    They are taken all the same, as every host command takes them, and left out of its help.
    """
    return functools.partial(_with_common, hidden=names)


def _with_common(function: Callable[..., None], hidden: Sequence[str]) -> Callable[..., None]:
    signature = inspect.signature(function, eval_str=True)
    own = [p for p in signature.parameters.values() if p.name != "common"]
    taken = {spelling for p in own for spelling in _spellings(p.annotation)}
    shared = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=_shared(annotation, taken, hidden=name in hidden),
        )
        for name, (annotation, default) in _COMMON.items()
    ]
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [context] + [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + shared

    @functools.wraps(function)
    def command(ctx: typer.Context, **values: Any) -> None:
        given = {name: values.pop(name) for name in _COMMON}
        if isinstance(ctx.obj, Redactor):
            given["redactor"] = ctx.obj
        for many in ("inventory", "extra_vars"):
            given[many] = tuple(given[many] or ())
        try:
            function(**values, common=Common(**given))
        except KeyboardInterrupt:
            # typer would turn it into a silent exit
            raise Interrupted("interrupted") from None

    command.__dict__["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def _spellings(annotation: Any) -> tuple[str, ...]:
    """How an annotated option is spelt; none for what is no option."""
    return tuple(
        spelling for part in get_args(annotation)[1:] for spelling in getattr(part, "param_decls", None) or ()
    )


def _shared(annotation: Any, taken: Collection[str], *, hidden: bool) -> Any:
    """A common option without the spellings that its command has taken, ``hidden`` from the help."""
    kind, option = get_args(annotation)
    option = copy.copy(option)
    option.hidden = hidden
    option.param_decls = tuple(spelling for spelling in option.param_decls if spelling not in taken)
    return Annotated[kind, option]


def split_commas(values: list[str] | None) -> tuple[str, ...]:
    """``["a,b", "c"]`` -> ``("a", "b", "c")``."""
    return tuple(part.strip() for value in values or () for part in value.split(",") if part.strip())
