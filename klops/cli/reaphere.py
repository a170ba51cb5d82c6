"""``klops reap --local``: this machine, by the klops that is installed on it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from klops.actions.own.reap.here import Here
    from klops.cli.options import Common
    from klops.errors import KlopsError

#: What this machine is called in JSON.
NAME = "localhost"


def reap_here(here: Here, common: Common) -> None:
    """Clean up, show it, and end the command with its exit status. Raises :class:`UsageError`."""
    import typer

    from klops.actions.own.reap.here import clean_up
    from klops.errors import KlopsError, UsageError
    from klops.remote.local import LocalRemote
    from klops.ui.json import dumps, host_document

    if sys.platform != "linux" or os.geteuid() != 0:
        raise UsageError(
            "only root on Linux sees who holds a card", hint="say it with sudo, or name the host instead"
        )

    def note(text: str) -> None:
        sys.stderr.write(common.redactor(f"note: {text}") + "\n")

    failure: KlopsError | None = None
    found: dict[str, Any] = {}
    warnings: tuple[str, ...] = ()
    try:
        found, warnings = clean_up(here, LocalRemote(NAME), note)
    except UsageError:
        raise
    except KlopsError as error:
        failure, found = error, dict(error.values)
    if common.json:
        told = host_document({NAME: found or failure or {}})
        if failure is not None:
            told["ok"] = False
            told["hosts"][NAME]["error"] = failure.as_json()
        sys.stdout.write(dumps(told, common.redactor) + "\n")
    else:
        _show(here, found, failure, warnings, common)
    raise typer.Exit(failure.exit_status if failure is not None else 0)


def _show(
    here: Here,
    found: dict[str, Any],
    failure: KlopsError | None,
    warnings: tuple[str, ...],
    common: Common,
) -> None:
    from klops.ui.outlet import Outlet
    from klops.ui.reap import reap_view
    from klops.ui.terminal import make_console

    console = make_console(Outlet(sys.stdout))
    errors = {NAME: failure} if failure is not None else {}
    shown = {NAME: found} if "processes" in found else dict(errors)
    view = reap_view(shown, common.redactor, errors=errors, command=lambda _: here.command, check=here.check)
    console.print(view)
    for text in warnings:
        console.print(common.redactor(f"warning: {text}"), style="yellow", markup=False)
