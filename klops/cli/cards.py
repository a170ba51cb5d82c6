"""``klops cards list``, ``learn``, ``exclude``, ``restore``: what is known of cards, and which may serve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from klops.cli.options import (
    BudgetOption,
    Common,
    DetailedExitcodeOption,
    HostArgument,
    HostsArgument,
    host_command,
    host_command_without,
    split_commas,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.console import RenderableType

    from klops.cli.session import Session
    from klops.playbook.results import RunResult

app = typer.Typer(help="What is known of cards, and which may serve.", no_args_is_help=True)

#: Seconds; a note for longer than ten years is one for good.
_LONGEST = 3650 * 86400.0

CardsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="CARD",
        help="Cards, by index, node, bdf, uuid or serial; also 0,1,2 and 0-2.",
        show_default=False,
    ),
]


@app.command(name="list")
@host_command_without("check", "diff", "yes")
def list_cards(hosts: HostsArgument, *, common: Common) -> None:
    """Show the cards of hosts: what the last diagnosis said, how old that is, and what keeps one out.

    Example: klops cards list p800
    """
    from klops.cli.cardwork import told
    from klops.cli.running import run_quietly
    from klops.cli.session import open_session
    from klops.errors import KlopsError
    from klops.playbook.shipped import find
    from klops.ui.cards import list_view

    session = open_session(common)
    names = session.select(hosts)
    path, origin = find("cards-list.yml")
    result = run_quietly(session, path, origin, limit=names)
    values = told(result)
    shown = {
        name: values.get(name) or result.errors.get(name) or KlopsError("nothing was read", code="internal")
        for name in names
    }
    _end(session, result, values, lambda: list_view(shown, session.redactor))


@app.command()
@host_command
def learn(
    hosts: HostsArgument,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Also from a host where not all cards do well.")
    ] = False,
    budget: BudgetOption = None,
    detailed_exitcode: DetailedExitcodeOption = False,
    common: Common,
) -> None:
    """Learn from hosts that do well: who their cards are, and what bandwidth they have together.

    What is measured later is compared with that.

    Example: klops cards learn p800-01
    """
    from klops.ui.doctor.summary import doctor_view

    extra = {**({"force": True} if force else {}), **({} if budget is None else {"budget": budget})}
    _run("cards-learn.yml", hosts, extra, common, doctor_view, detailed=detailed_exitcode)


@app.command()
@host_command
def exclude(
    host: HostArgument,
    cards: CardsArgument,
    *,
    reason: Annotated[
        str | None,
        typer.Option(
            "--reason", metavar="TEXT", help="Why, for whoever meets this later.", show_default=False
        ),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="DURATION",
            help="Only so long, such as 90m, 12h or 7d. Else until klops cards restore.",
            show_default=False,
        ),
    ] = None,
    detailed_exitcode: DetailedExitcodeOption = False,
    common: Common,
) -> None:
    """Keep cards out of service. A service that runs on one goes on until it is started anew.

    Example: klops cards exclude p800-01 3 --reason 'link errors, ticket 4711' --for 7d
    """
    from klops.cli.durations import parse_span
    from klops.ui.cards import notes_view

    extra: dict[str, Any] = {"cards": _named(cards)}
    if reason is not None:
        extra["reason"] = reason
    if duration is not None:
        extra["for_seconds"] = _sensible(parse_span(duration), duration)
    _run("cards-exclude.yml", [host], extra, common, notes_view, detailed=detailed_exitcode, one=True)


@app.command()
@host_command
def restore(
    host: HostArgument,
    cards: CardsArgument,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Without testing them first, or whatever that came to.")
    ] = False,
    detailed_exitcode: DetailedExitcodeOption = False,
    common: Common,
) -> None:
    """Put cards back into service, once they are seen to work.

    Example: klops cards restore p800-01 3
    """
    from klops.ui.cards import notes_view

    extra = {"cards": _named(cards), **({"force": True} if force else {})}
    _run("cards-restore.yml", [host], extra, common, notes_view, detailed=detailed_exitcode, one=True)


def _sensible(seconds: float, typed: str) -> float:
    """Raise :class:`UsageError` for a span in which no note is in force, or that no calendar has."""
    from klops.errors import UsageError

    if not 0 < seconds <= _LONGEST:
        hint = "more than 0 and at most 3650d; without --for it is until klops cards restore"
        raise UsageError(f"--for {typed} keeps no card out for a time", hint=hint)
    return seconds


def _named(cards: list[str]) -> list[str]:
    from klops.errors import UsageError

    named = list(dict.fromkeys(split_commas(cards)))
    if not named:
        raise UsageError(
            "no card is named", hint="by index, node, bdf, uuid or serial, as klops cards list shows them"
        )
    return named


def _run(
    playbook: str,
    patterns: list[str],
    extra: Mapping[str, Any],
    common: Common,
    view: Callable[..., RenderableType],
    *,
    detailed: bool,
    one: bool = False,
) -> None:
    """Run a playbook and show its result by ``view``; ``one``: the pattern is to name one host."""
    from klops.cli.cardwork import told
    from klops.cli.running import run_playbook
    from klops.cli.session import open_session
    from klops.playbook.shipped import find

    session = open_session(common)
    hosts = [session.one(patterns[0])] if one else session.select(patterns)
    path, origin = find(playbook)
    result = run_playbook(session, path, origin, limit=hosts, extra=extra)
    values = told(result)
    if values and not common.json:
        session.outlet.write("\n")
    _end(
        session,
        result,
        values,
        lambda: view(values, session.redactor, errors=result.errors),
        detailed=detailed,
    )


def _end(
    session: Session,
    result: RunResult,
    values: Mapping[str, Mapping[str, Any]],
    view: Callable[[], RenderableType],
    *,
    detailed: bool = False,
) -> None:
    from klops.cli.cardwork import document

    if session.common.json:
        session.print_json(document(result, values))
    else:
        session.console().print(view())
    session.end(result.exit_status(detailed=detailed))
