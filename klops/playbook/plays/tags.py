"""Which tasks a run's ``--tags`` and ``--skip-tags`` leave, by Ansible's rules."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from operator import is_

from klops.playbook.model import Item, Task

#: tags that mean something though no task need have them
SPECIAL = frozenset(["all", "always", "never", "tagged", "untagged"])


def selected(tags: Collection[str], only: Collection[str], skip: Collection[str]) -> bool:
    """Whether a task with ``tags`` runs.

    ``always`` runs unless it is skipped by name, ``never`` only when one of its tags is asked for.
    ``tagged``, ``untagged`` and ``all`` may be asked for and skipped too.
    """
    own = set(tags)
    wanted = set(only) or {"all"}
    run = bool(own & wanted) or "always" in own
    if not run and "never" not in own:
        run = "all" in wanted or ("tagged" in wanted and bool(own)) or ("untagged" in wanted and not own)
    if not run:
        return False
    skipped = set(skip)
    if "all" in skipped:
        return "always" in own and "always" not in skipped
    return not (own & skipped or ("tagged" in skipped and own) or ("untagged" in skipped and not own))


def pruned(items: tuple[Item, ...], only: Collection[str], skip: Collection[str]) -> tuple[Item, ...]:
    """What is left of a list of tasks; of a block that keeps no task in any of its parts nothing is.

    A list that keeps everything is given back as it is.
    """
    kept: list[Item] = []
    for item in items:
        if isinstance(item, Task):
            if selected(item.tags, only, skip):
                kept.append(item)
            continue
        block, rescue, always = (pruned(part, only, skip) for part in (item.block, item.rescue, item.always))
        if block is item.block and rescue is item.rescue and always is item.always:
            kept.append(item)
        elif block or rescue or always:
            kept.append(replace(item, block=block, rescue=rescue, always=always))
    return items if len(kept) == len(items) and all(map(is_, kept, items)) else tuple(kept)
