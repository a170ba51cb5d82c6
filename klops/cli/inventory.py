"""``klops inventory``: look at hosts, groups and variables without touching a host."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from klops.cli.extra_vars import parse_extra_vars
from klops.cli.options import ExtraVarsOption, InventoryOption, Output, OutputOption
from klops.errors import UsageError

if TYPE_CHECKING:
    from klops.inventory import Inventory

app = typer.Typer(help="Hosts, groups and variables; where a value comes from.", no_args_is_help=True)


@app.command(name="list")
def list_(
    inventory: InventoryOption = None,
    extra_vars: ExtraVarsOption = None,
    output: OutputOption = Output.JSON,
) -> None:
    """Print groups and variables as JSON, as ansible-inventory --list does; secrets are masked.

    As text: one line a host, with its groups.
    """
    from klops.inventory.listing import as_lines, as_list

    loaded = _load(inventory)
    extra = parse_extra_vars(extra_vars or ())
    if output is Output.JSON:
        _print_json(as_list(loaded, extra=extra))
        return
    for line in as_lines(loaded):
        typer.echo(line)


@app.command()
def graph(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Where to begin.")] = "all",
    inventory: InventoryOption = None,
) -> None:
    """Draw groups and hosts as a tree."""
    from klops.inventory.listing import as_graph

    for line in as_graph(_load(inventory), group):
        typer.echo(line)


@app.command()
def check(
    inventory: InventoryOption = None,
    extra_vars: ExtraVarsOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Read everything and check the settings of every host; no host is asked."""
    loaded, extra = _load(inventory), parse_extra_vars(extra_vars or ())
    if not loaded.hosts:
        raise UsageError(
            "the inventory names no host",
            hint="a folder is read for its .yml, .yaml and .json files; each lists hosts under a group",
        )
    loaded.check(extra=extra)
    settings = [loaded.settings(host, extra=extra) for host in loaded.hosts]
    counts = {
        "hosts": len(loaded.hosts),
        "groups": len(loaded.groups),
        "services": sum(len(found.services) for found in settings),
    }
    warnings = [str(found) for found in loaded.near_misses(extra=extra)]
    if output is Output.JSON:
        _print_json({"ok": True, **counts, "warnings": warnings})
        return
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo("ok: " + ", ".join(_counted(number, what) for what, number in counts.items()))


def _counted(number: int, what: str) -> str:
    """``2 hosts``, ``1 host``."""
    return f"{number} {what.removesuffix('s') if number == 1 else what}"


@app.command()
def explain(
    host: Annotated[str, typer.Argument(metavar="HOST", help="One host.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="A variable, or klops.container.image.")],
    inventory: InventoryOption = None,
    extra_vars: ExtraVarsOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show every value given for a key, and which one wins."""
    from klops.inventory.masking import as_json, masked

    loaded = _load(inventory)
    found = loaded.explain(host, key, extra=parse_extra_vars(extra_vars or ()))
    if not found:
        near = loaded.nearest_key(host, key)
        hint = f"did you mean {near}?" if near else "klops inventory list shows what is set"
        raise UsageError(f"nothing gives {key} for {host}", hint=hint)
    path = tuple(key.split("."))
    rows = [
        {"level": level, "location": str(location), "value": masked(value, path), "wins": number == 0}
        for number, (level, location, value) in enumerate(found)
    ]
    if output is Output.JSON:
        _print_json({"host": host, "key": key, "values": rows})
        return
    for row in rows:
        mark = "*" if row["wins"] else " "
        typer.echo(
            f"{mark} {row['level']:<8}  {json.dumps(row['value'], default=as_json)}  {row['location']}"
        )


def _load(inventory: list[str] | None) -> Inventory:
    from klops.inventory import default_sources, load

    return load(default_sources(inventory or ()))


def _print_json(document: dict[str, Any]) -> None:
    from klops.inventory.masking import as_json

    json.dump(document, sys.stdout, indent=4, sort_keys=True, default=as_json)
    sys.stdout.write("\n")
