"""``klops play --list-tasks``, ``--list-hosts``, ``--list-tags``: what would run, and where. Nothing runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from klops.cli.session import Session


def list_playbook(
    session: Session,
    file: Path,
    *,
    limit: Sequence[str] | None,
    tags: Sequence[str],
    skip_tags: Sequence[str],
    tasks: bool,
    hosts: bool,
    list_tags: bool = False,
) -> None:
    """Print the plays of a playbook with their hosts, their tasks, the tags of these, or several of them."""
    from klops.actions.catalog import catalog
    from klops.actions.control import meta
    from klops.playbook.load.plays import load_playbook
    from klops.playbook.plays.run import RunOptions
    from klops.playbook.plays.selection import select

    options = RunOptions(limit=limit, tags=tags, skip_tags=skip_tags, extra_vars=session.extra)
    document: list[dict[str, Any]] = []
    for selection in select(load_playbook(file, catalog()), session.inventory, options):
        shown: dict[str, Any] = {"name": selection.play.name}
        if hosts:
            shown["hosts"] = list(selection.hosts)
        if tasks:
            shown["tasks"] = [
                {"name": task.name, "action": task.action.name, "tags": list(task.tags)}
                for task in selection.tasks
                if task.action.name != meta.NAME
            ]
        if list_tags:
            shown["tags"] = sorted({tag for task in selection.tasks for tag in task.tags})
        document.append(shown)
    if session.common.json:
        session.print_json({"ok": True, "plays": document})
        return
    for shown in document:
        sys.stdout.write(f"play: {shown['name']}\n")
        if hosts:
            sys.stdout.write(f"  hosts ({len(shown['hosts'])}):\n")
            sys.stdout.writelines(f"    {host}\n" for host in shown["hosts"])
        if tasks:
            sys.stdout.write("  tasks:\n")
            for task in shown["tasks"]:
                tagged = f"  [{', '.join(task['tags'])}]" if task["tags"] else ""
                sys.stdout.write(f"    {task['name']} ({task['action']}){tagged}\n")
        if list_tags:
            sys.stdout.write(f"  tags: {', '.join(shown['tags']) or 'none'}\n")
