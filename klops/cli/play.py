"""``klops play``: any playbook."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from klops.cli.options import (
    Common,
    DetailedExitcodeOption,
    SkipTagsOption,
    TagsOption,
    host_command,
    split_commas,
)


@host_command
def play(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The playbook.", show_default=False)],
    *,
    limit: Annotated[
        list[str] | None,
        typer.Option("--limit", "-l", metavar="HOST,...", help="Only these hosts or patterns."),
    ] = None,
    tags: TagsOption = None,
    skip_tags: SkipTagsOption = None,
    start_at_task: Annotated[
        str | None, typer.Option("--start-at-task", metavar="NAME", help="Begin with the task of this name.")
    ] = None,
    list_tasks: Annotated[bool, typer.Option("--list-tasks", help="List the tasks; run nothing.")] = False,
    list_hosts: Annotated[bool, typer.Option("--list-hosts", help="List the hosts; run nothing.")] = False,
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
    session = open_session(common)
    hosts = None if limit is None else session.select(limit)
    if list_tasks or list_hosts:
        list_playbook(
            session,
            file,
            limit=hosts,
            tags=split_commas(tags),
            skip_tags=split_commas(skip_tags),
            tasks=list_tasks,
            hosts=list_hosts,
        )
        return
    result = run_playbook(
        session,
        file,
        "",
        limit=hosts,
        tags=split_commas(tags),
        skip_tags=split_commas(skip_tags),
        start_at_task=start_at_task,
    )
    finish(session, result, show_status=False, detailed=detailed_exitcode)
