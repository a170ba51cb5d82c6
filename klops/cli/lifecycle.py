"""``klops up``, ``down`` and ``restart``: the shipped playbooks, limited to the hosts that were named."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from klops.cli.complete import complete_services
from klops.cli.options import (
    Common,
    DetailedExitcodeOption,
    HostsArgument,
    SkipTagsOption,
    TagsOption,
    host_command,
    split_commas,
)


@host_command
def up(
    hosts: HostsArgument,
    *,
    tags: TagsOption = None,
    skip_tags: SkipTagsOption = None,
    recreate: Annotated[
        bool,
        typer.Option(
            "--recreate",
            help="Make a container anew that differs from the settings. The old one is kept until the new "
            "one's services are ready, and comes back if they don't get there.",
        ),
    ] = False,
    tp: Annotated[
        int | None,
        typer.Option(
            "--tp",
            metavar="N",
            min=1,
            help="Cards of each service, whatever klops.services says. Warned of, as nothing proves that "
            "they hold the model.",
            show_default=False,
        ),
    ] = None,
    detailed_exitcode: DetailedExitcodeOption = False,
    common: Common,
) -> None:
    """Bring hosts up: preflight, agent, image, container, cards, services, until each service answers.

    Example: klops up p800 --check --diff
    """
    extra: dict[str, Any] = {"recreate": "allow"} if recreate else {}
    if tp is not None:
        extra["tp"] = tp
    _shipped("up.yml", hosts, common, extra=extra, tags=tags, skip_tags=skip_tags, detailed=detailed_exitcode)


@host_command
def down(
    hosts: HostsArgument,
    *,
    remove: Annotated[
        bool,
        typer.Option(
            "--remove",
            help="Take the container away too, with what was written in it. One that was adopted stays as it "
            "is: what klops runs in there is ended, and it is let go of.",
        ),
    ] = False,
    detailed_exitcode: DetailedExitcodeOption = False,
    common: Common,
) -> None:
    """Stop the services of hosts and prove that no process of theirs is left.

    Example: klops down p800-01
    """
    question = ""
    if remove:
        question = (
            "Remove the container that klops made on {hosts}, with everything that was written inside it? "
            "(One that was adopted is only let go of.)"
        )
    extra = {"remove": True} if remove else {}
    _shipped("down.yml", hosts, common, extra=extra, detailed=detailed_exitcode, question=question)


@host_command
def restart(
    hosts: HostsArgument,
    *,
    service: Annotated[
        list[str] | None,
        typer.Option(
            "--service",
            "-s",
            metavar="NAME",
            help="Only this service; repeatable. Else all of the host.",
            autocompletion=complete_services,
        ),
    ] = None,
    detailed_exitcode: DetailedExitcodeOption = False,
    common: Common,
) -> None:
    """Restart services, clearing the state failed.

    Example: klops restart p800-01 --service qwen
    """
    names = split_commas(service)
    extra = {"names": list(names)} if names else {}
    _shipped("restart.yml", hosts, common, extra=extra, detailed=detailed_exitcode, services=names)


def _shipped(
    playbook: str,
    patterns: list[str],
    common: Common,
    *,
    extra: dict[str, Any] | None = None,
    tags: list[str] | None = None,
    skip_tags: list[str] | None = None,
    detailed: bool = False,
    question: str = "",
    services: tuple[str, ...] = (),
) -> None:
    from klops.cli.place import choose_service
    from klops.cli.running import finish, run_playbook
    from klops.cli.session import confirm, open_session
    from klops.cli.taken import require_uses
    from klops.playbook.shipped import find

    session = open_session(common)
    hosts = session.select(patterns)
    for name in services:
        for host in hosts:
            choose_service(host, session.settings(host), name)
    if question:
        confirm(question.format(hosts=", ".join(hosts)), common)
    path, origin = find(playbook)
    require_uses(path, extra or ())
    result = run_playbook(
        session,
        path,
        origin,
        limit=hosts,
        extra=extra,
        tags=split_commas(tags),
        skip_tags=split_commas(skip_tags),
    )
    finish(session, result, show_status=True, detailed=detailed)
