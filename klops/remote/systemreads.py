"""Reads about the system of a host: crontabs, units of systemd, facts."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from klops.commands.factscript import SCRIPT
from klops.remote.reads import Read


@dataclass(frozen=True)
class CrontabRead(Read):
    """A user's crontab, one's own for ""; status 127 when the host has no crontab program."""

    user: str = ""

    @property
    def looks(self) -> tuple[str, ...]:
        """``cron:USER``: where a crontab is kept is the host's own matter."""
        return (f"cron:{self.user}",)

    @property
    def script(self) -> str:
        there = "command -v crontab >/dev/null || exit 127; "
        if not self.user:
            return f"{there}crontab -l"
        user = shlex.quote(self.user)
        # -u is for root only, even for one's own
        return f'{there}set --; [ "$(id -un)" = {user} ] || set -- -u {user}; crontab "$@" -l'


@dataclass(frozen=True)
class UnitRead(Read):
    """What systemd says of a unit: ``show``, a line ``@is-enabled RC``, then what ``is-enabled`` says.

    ``scope`` is system, user or global. Status 127 when the host has no systemctl.
    """

    unit: str
    scope: str = "system"

    @property
    def looks(self) -> tuple[str, ...]:
        """``systemd:SCOPE:UNIT``; a name without a kind is that of a service."""
        return (f"systemd:{self.scope}:{self.unit if '.' in self.unit else self.unit + '.service'}",)

    @property
    def script(self) -> str:
        unit = shlex.quote(self.unit)
        to = "systemctl" + ("" if self.scope == "system" else f" --{self.scope}")
        runtime = 'export XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-/run/user/$(id -u)}"; '
        # what starts for every user is no unit that runs
        show = "" if self.scope == "global" else f"{to} show -- {unit} || exit $?; "
        return (
            "command -v systemctl >/dev/null || exit 127; "
            + (runtime if self.scope == "user" else "")
            + show
            + f"said=$({to} is-enabled -- {unit} 2>/dev/null); "
            'printf \'@is-enabled %s\\n%s\\n\' "$?" "$said"'
        )


@dataclass(frozen=True)
class FactsRead(Read):
    """What the host is, in sections: :mod:`klops.commands.factscript`."""

    @property
    def script(self) -> str:
        return SCRIPT
