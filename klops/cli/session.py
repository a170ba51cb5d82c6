"""What a command works with once its options are parsed: inventory, variables, redactor, consoles."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer

from klops.cli.extra_vars import parse_extra_vars
from klops.cli.options import Common
from klops.errors import ConfirmationNeeded, KlopsError, UsageError
from klops.secret import Secret

if TYPE_CHECKING:
    from rich.console import Console

    from klops.inventory import Inventory
    from klops.inventory.connection import Connection
    from klops.inventory.settings import Settings
    from klops.playbook.plays.hostrender import HostRenderers
    from klops.remote.ahead import Ahead
    from klops.remote.base import Remote
    from klops.secret import Redactor
    from klops.ui.outlet import Outlet

T = TypeVar("T")


@dataclass(frozen=True)
class Session:
    """One command's inventory and variables. ``redactor`` learns the secrets of every host looked at."""

    common: Common
    inventory: Inventory
    extra: Mapping[str, Any]
    #: standard output is some file's alone, as JSON has it
    aside: bool = False
    #: where commands run just now
    _working: list[Remote] = field(default_factory=list, repr=False)
    #: of hosts whose settings were looked at
    _roots: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def redactor(self) -> Redactor:
        """Masks the secrets learned so far."""
        return self.common.redactor

    def select(self, patterns: Sequence[str]) -> list[str]:
        """Hosts that the patterns name; none at all is an error."""
        hosts = self.inventory.select(patterns)
        if not hosts:
            raise UsageError(
                f"no host matches {' '.join(patterns)}", hint="klops inventory list shows what there is"
            )
        return hosts

    def one(self, pattern: str) -> str:
        """The single host that a pattern names."""
        hosts = self.select([pattern])
        if len(hosts) > 1:
            shown = ", ".join(hosts[:5]) + (", ..." if len(hosts) > 5 else "")
            raise UsageError(
                f"{pattern} names {len(hosts)} hosts; this command takes one", hint=f"name one of {shown}"
            )
        return hosts[0]

    def settings(self, host: str) -> Settings:
        """Settings of a host. The redactor knows its secrets from here on, those that can be had."""
        settings = self.inventory.settings(host, extra=self.extra, render=self._renderer(host))
        self._roots[host] = settings.root
        settings.resolve_secrets(self.redactor)
        return settings

    def connection(self, host: str) -> Connection:
        """How to reach a host. The redactor knows its secrets from here on."""
        return self._learned(self.inventory.connection(host, extra=self.extra, render=self._renderer(host)))

    def _learned(self, connection: Connection) -> Connection:
        for secret in connection.secrets:
            self.redactor.add(secret)
        return connection

    @cached_property
    def _renderer(self) -> HostRenderers:
        """Renders templates in settings and connection variables of a host."""
        from klops.playbook.plays.hostrender import HostRenderers

        return HostRenderers(self.inventory, self.extra)

    @contextmanager
    def remote(self, host: str) -> Iterator[Remote]:
        """The host itself, closed at the end.

        A clone, so that an interrupt can end what runs there and the connection is still there to do it by.
        """
        from klops.remote.audit import log_of
        from klops.remote.factory import open_remote

        audit_log = log_of(self._roots[host]) if host in self._roots else ""
        remote = open_remote(self.connection(host), audit_log=audit_log)
        working = remote.clone()
        self._working.append(working)
        try:
            yield working
        finally:
            self._working.remove(working)
            working.close()
            remote.close()

    @contextmanager
    def connecting(self, hosts: Sequence[str]) -> Iterator[Ahead]:
        """Connections to the first of these hosts, on their way beside what is done until one is wanted."""
        from klops.remote.ahead import Ahead

        ahead = Ahead()
        try:
            for host in hosts[: self.common.forks]:
                # a mistake is told by who comes to it, with all others; templates are left to it, too
                with suppress(UsageError):
                    ahead.begin(self._learned(self.inventory.connection(host, extra=self.extra)))
            yield ahead
        finally:
            ahead.close()

    def each(self, hosts: Sequence[str], work: Callable[[str], T]) -> dict[str, T | KlopsError]:
        """``work(host)`` side by side; a host that fails has its error, the others go on.

        An interrupt ends what runs on the hosts, and is raised when nothing is at work any more.
        """

        def guarded(host: str) -> T | KlopsError:
            try:
                return work(host)
            except UsageError:
                # a wrong setting is wrong before anything runs, not a fault of the host
                raise
            except KlopsError as error:
                return error

        pool = ThreadPoolExecutor(max_workers=min(self.common.forks, len(hosts)))
        futures = [pool.submit(guarded, host) for host in hosts]
        try:
            # in short waits: a long one can't be interrupted on Windows
            while wait(futures, timeout=0.5, return_when=FIRST_EXCEPTION).not_done:
                for future in futures:
                    if future.done():
                        future.result()
            return {host: future.result() for host, future in zip(hosts, futures, strict=True)}
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            # wait() never counts those as done that were cancelled before they began
            self._end_commands([future for future in futures if not future.cancelled()])
            raise
        finally:
            pool.shutdown(wait=False)

    def _end_commands(self, futures: Sequence[Future[Any]]) -> None:
        """End what runs on the hosts, until nobody is at work."""
        # again and again: a worker may be between two commands just now
        while wait(futures, timeout=0.2).not_done:
            working = list(self._working)
            if working:
                with ThreadPoolExecutor(max_workers=len(working)) as enders:
                    list(enders.map(lambda remote: remote.close(), working))

    @cached_property
    def outlet(self) -> Outlet:
        """Where people read: standard output, or standard error when that is JSON's or a file's alone."""
        from klops.ui.outlet import Outlet

        return Outlet(sys.stderr if self.common.json or self.aside else sys.stdout)

    def end(self, status: int) -> NoReturn:
        """End the command with an exit status; 0 only when its output was taken."""
        raise typer.Exit(status or self.outlet.exit_status)

    def console(self) -> Console:
        """A console on :attr:`outlet`."""
        from klops.ui.terminal import make_console

        return make_console(self.outlet)

    def print_json(self, document: Mapping[str, Any]) -> None:
        """The one JSON document of the command, on standard output."""
        from klops.ui.json import dumps

        sys.stdout.write(dumps(document, self.redactor) + "\n")
        sys.stdout.flush()


