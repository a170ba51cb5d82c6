"""``klops exec`` and ``klops shell``: a command in the container of a host, or on the host itself."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from klops.cli.options import Common, HostArgument, PatternArgument, host_command_without

if TYPE_CHECKING:
    from klops.cli.session import Session
    from klops.inventory.settings import Settings
    from klops.remote.base import Remote

#: The best shell that is there, as a login shell.
LOGIN_SHELL = ("sh", "-c", "if command -v bash >/dev/null 2>&1; then exec bash -l; else exec sh -l; fi")

OnHostOption = Annotated[bool, typer.Option("--host", help="On the host itself, not in the container.")]


@host_command_without("diff", "yes")
def execute(
    host: PatternArgument,
    command: Annotated[
        list[str],
        typer.Argument(metavar="CMD", help="The command, after --; its arguments are passed as they are."),
    ],
    *,
    on_host: OnHostOption = False,
    tty: Annotated[bool, typer.Option("--tty", "-t", help="Give it this terminal.")] = False,
    stdin: Annotated[
        bool, typer.Option("--stdin", help="Give it standard input, read to its end first.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Start it, print its pids, and let it run on without klops.")
    ] = False,
    log: Annotated[
        str | None,
        typer.Option(
            "--log",
            metavar="PATH",
            help="With --detach: the file in the container to which its output is added. "
            "Else a new one below log/ of klops.root.",
        ),
    ] = None,
    common: Common,
) -> None:
    """Run a command in the container of a host; exits as the command did, or with 125 when klops fails.

    It ends with klops: on Ctrl-C, and by itself when klops or the link is gone. What it starts in a session
    of its own (setsid), or in the background with its output closed, goes on: --detach does that on purpose.

    Example: klops exec p800-01 -- python3 -V

    Example: klops exec p800-01 --detach --log /tmp/bench.log -- python3 bench.py
    """
    from klops.cli.audited import audited
    from klops.cli.session import open_session
    from klops.errors import UsageError
    from klops.remote.audit import masked

    if tty and (stdin or common.json):
        raise UsageError("--tty goes with neither --stdin nor -o json")
    if detach and (tty or stdin or on_host):
        raise UsageError(
            "--detach goes with none of --tty, --stdin and --host",
            hint="on a host, systemd-run CMD starts what outlives its caller",
        )
    if log is not None and not (detach and log.startswith("/")):
        raise UsageError("--log is for --detach, and takes a path of the container from / on")
    session = open_session(common)
    names = session.select([host])
    if tty and len(names) > 1:
        raise UsageError(f"--tty takes one host; {host} names {len(names)}")
    settings = {name: session.settings(name) for name in names}
    given = sys.stdin.buffer.read() if stdin else b""
    if common.check:
        _announce(session, names, command)
        raise typer.Exit(0)
    with audited(session, "exec", names, {"command": masked(command), "on_host": on_host}):
        if detach:
            from klops.cli.detached import run_detached

            raise typer.Exit(run_detached(session, names, settings, command, log))
        if tty:
            raise typer.Exit(_interactive(session, names[0], settings, command, on_host))
        if len(names) == 1 and not common.json:
            raise typer.Exit(_pass_through(session, names[0], settings, command, on_host, given))
        raise typer.Exit(_collect(session, names, settings, command, on_host, given))


@host_command_without("check", "diff", "forks", "output", "yes")
def shell(host: HostArgument, *, on_host: OnHostOption = False, common: Common) -> None:
    """Open a shell in the container of a host.

    Example: klops shell p800-01
    """
    from klops.cli.audited import audited
    from klops.cli.session import open_session
    from klops.errors import UsageError

    if not sys.stdin.isatty():
        raise UsageError(
            "a shell needs a terminal",
            hint="klops exec HOST -- CMD runs one command; --stdin feeds it a script",
        )
    session = open_session(common)
    name = session.one(host)
    settings = {name: session.settings(name)}
    with audited(session, "shell", [name], {"on_host": on_host}):
        raise typer.Exit(_interactive(session, name, settings, list(LOGIN_SHELL), on_host))


def _announce(session: Session, names: list[str], command: list[str]) -> None:
    """What would run where."""
    if session.common.json:
        session.print_json({"ok": True, "hosts": {name: {"would_run": command} for name in names}})
        return
    for name in names:
        sys.stderr.write(f"{name}: would run {shlex.join(command)}\n")


def _interactive(
    session: Session, name: str, settings: dict[str, Settings], command: list[str], on_host: bool
) -> int:
    """On the caller's terminal."""
    with session.remote(name) as remote:
        return _target(remote, name, settings, on_host).interactive(command, tty=True)


def _target(remote: Remote, name: str, settings: dict[str, Settings], on_host: bool) -> Remote:
    from klops.cli.place import Place

    return remote if on_host else Place.of(name, settings[name]).inside(remote)


def _pass_through(
    session: Session,
    name: str,
    settings: dict[str, Settings],
    command: list[str],
    on_host: bool,
    given: bytes,
) -> int:
    """One host: its output as it comes, byte for byte, its exit status."""

    def write(stream: Any) -> Any:
        def on_output(data: bytes) -> None:
            stream.buffer.write(data)
            stream.flush()

        return on_output

    with session.remote(name) as remote:
        target = _target(remote, name, settings, on_host)
        return target.stream(command, on_stdout=write(sys.stdout), on_stderr=write(sys.stderr), stdin=given)


def _collect(
    session: Session,
    names: list[str],
    settings: dict[str, Settings],
    command: list[str],
    on_host: bool,
    given: bytes,
) -> int:
    """Several hosts, or JSON: what each said, host by host."""
    from klops.errors import KlopsError, exit_status
    from klops.ui.json import host_document

    def run(name: str) -> dict[str, Any]:
        with session.remote(name) as remote:
            target = _target(remote, name, settings, on_host)
            done = target.run(command, stdin=given, timeout=None, check=False)
            return {"rc": done.rc, "stdout": done.text, "stderr": done.error_text, "seconds": done.seconds}

    found = session.each(names, run)
    if session.common.json:
        document = host_document(found)
        document["ok"] = document["ok"] and all(host.get("rc") == 0 for host in document["hosts"].values())
        session.print_json(document)
    else:
        for name, result in found.items():
            _print_result(session, name, result)
    if len(names) == 1:
        only = found[names[0]]
        if isinstance(only, KlopsError):
            return 125
        return int(only["rc"])
    return exit_status(
        [r.exit_status if isinstance(r, KlopsError) else int(r["rc"] != 0) for r in found.values()]
    )


def _print_result(session: Session, name: str, result: Any) -> None:
    from klops.errors import KlopsError
    from klops.ui.faults import describe

    if isinstance(result, KlopsError):
        sys.stderr.write(f"{name} | {session.redactor(describe(result))}\n")
        return
    for stream, text in ((sys.stdout, result["stdout"]), (sys.stderr, result["stderr"])):
        for line in text.splitlines():
            stream.write(f"{name} | {session.redactor(line)}\n")
    if result["rc"]:
        sys.stderr.write(f"{name} | exit status {result['rc']}\n")
