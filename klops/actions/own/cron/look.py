"""What a host has in place to run klops' pass, and how the last one ended. Pure but for what it names."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from klops import crontimes
from klops.actions.files.attributes import found
from klops.actions.own.hostview import reply
from klops.actions.system.cron import listed
from klops.commands import schedule
from klops.errors import KlopsError
from klops.remote.placing import digest_of
from klops.remote.reads import CommandRead, FileRead, PathRead, Read
from klops.remote.schedulereads import CronDaemonRead, LastPassRead, MarkedRead
from klops.remote.systemreads import CrontabRead

if TYPE_CHECKING:
    from klops.inventory.settings import Settings
    from klops.remote.base import Replies, Reply

_USER, _FILES, _UNITS, _CRONTAB = "cron.user", "cron.files", "cron.units", "cron.crontab"
_ENTRY, _FILE, _DAEMON, _LAST = "cron.entry", "cron.file", "cron.daemon", "cron.last"
#: Status of :class:`CrontabRead` where there is no such program.
_NO_PROGRAM = 127
#: Seconds that a pass may take, and cron may be late, before the next one counts as missed.
_SLACK = 300.0


def cron_path(root: str) -> str:
    """The file of ``/etc/cron.d`` for a root."""
    return posixpath.join(schedule.FOLDER, schedule.file_name(root))


def timer_path(root: str) -> str:
    """The file of the timer for a root."""
    return posixpath.join(schedule.UNITS, schedule.unit_name(root) + ".timer")


def reads(settings: Settings) -> tuple[Read, ...]:
    """All that a look is made of."""
    path, line = cron_path(settings.root), schedule.mark(settings.root)
    return (
        CommandRead(_USER, ("id", "-u")),
        MarkedRead(_FILES, schedule.FOLDER, line, f" root {schedule.command(schedule.job(settings.root))}"),
        MarkedRead(_UNITS, schedule.UNITS, line),
        CrontabRead(_CRONTAB),
        *file_reads(path),
        CronDaemonRead(_DAEMON),
        LastPassRead(_LAST, f"{settings.root}/pass.jsonl", (path, timer_path(settings.root))),
    )


def file_reads(path: str) -> tuple[Read, ...]:
    """What :func:`refusals` judges a file by."""
    return PathRead(_ENTRY, (path,)), FileRead(_FILE, path)


@dataclass(frozen=True)
class Look:
    """What is there for one root. ``files`` and ``units`` are all that name it, wherever they are from."""

    root: str
    root_user: bool
    has_folder: bool
    has_crontab: bool
    files: tuple[str, ...]
    #: such files that somebody else has lines in, too
    shared: tuple[str, ...]
    units: tuple[str, ...]
    crontab: str
    crontab_digest: str
    #: why nobody knows what is in it
    crontab_error: KlopsError | None
    path: str
    #: content of the file where klops writes it, None when it isn't there
    file: bytes | None
    #: why cron passes over that file
    refusals: tuple[str, ...]
    daemon: bool
    #: what the last pass wrote, and the host's time
    last: Mapping[str, Any] | None
    now: float
    #: when cron's file or the timer was written, 0 where there is none
    written: float

    @classmethod
    def of(cls, replies: Replies, settings: Settings) -> Look:
        """Read the replies."""
        root = settings.root
        crontab = reply(replies, _CRONTAB)
        file = reply(replies, _FILE)
        text, error = _crontab(crontab)
        files = _marked(reply(replies, _FILES))
        times, _, line = reply(replies, _LAST).text.partition("\n")
        now, *written = [float(at) for at in times.split() if at.isdecimal()] or [0.0]
        return cls(
            root=root,
            root_user=reply(replies, _USER).text.strip() == "0",
            has_folder=reply(replies, _FILES).ok,
            has_crontab=crontab.rc != _NO_PROGRAM,
            files=tuple(path for path, _ in files),
            shared=tuple(path for path, own in files if not own),
            units=tuple(path for path, _ in _marked(reply(replies, _UNITS))),
            crontab=text,
            crontab_error=error,
            crontab_digest=digest_of(crontab.stdout),
            path=cron_path(root),
            file=file.stdout if file.ok else None,
            refusals=tuple(refusals(replies, cron_path(root))),
            daemon=reply(replies, _DAEMON).text.strip() == "yes",
            last=_document(line),
            now=now,
            written=max(written, default=0.0),
        )

    @property
    def by_file(self) -> bool:
        """Whether cron's entry is a file of its own; else it is one in the user's crontab."""
        return self.root_user and self.has_folder

    @property
    def foreign(self) -> list[str]:
        """Lines of somebody else in the file where klops writes its own."""
        return [] if self.file is None else schedule.foreign(self.file.decode("utf-8", "replace"), self.root)

    @property
    def place(self) -> tuple[str, str, str]:
        """Scheduler, file and schedule of what is installed; "" for what isn't, or can't be told."""
        if self.file is not None:
            line = schedule.line_of(self.file.decode("utf-8", "replace"))
            return "cron", self.path, schedule.when(line) if line else ""
        if self.files:
            return "cron", self.files[0], ""
        entry = schedule.entry(self.crontab, self.root)
        if entry:
            return "cron", "crontab", schedule.when(entry)
        timers = [path for path in self.units if path.endswith(".timer")]
        return ("systemd", timers[0], "") if timers else ("", "", "")

    def as_json(self, *, when: str = "") -> dict[str, Any]:
        """The object of ``klops cron status``; ``when``: the schedule, where that is known better."""
        scheduler, file, schedule_ = self.place
        return {
            "scheduler": scheduler or None,
            "file": file or None,
            "schedule": schedule_ or None,
            # an entry may be in a crontab that can't be read
            "installed": bool(scheduler) if scheduler or self.crontab_error is None else None,
            "daemon": self.daemon,
            "refused": list(self.refusals) if self.file is not None else [],
            "last": dict(self.last) if self.last is not None else None,
            "stale": self.stale(schedule_ or when),
        }

    def stale(self, when: str) -> bool | None:
        """Whether a pass is overdue; None where that can't be told."""
        at = self.last.get("at") if self.last is not None else None
        since = max(at if isinstance(at, (int, float)) else 0.0, self.written)
        if not when or not since or not self.now:
            return None
        return self.now - since > crontimes.parse(when).longest_gap + _SLACK


def refusals(replies: Replies, path: str) -> list[str]:
    """Why cron would pass over the file that was read; nothing where it takes it."""
    entry = found(reply(replies, _ENTRY)).own
    file = reply(replies, _FILE)
    if entry is None or not file.ok:
        return ["it can't be read"] if entry is not None else ["it isn't there"]
    return schedule.refusals(
        posixpath.basename(path),
        file.stdout,
        kind=entry.type,
        mode=entry.mode,
        uid=entry.uid,
        links=entry.links,
    )


def _crontab(answer: Reply) -> tuple[str, KlopsError | None]:
    try:
        return ("", None) if answer.rc == _NO_PROGRAM else (listed(answer), None)
    except KlopsError as error:
        return "", error


def _marked(answer: Reply) -> list[tuple[str, bool]]:
    """Path, and whether nobody else has lines in it."""
    lines = (line.partition(" ") for line in answer.text.splitlines())
    return [(path, own == "own") for own, _, path in lines]


def _document(line: str) -> dict[str, Any] | None:
    try:
        document = json.loads(line)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
