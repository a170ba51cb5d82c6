"""Reads about what runs the pass of a host: files that name it, the daemon, and how the last pass ended."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from klops.remote.reads import Read

#: Names of programs that run crontabs.
DAEMONS = ("cron", "crond", "fcron", "dcron", "bcron-start")


@dataclass(frozen=True)
class MarkedRead(Read):
    """The files in a folder that hold a line exactly, ``own PATH`` or ``more PATH`` for each.

    ``more``: there are lines in it beside comments, variables, and those that end with ``job``; no file has
    more when that is "". Status 1 when there is no such folder.
    """

    path: str
    line: str
    job: str = ""

    @property
    def looks(self) -> tuple[str, ...]:
        """All in the folder."""
        return (self.path + "/",)

    @property
    def script(self) -> str:
        """One grep for each: a name with a line break can't be told from two."""
        folder, line = shlex.quote(self.path), shlex.quote(self.line)
        known = f"''|'#'*|[A-Za-z_]*=*|*{shlex.quote(self.job)}"
        more = (
            'own=own; while IFS= read -r l || [ -n "$l" ]; do '
            f'case $l in {known}) ;; *) own=more ;; esac; done <"$f"'
        )
        return (
            f"[ -d {folder} ] || exit 1; for f in {folder}/*; do "
            f'[ -f "$f" ] && grep -qxF -e {line} -- "$f" 2>/dev/null || continue; '
            f'{more}; printf "%s %s\\n" "$own" "$f"; done; true'
        )


@dataclass(frozen=True)
class CronDaemonRead(Read):
    """``yes`` when a cron daemon runs on the host; those of containers run in another pid namespace."""

    @property
    def script(self) -> str:
        """By name: it is only looked for. A process of a container has a second number in NSpid."""
        names = "|".join(shlex.quote(name) for name in DAEMONS)
        return (
            "for f in /proc/[0-9]*/comm; do { read -r name <$f; } 2>/dev/null || continue; "
            f"case $name in {names}) ;; busybox) "
            'case "$(tr "\\0" " " <${f%comm}cmdline 2>/dev/null)" in *crond*) ;; *) continue ;; esac ;; '
            "*) continue ;; esac; "
            'ids=$(sed -n "s/^NSpid:[[:space:]]*//p" ${f%comm}status 2>/dev/null); set -- $ids; '
            "[ $# -gt 1 ] || { echo yes; exit 0; }; done; echo no"
        )


@dataclass(frozen=True)
class LastPassRead(Read):
    """The host's time in seconds since the epoch, then the last line of what passes wrote, if any.

    In the first line also when files were written that run them, those of ``entries`` that are there.
    """

    path: str
    entries: tuple[str, ...] = ()

    @property
    def script(self) -> str:
        """No file is no fault."""
        since = "".join(f" $(date -r {shlex.quote(entry)} +%s 2>/dev/null)" for entry in self.entries)
        return f"echo $(date +%s){since}; tail -n 1 -- {shlex.quote(self.path)} 2>/dev/null; true"
