"""Which tasks a run's ``--tags`` and ``--skip-tags`` leave, by Ansible's rules."""

from __future__ import annotations

from collections.abc import Collection

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
    if own & skipped:
        return False
    if "always" in own and "always" not in skipped and not own & wanted:
        return True
    if "all" in skipped or ("tagged" in skipped and own) or ("untagged" in skipped and not own):
        return "always" in own and "always" not in skipped
    return True
