"""``klops doctor``: what is wrong with hosts, looked at one thing after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from klops.cli.complete import complete_hosts
from klops.cli.options import BudgetOption, Common, host_command_without, split_commas

if TYPE_CHECKING:
    from collections.abc import Mapping

    from klops.cli.outfile import OutFile
    from klops.cli.session import Session
    from klops.errors import KlopsError
    from klops.playbook.results import RunResult

#: What can be looked at -> the playbook that looks.
WHATS = {"xccl": "doctor-xccl.yml", "cards": "doctor-cards.yml"}


def _complete_what(incomplete: str) -> list[str]:
    return [what for what in WHATS if what.startswith(incomplete)]


@host_command_without("diff", "yes")
def doctor(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="xccl: which cards, alone and together, compute right and fast; cards: what can be told of "
            "them without load.",
            autocompletion=_complete_what,
            show_default=False,
        ),
    ],
    hosts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="HOST",
            help="Hosts, groups or patterns: p800, 'p800:!host3', 'host[01:08]'. Else the whole inventory.",
            autocompletion=complete_hosts,
            show_default=False,
        ),
    ] = None,
    *,
    html: Annotated[
        str | None,
        typer.Option("--html", metavar="FILE", help="Write one page with everything; - is standard output."),
    ] = None,
    csv: Annotated[
        str | None,
        typer.Option("--csv", metavar="FILE", help="Write each measurement as a row; - is standard output."),
    ] = None,
    card: Annotated[
        list[str] | None,
        typer.Option(
            "--card",
            metavar="CARD",
            help="Only this card, by index (also 3-5), node, bdf, uuid or serial; repeatable.",
            show_default=False,
        ),
    ] = None,
    scan: Annotated[
        bool, typer.Option("--scan", help="Only measure 2, 4 and 8 ranks at each size, and list that.")
    ] = False,
    serial: Annotated[
        bool, typer.Option("--serial", help="Pairs one after another, where they share links.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Each card alone and all pairs, also where all cards do well.")
    ] = False,
    budget: BudgetOption = None,
    common: Common,
) -> None:
    """Say what is wrong with hosts, what shows it, and what to do about it.

    Cards that a service or somebody else uses are left alone.

    Example: klops doctor xccl p800-01 --html report.html
    """
    from klops.cli.outfile import OutFile
    from klops.cli.running import run_playbook
    from klops.cli.session import open_session
    from klops.playbook.shipped import find

    given = {
        **{name: True for name, wanted in (("scan", scan), ("serial", serial), ("full", full)) if wanted},
        **({} if budget is None else {"budget": budget}),
        **({"cards": list(split_commas(card))} if card else {}),
    }
    files = {
        kind: OutFile(f"--{kind}", name) for kind, name in (("html", html), ("csv", csv)) if name is not None
    }
    _require_sense(what, [*given, *files], files, common)
    session = open_session(common, aside=any(file.is_stdout for file in files.values()))
    path, origin = find(WHATS[what])
    result = run_playbook(session, path, origin, limit=session.select(hosts or ["all"]), extra=given)
    _tell(session, result, files)


def _require_sense(what: str, options: list[str], files: Mapping[str, OutFile], common: Common) -> None:
    """Raise :class:`UsageError` for what can't be meant."""
    from klops.errors import UsageError
    from klops.yamlsource import nearest

    if what not in WHATS:
        near = nearest(what, WHATS)
        raise UsageError(
            f"klops doctor does not look at {what!r}" + (f"; did you mean {near}?" if near else ""),
            hint=f"what it looks at: {', '.join(WHATS)}",
        )
    if what != "xccl" and options:
        named = ", ".join("--card" if option == "cards" else f"--{option}" for option in options)
        raise UsageError(f"only with klops doctor xccl: {named}")
    if files and common.check:
        raise UsageError(
            f"not with --check: {', '.join(file.option for file in files.values())}",
            hint="a check tests nothing, so there is nothing to write",
        )
    on_stdout = [file.option for file in files.values() if file.is_stdout]
    if len(on_stdout) + common.json > 1:
        raise UsageError(
            f"standard output takes one thing: {', '.join(on_stdout + ['-o json'] * common.json)}",
            hint="name a file for the others",
        )
    for file in files.values():
        file.check()


def _tell(session: Session, result: RunResult, files: Mapping[str, OutFile]) -> None:
    """Print and write what was found, and end the command with its exit status."""
    from klops.cli.cardwork import document, failures, told

    values = told(result)
    failure = _write(session, files, values, failures(result))
    if session.common.json:
        session.print_json(document(result, values, failure))
    else:
        from klops.ui.doctor.summary import doctor_view

        console = session.console()
        console.print()
        console.print(doctor_view(values, session.redactor, errors=result.errors))
        if failure is not None:
            console.print(session.redactor(f"error: {failure.message}"), style="red")
    session.end(result.exit_status() or (failure.exit_status if failure is not None else 0))


def _write(
    session: Session,
    files: Mapping[str, OutFile],
    values: Mapping[str, Mapping[str, Any]],
    failed: Mapping[str, KlopsError],
) -> KlopsError | None:
    """Write the files; what is found is shown also where that fails, with the first failure."""
    from klops.errors import KlopsError
    from klops.ui.doctor.csv import csv_text
    from klops.ui.doctor.page import page
    from klops.ui.json import redact

    found = redact(values, session.redactor)
    errors = {name: redact(error.as_json(), session.redactor) for name, error in failed.items()}
    failure: KlopsError | None = None
    for kind, file in files.items():
        try:
            file.write(page(found, errors) if kind == "html" else csv_text(found, errors))
        except KlopsError as error:
            failure = failure or error
    return failure
