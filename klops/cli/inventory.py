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
    from collections.abc import Mapping

    from klops.inventory import Inventory

app = typer.Typer(help="Hosts, groups and variables; where a value comes from.", no_args_is_help=True)


@app.command(name="list")
def list_(
    inventory: InventoryOption = None,
    extra_vars: ExtraVarsOption = None,
    output: OutputOption = Output.JSON,
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="HOST", help="The variables of one host alone, always as JSON."),
    ] = None,
) -> None:
    """Print groups and variables as JSON, as ansible-inventory --list does; secrets are masked.

    As text: one line a host, with its groups.
    """
    from klops.inventory.listing import as_lines, as_list, host_variables

    loaded = _load(inventory)
    extra = parse_extra_vars(extra_vars or ())
    if host is not None:
        _print_json(host_variables(loaded, host, extra=extra))
        return
    if output is Output.JSON:
        _print_json(as_list(loaded, extra=extra))
        return
    for line in as_lines(loaded):
        typer.echo(line)


@app.command()
def graph(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Where to begin.")] = "all",
    inventory: InventoryOption = None,
    output: OutputOption = Output.TEXT,
    variables: Annotated[
        bool, typer.Option("--vars", help="With the variables of groups and hosts; secrets are masked.")
    ] = False,
) -> None:
    """Draw groups and hosts as a tree."""
    from klops.inventory.listing import as_graph

    loaded = _load(inventory)
    # drawn in any case: it knows whether the group is there
    lines = list(as_graph(loaded, group, variables=variables))
    if output is Output.JSON:
        if variables:
            raise UsageError(
                "--vars goes with the tree as text", hint="klops inventory list has them as JSON"
            )
        _print_json({group: _branch(loaded, group)})
        return
    for line in lines:
        typer.echo(line)


def _branch(inventory: Inventory, name: str) -> dict[str, Any]:
    group = inventory.groups[name]
    children = {child: _branch(inventory, child) for child in group.children}
    return {"children": children, "hosts": [] if name == "all" else list(group.hosts)}


@app.command()
def check(
    inventory: InventoryOption = None,
    extra_vars: ExtraVarsOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Read everything and check the settings of every host; no host is asked.

    Whether the repositories and patches are there that the settings name on this machine is checked, too.
    """
    from klops.playbook.plays.hostrender import HostRenderers
    from klops.source import named

    loaded, extra = _load(inventory), parse_extra_vars(extra_vars or ())
    if not loaded.hosts:
        raise UsageError(
            "the inventory names no host",
            hint="an INI file names one in each line; a YAML file lists hosts under a group",
        )
    rendering = HostRenderers(loaded, extra)
    loaded.check(extra=extra, render=rendering, more=named.look())
    settings = [loaded.settings(host, extra=extra, render=rendering(host)) for host in loaded.hosts]
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
    key: Annotated[str, typer.Argument(metavar="KEY", help="A variable, klops.container.image, or all.")],
    inventory: InventoryOption = None,
    extra_vars: ExtraVarsOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show every value given for a key, and which one wins."""
    from klops.inventory.masking import as_json, masked

    loaded, extra = _load(inventory), parse_extra_vars(extra_vars or ())
    found = loaded.explain(host, key, extra=extra)
    if not found and key == "all":
        _explain_all(loaded, host, extra, output)
        return
    if not found:
        near = loaded.nearest_key(host, key)
        hint = f"did you mean {near}?" if near else "klops inventory list shows what is set"
        raise UsageError(f"nothing gives {key} for {host}", hint=hint)
    path = tuple(key.split("."))
    # settings are merged key by key, so none of several mappings wins as a whole
    together = path[0] == "klops" and len(found) > 1 and isinstance(found[0][2], dict)
    rows = [
        {
            "level": level,
            "location": str(location),
            "value": masked(value, path),
            "wins": number == 0 and not together,
        }
        for number, (level, location, value) in enumerate(found)
    ]
    result = _merged([row["value"] for row in rows])
    if output is Output.JSON:
        _print_json({"host": host, "key": key, "values": rows} | ({"merged": result} if together else {}))
        return
    for row in rows:
        mark = "*" if row["wins"] else "+" if together else " "
        typer.echo(
            f"{mark} {row['level']:<8}  {json.dumps(row['value'], default=as_json)}  {row['location']}"
        )
    if together:
        typer.echo(f"= {'merged':<8}  {json.dumps(result, default=as_json)}")


def _explain_all(inventory: Inventory, host: str, extra: Mapping[str, Any], output: Output) -> None:
    """Every variable of a host with the value that wins and its place."""
    from klops.inventory.masking import as_json, masked

    rows: list[dict[str, Any]] = []
    for name in sorted(inventory.plain_variables(host, extra=extra)):
        found = inventory.explain(host, name, extra=extra)
        level, location, value = found[0]
        given = [found_value for found_level, _, found_value in found if found_level != "default"]
        shown = masked(_merged(given) if name == "klops" else value, (name,))
        rows.append({"key": name, "value": shown, "level": level, "location": str(location)})
    if output is Output.JSON:
        _print_json({"host": host, "variables": rows})
        return
    for row in rows:
        value = json.dumps(row["value"], default=as_json)
        typer.echo(f"{row['level']:<8}  {row['key']} = {value}  {row['location']}")


def _merged(values: list[Any]) -> Any:
    """What several mappings give together, key by key, the first one winning."""
    first, *others = values
    if not isinstance(first, dict):
        return first
    below = [other for other in others if isinstance(other, dict)]
    keys = dict.fromkeys(key for mapping in (first, *below) for key in mapping)
    return {key: _merged([mapping[key] for mapping in (first, *below) if key in mapping]) for key in keys}


def _load(inventory: list[str] | None) -> Inventory:
    from klops.inventory import default_sources, load

    return load(default_sources(inventory or ()))


def _print_json(document: dict[str, Any]) -> None:
    from klops.inventory.masking import as_json, with_text_keys

    json.dump(with_text_keys(document), sys.stdout, indent=4, sort_keys=True, default=as_json)
    sys.stdout.write("\n")
