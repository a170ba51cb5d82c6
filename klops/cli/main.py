"""The program ``klops``: its commands, and the one place where errors become text, JSON and exit status.

Commands import what they need when they run: ``klops --help`` and the completion of host names stay as quick
as a bare typer program.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType, MappingProxyType
from typing import Annotated, Any

import typer

from klops import __version__
from klops.cli.arguments import typed, usage_hint, verbosity, wants_json
from klops.errors import Interrupted, KlopsError, UsageError
from klops.secret import Redactor

#: Commands in the order of the help page -> the module of this package that has them and their name there:
#: of a function, or of a group of commands.
COMMANDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "up": ("lifecycle", "up"),
        "down": ("lifecycle", "down"),
        "restart": ("lifecycle", "restart"),
        "status": ("look", "status"),
        "ps": ("look", "ps"),
        "logs": ("logs", "logs"),
        "exec": ("inside", "execute"),
        "shell": ("inside", "shell"),
        "sync": ("source", "sync"),
        "releases": ("source", "releases"),
        "rollback": ("source", "rollback"),
        "reap": ("reap", "reap"),
        "doctor": ("doctor", "doctor"),
        "play": ("play", "play"),
        "demo": ("demo", "demo"),
        "schema": ("schema", "schema"),
        "cards": ("cards", "app"),
        "cron": ("cron", "app"),
        "inventory": ("inventory", "app"),
        "hosts": ("hosts", "app"),
        "lock": ("lock", "app"),
    }
)
#: Objects that are made between two searches for cycles: Python's own 700 cost a command a tenth of its time.
_COLLECT_AFTER = 100_000
#: Exit status of ``klops exec`` for klops' own failures, as in docker.
EXEC_FAILED = 125
#: What typer raises for a command line that it can't read: the common parent of its public errors.
ClickException: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"klops {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def program(argv: Sequence[str] = ()) -> Any:
    """The whole command, as click has it; for a line that begins with a command's name, that one alone.

    Reading the options of all commands would cost each of them as much as typer itself.
    """
    app = typer.Typer(
        name="klops",
        help="Bring 8-card Kunlunxin P800 hosts up to a healthy vLLM service, and keep them there.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name in argv[:1] if argv[:1] and argv[0] in COMMANDS else COMMANDS:
        module, attribute = COMMANDS[name]
        found = getattr(importlib.import_module(f"klops.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    command = typer.main.get_command(app)
    _tidy(command, None)
    return command


def _tidy(command: Any, parent: Any) -> None:
    """Make flags of a command and those below it look like flags."""
    context = typer.Context(command, parent=parent, **command.context_settings)
    for option in command.get_params(context):
        flag = getattr(option, "is_flag", False)
        # typer's own flags have no default, and it loads pydantic to find that None is None: with a default
        # `klops COMMAND --help` does without
        if flag and option.default is None:
            option.default = False
        if flag or getattr(option, "count", False):
            # the help page would show <bool> and <int>
            option.metavar = ""
    for below in getattr(command, "commands", {}).values():
        _tidy(below, context)


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """TERM and HUP end a run as Ctrl-C does: locks are released, remote commands ended.

    One that is ignored stays ignored: ``nohup klops up ... &`` outlives its terminal.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    heeded = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(argv: Sequence[str]) -> int:
    """Run one command line (without the program's name); returns the exit status."""
    redactor = Redactor()
    typed.set(tuple(argv))
    json = wants_json(argv)
    own_failure = EXEC_FAILED if argv[:1] == ["exec"] else None
    try:
        with _signals():
            status = program(argv).main(list(argv), prog_name="klops", standalone_mode=False, obj=redactor)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except KlopsError as error:
        _report(error, redactor, json)
        return error.exit_status if isinstance(error, Interrupted) else own_failure or error.exit_status
    except ClickException as error:
        hint = usage_hint(argv)
        if json:
            _report(
                UsageError(error.format_message(), hint=hint or "see klops COMMAND --help"), redactor, json
            )
        else:
            error.show()
            if hint:
                sys.stderr.write(f"  fix: {hint}\n")
        return own_failure or int(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        _report(Interrupted("interrupted"), redactor, json)
        return Interrupted.exit_status
    except (BrokenPipeError, SystemExit) as error:
        # typer makes a silent exit with 1 of a broken pipe
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        from klops.ui.outlet import READER_GONE, discard

        discard(sys.stdout)
        return READER_GONE
    except Exception as error:
        _report_fault(error, redactor, json, verbosity(argv))
        return own_failure or 1


def _report(error: KlopsError, redactor: Redactor, json: bool) -> None:
    from klops.ui.colour import is_terminal
    from klops.ui.faults import describe, document
    from klops.ui.plain import printable

    if json:
        from klops.ui.json import dumps

        sys.stdout.write(dumps(document(error), redactor) + "\n")
        sys.stdout.flush()
    else:
        width = shutil.get_terminal_size().columns if is_terminal(sys.stderr) else None
        sys.stderr.write(printable(redactor(describe(error, width=width))) + "\n")


def _report_fault(error: Exception, redactor: Redactor, json: bool, verbose: int) -> None:
    """An exception that nobody expected: klops' own fault, and said so. The traceback only with ``-v``."""
    import traceback

    if verbose:
        sys.stderr.write(redactor("".join(traceback.format_exception(error))))
    fault = KlopsError(
        f"this is a fault of klops: {type(error).__name__}: {error}",
        code="internal",
        hint="please report it with the output of the same command and -v",
    )
    _report(fault, redactor, json)


def main() -> None:
    """Entry point of the console script."""
    # what was loaded stays anyway, and most commands end before a search for cycles gives anything back
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)
    for stream in (sys.stdout, sys.stderr):
        # a code page that lacks a letter must not end a run
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    status = run(sys.argv[1:])
    # all is done and said: a signal that comes while the interpreter ends must not make it end otherwise
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # the interpreter would look for cycles among all that was loaded before it ends
    gc.freeze()
    sys.exit(status)