def open_session(common: Common, *, aside: bool = False) -> Session:
    """Load the inventory and what ``-e`` says. Raises :class:`UsageError` and :class:`SourceErrors`.

    ``aside``: standard output is kept free for a file that goes there.
    """
    from klops.inventory import default_sources, load
    from klops.ui.colour import wants_colour
    from klops.ui.logs import configure

    configure(common.verbose, common.redactor, colours=wants_colour(sys.stderr))
    extra = parse_extra_vars(common.extra_vars)
    inventory = load(default_sources(common.inventory))
    if common.ask_pass or common.ask_become_pass:
        inventory = inventory.knowing(_asked(common))
    return Session(common, inventory, extra, aside)


def _asked(common: Common) -> dict[str, Secret]:
    """Passwords typed at a prompt. Raises :class:`ConfirmationNeeded` when nobody can be asked."""
    from getpass import getpass

    from klops.inventory.connection import BECOME_PASSWORD, SSH_PASSWORD

    wanted = {
        SSH_PASSWORD: ("ssh password: ", common.ask_pass),
        BECOME_PASSWORD: ("sudo password: ", common.ask_become_pass),
    }
    found = {}
    for variable, (prompt, ask) in wanted.items():
        if ask and not sys.stdin.isatty():
            raise ConfirmationNeeded(
                "a password is to be asked for, and there is no terminal", hint=f"set {variable}"
            )
        if ask:
            found[variable] = Secret(getpass(prompt), source="prompt")
    return found


def confirm(question: str, common: Common) -> None:
    """Ask, unless ``--yes``. Raises :class:`ConfirmationNeeded` when nobody can answer or says no."""
    if common.yes or common.check:
        return
    if common.json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfirmationNeeded(f"{question} There is no terminal to ask on.", hint="say --yes to do it")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfirmationNeeded("not confirmed; nothing was done", code="declined")
