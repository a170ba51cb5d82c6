"""``klops demo``: rehearsal hosts on this machine, and the whole story on them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from klops.sim.layout import Rehearsal


def demo(
    *,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Only make the hosts, in DIR, and leave them up. Again: replace the faults."
        ),
    ] = None,
    stop: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Remove the hosts that --keep made in DIR.")
    ] = None,
    hosts: Annotated[
        int | None, typer.Option(metavar="N", help="How many: demo1 to demoN; 1 unless said.")
    ] = None,
    transport: Annotated[
        str | None,
        typer.Option(metavar="ssh|local,...", help="How they are reached, dealt to them in turn; else ssh."),
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(metavar="SPEC", help="A fault, such as card=1:dead or vllm=no-ready; repeatable."),
    ] = None,
    vllm: Annotated[
        str,
        typer.Option(
            metavar="standin|real",
            help="What serves. real: a vLLM on the CPU, the program $KLOPS_VLLM_BIN with the model in the "
            "folder $KLOPS_VLLM_MODEL.",
        ),
    ] = "standin",
) -> None:
    """Make a rehearsal host on this machine, tell the whole story on it, and clean up."""
    from klops.errors import UsageError
    from klops.sim import rehearsal as sim

    if keep and stop:
        raise UsageError("--keep and --stop exclude each other")
    if stop:
        if not sim.stop(stop, say=_say):
            raise UsageError(f"{stop}: there is no rehearsal", hint="name the folder that --keep was given")
        typer.echo(f"{stop}: removed")
        return
    faults, count = fault or [], 1 if hosts is None else hosts
    transports = [word.strip() for word in (transport or "ssh").split(",")]
    if keep:
        running = sim.running(keep)
        if running:
            _refuse_another(running, hosts, None if transport is None else transports)
            sim.set_faults(running, faults)
            typer.echo(f"{keep}: faults now: {', '.join(faults) or 'none'}")
            if any(spec.endswith(":open-eperm") for spec in faults):
                # a container that runs keeps the nodes that it was made with
                typer.echo("  open-eperm holds in containers made from now on: klops up --recreate makes one")
            return
        made = sim.make(keep, hosts=count, transports=transports, fault_specs=faults, vllm=vllm, say=_say)
        _explain(made)
        return
    _tell(count, transports, faults, vllm)


def _refuse_another(running: Rehearsal, hosts: int | None, transports: list[str] | None) -> None:
    """Of a rehearsal that runs only the faults can be replaced."""
    from klops.errors import UsageError

    have = [host.transport for host in running.hosts]
    hint = f"klops demo --stop {running.directory}, then make it anew"
    if hosts is not None and hosts != len(have):
        raise UsageError(f"the rehearsal in {running.directory} has {len(have)} host(s)", hint=hint)
    if transports is not None and have != [transports[i % len(transports)] for i in range(len(have))]:
        text = f"the hosts of the rehearsal in {running.directory} are reached by {', '.join(have)}"
        raise UsageError(text, hint=hint)


def _tell(hosts: int, transports: list[str], faults: list[str], vllm: str) -> None:
    import shutil
    import tempfile

    from klops.sim import rehearsal as sim
    from klops.sim.story import Story

    # short, for the unix sockets below it, and so not where TMPDIR may point
    directory = Path(tempfile.mkdtemp(prefix="klops-", dir="/tmp"))
    try:
        made = sim.make(
            directory, hosts=hosts, transports=transports, fault_specs=faults, vllm=vllm, say=_say
        )
        Story(made, typer.echo).tell()
        typer.echo("\n== Clean up")
    finally:
        if not sim.stop(directory, say=_say):
            shutil.rmtree(directory, ignore_errors=True)
    typer.echo("done: nothing of the rehearsal is left")


def _explain(made: Rehearsal) -> None:
    typer.echo(f"{', '.join(host.name for host in made.hosts)}: ready to be operated")
    typer.echo(f"  klops up all -i {made.inventory}")
    for host in made.hosts:
        typer.echo(f"  {host.name}: port {host.port}, key in {host.key_file}")
    typer.echo(f"  klops demo --stop {made.directory}   removes it all")


def _say(text: str) -> None:
    typer.echo(text, err=True)
