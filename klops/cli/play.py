"""``klops play``: any playbook."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from klops.cli.options import (
    Common,
    DetailedExitcodeOption,
    SkipTagsOption,
    TagsOption,
    host_command,
    split_commas,
)

if TYPE_CHECKING:
    from klops.errors import Mistake
    from klops.playbook.model import Playbook


@host_command
def play(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The playbook.", show_default=False)],
    *,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            "-l",
            metavar="HOST,...",
            help="Only these hosts or patterns; @FILE has one in each line.",
        ),
    ] = None,
    tags: TagsOption = None,
    skip_tags: SkipTagsOption = None,
    start_at_task: Annotated[
        str | None, typer.Option("--start-at-task", metavar="NAME", help="Begin with the task of this name.")
    ] = None,
    list_tasks: Annotated[bool, typer.Option("--list-tasks", help="List the tasks; run nothing.")] = False,
    list_hosts: Annotated[bool, typer.Option("--list-hosts", help="List the hosts; run nothing.")] = False,
    list_tags: Annotated[bool, typer.Option("--list-tags", help="List the tags; run nothing.")] = False,
    syntax_check: Annotated[
        bool, typer.Option("--syntax-check", help="Read the playbook and all it names; needs no inventory.")
    ] = False,
    detailed_exitcode: DetailedExitcodeOption = False,
    common: Common,
) -> None:
    """Run a playbook.

    Example: klops play site.yml --limit p800-01 --check --diff
    """
    from klops.cli.listing import list_playbook
    from klops.cli.running import finish, run_playbook
    from klops.cli.session import open_session
    from klops.errors import UsageError

    if not file.is_file():
        raise UsageError(f"{file}: no such playbook", hint="give the path of a YAML file")
    if syntax_check:
        _check_syntax(file, common)
        return
    session = open_session(common)
    if list_tasks or list_hosts or list_tags:
        list_playbook(
            session,
            file,
            limit=limit,
            tags=split_commas(tags),
            skip_tags=split_commas(skip_tags),
            tasks=list_tasks,
            hosts=list_hosts,
            list_tags=list_tags,
        )
        return
    result = run_playbook(
        session,
        file,
        "",
        limit=limit,
        tags=split_commas(tags),
        skip_tags=split_commas(skip_tags),
        start_at_task=start_at_task,
    )
    finish(session, result, show_status=False, detailed=detailed_exitcode)


def _check_syntax(file: Path, common: Common) -> None:
    """Load a playbook, and say so. Raises :class:`SourceErrors` with every mistake."""
    from klops.actions.catalog import catalog
    from klops.playbook.load.plays import load_playbook
    from klops.ui.json import dumps

    playbook = load_playbook(file, catalog())
    warnings = [str(found) for found in _unread_secrets(playbook)]
    plays, tasks = len(playbook.plays), sum(len(play.all_tasks) for play in playbook.plays)
    if common.json:
        document = {"ok": True, "playbook": str(file), "plays": plays, "tasks": tasks, "warnings": warnings}
        typer.echo(dumps(document, common.redactor))
    else:
        for warning in warnings:
            typer.echo(f"warning: {warning}", err=True)
        typer.echo(f"{file}: ok ({_count(plays, 'play')}, {_count(tasks, 'task')})")


def _unread_secrets(playbook: Playbook) -> Iterator[Mistake]:
    """Variables of plays that look like a secret setting's form and are plain mappings."""
    from klops.inventory.nearmisses import unread_secrets
    from klops.playbook.load.varsfiles import find_vars_file, read_vars_file

    for play in playbook.plays:
        files = (find_vars_file(play.file, entry.paths) for entry in play.vars_files)
        layers = [play.vars, *(read_vars_file(file) for file in files if file is not None)]
        for name, node in (item for layer in layers for item in layer.items()):
            yield from unread_secrets(name, node)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
