"""Handlers that were notified and have not run, remembered on the host.

A task changes something and notifies a handler; a later one fails, and the handler never runs. The next time
the task finds everything in place, and would notify nobody. So the names are put down before the change, in
``ROOT/notified.json``, and struck out when the handlers have run: the next run of the play finds the rest.

``{"schema": 2, "playbooks": {FILE: {PLAY: {HANDLER: {"task": NAME, "time": SECONDS}}}}}``

FILE is the playbook's name without its folders: a project may lie elsewhere on another machine. Schema 1 had
``plays`` in place of ``playbooks``, and no FILE; it is read as it was meant, for any playbook.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from klops.actions.base import Probe
from klops.errors import KlopsError
from klops.playbook.model import Play, Task
from klops.playbook.plays.handlers import meant
from klops.playbook.tasks.place import Place
from klops.playbook.tasks.replies import Replies
from klops.remote.base import Reply
from klops.remote.reads import ABSENT, FileRead, Read

SCHEMA = 2
FILE = "notified.json"
#: what is said of a handler that an earlier run left
LEFT_OVER = "left over from a run that did not finish"
_KEY = "klops-notified"
#: a playbook's file name ("" in a record of schema 1) and the name of a play of it
PlayKey: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class Record:
    """What the file says: by play and handler, which task notified it and when (seconds since the epoch)."""

    plays: Mapping[PlayKey, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)

    def of(self, play: PlayKey) -> tuple[str, ...]:
        """Handlers of a play."""
        return tuple(self.plays.get(play, ()))

    def noted(self, play: PlayKey, handlers: Iterable[str], task: str, when: float) -> Record:
        """With these handlers; those that are there already stay as they are."""
        new = {name: {"task": task, "time": int(when)} for name in handlers}
        return Record({**self.plays, play: {**new, **self.plays.get(play, {})}})

    def without(self, play: PlayKey, handlers: Iterable[str]) -> Record:
        """Without these handlers."""
        gone = set(handlers)
        left = {name: entry for name, entry in self.plays.get(play, {}).items() if name not in gone}
        others = {name: entries for name, entries in self.plays.items() if name != play}
        return Record({**others, play: left} if left else others)

    def text(self) -> str:
        """The content of the file; "" when there is nothing to remember."""
        playbooks: dict[str, dict[str, Any]] = {}
        for (file, play), entries in self.plays.items():
            playbooks.setdefault(file, {})[play] = entries
        document = {"schema": SCHEMA, "playbooks": playbooks}
        return json.dumps(document, indent=1, sort_keys=True) + "\n" if playbooks else ""


def parse(reply: Reply) -> Record:
    """The record that was read. Raises :class:`KlopsError` for one that can't be understood."""
    if reply.rc == ABSENT:
        return Record()
    if not reply.ok:
        raise KlopsError(reply.error_text.strip() or f"reading it ended with {reply.rc}")
    try:
        document = json.loads(reply.text)
        schema = document["schema"]
        if not isinstance(schema, int) or schema > SCHEMA:
            raise KlopsError(
                f"it has schema {schema}, and this klops knows {SCHEMA}", hint="use the newer klops"
            )
        playbooks = {"": document["plays"]} if schema == 1 else document["playbooks"]
        plays = {
            (str(file), str(play)): {str(name): dict(entry) for name, entry in handlers.items()}
            for file, its_plays in playbooks.items()
            for play, handlers in its_plays.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise KlopsError("it is damaged", hint="look at it, and remove it") from error
    return Record(plays)


@dataclass
class HostNotes:
    """The record of one host in one play. Used by the thread that works for the host."""

    play: Play
    root: str
    home: Place
    #: the name of a handler as it reads on this host
    title: Callable[[Task], str]
    #: what a task notifies, rendered
    notifies: Callable[[Task], Iterable[str]]
    check: bool = False
    #: what was said of the record in this run, by earlier plays too
    said: set[str] = field(default_factory=set)
    now: Callable[[], float] = time.time
    #: None: not read yet, or not to be understood
    _record: Record | None = None
    #: whether the file was looked at
    known: bool = False
    #: what is to be said of the file, until it was asked for
    _warnings: list[str] = field(default_factory=list)
    _left: tuple[str, ...] = ()
    _ran: set[str] = field(default_factory=set)
    #: read under the lock, so that nobody else has written since
    _fresh: bool = False

    @property
    def path(self) -> str:
        """Where the record is on the host."""
        return f"{self.root}/{FILE}"

    @property
    def read(self) -> Read:
        """What to read of the host."""
        return FileRead(_KEY, self.path)

    def take(self, reply: Reply) -> None:
        """Look at what was read."""
        first, self.known = not self.known, True
        try:
            self._record = parse(reply)
        except KlopsError as error:
            self._record = None
            if first:
                hint = f"; {error.hint}" if error.hint else ""
                text = f"{self.path} is left as it is, and handlers it may name do not run: {error.message}"
                self._warnings.append(text + hint)
            return
        if first:
            names = {handler.name for handler in self.play.handlers}
            left: dict[str, str] = {}
            for key in self._keys:
                for name, entry in self._record.plays.get(key, {}).items():
                    if name in names:
                        left.setdefault(name, str(entry.get("task", "")))
                    else:
                        self._lost(name, key[1], "the play has no such handler any more")
            for (file, play), entries in self._record.plays.items():
                if file == self._keys[0][0] and play not in self.play.siblings:
                    for name in entries:
                        self._lost(name, play, "the playbook has no such play any more")
            self._left = tuple(left)
            for name, task in left.items():
                by = f", which {task!r} notified" if task else ""
                self._say(f"the handler {name!r} of the play {self.play.name!r}{by}, is {LEFT_OVER}: it runs")

    @property
    def _keys(self) -> tuple[PlayKey, ...]:
        """The play's own key, and the one that it may have in a record of schema 1."""
        return (self.play.file.name, self.play.kept_as or self.play.name), ("", self.play.name)

    def _lost(self, handler: str, play: str, why: str) -> None:
        what = f"the handler {handler!r} of the play {play!r} in {self.play.file.name} is {LEFT_OVER}"
        clear = f"do by hand what it does, and delete its entry in {self.path} on the host"
        self._say(f"{what}, and can't run: {why}; {clear} (or the file, when nothing else is in it)")

    def _say(self, text: str) -> None:
        if text not in self.said:
            self.said.add(text)
            self._warnings.append(text)

    def left_over(self) -> tuple[str, ...]:
        """Handlers that an earlier run left; each is given once."""
        left, self._left = self._left, ()
        return left

    def remaining(self) -> tuple[str, ...]:
        """Handlers on record, which the next run of the play runs; none in check mode."""
        if self.check or self._record is None:
            return ()
        names = {handler.name for handler in self.play.handlers}
        found = dict.fromkeys(name for key in self._keys for name in self._record.of(key))
        return tuple(name for name in found if name in names)

    def warnings(self) -> tuple[str, ...]:
        """What is to be said; each is given once."""
        said, self._warnings = tuple(self._warnings), []
        return said

    def before_change(self, task: Task) -> None:
        """Put down whom ``task`` notifies, before it changes anything. Raises :class:`KlopsError`.

        Of a handler only later ones: an earlier one waits for the next flush, which may never come.
        """
        handlers = self.play.handlers
        own = next((place for place, handler in enumerate(handlers) if handler is task), -1)
        names = [
            handlers[place].name
            for notification in self.notifies(task)
            for place in meant(handlers, notification, self.title)
            if place > own
        ]
        record = self._current()
        if record is None or set(names) <= set(record.of(self._keys[0])):
            return
        self._write(record.noted(self._keys[0], names, task.name, self.now()))

    def ran(self, handler: Task) -> None:
        """A handler has run to its end."""
        if not self.check:
            self._ran.add(handler.name)

    def flushed(self) -> None:
        """Strike out the handlers that ran. Raises :class:`KlopsError`."""
        ran, self._ran = self._ran, set()
        if self._record is None or not any(ran & set(self._record.of(key)) for key in self._keys):
            return
        record = self._current()
        if record is not None:
            for key in self._keys:
                record = record.without(key, ran)
            self._write(record)

    def _current(self) -> Record | None:
        """The record under the host's lock, or None for one that must not be touched."""
        self.home.lock()
        if not self._fresh:
            self.take(self.home.remote().read([self.read])[_KEY])
            self._fresh = True
        return self._record

    def _write(self, record: Record) -> None:
        text = record.text()
        if text:
            self.home.remote().put(text.encode(), self.path)
        else:
            self.home.remote().run(["rm", "-f", "--", self.path])
        self._record = record


class ListeningReplies(Replies):
    """Replies of a host whose record goes with the first batch of reads."""

    def listen(self, notes: HostNotes) -> None:
        """Read the record with what is asked first."""
        self._notes = notes

    def of(self, probe: Probe, ahead: Callable[[], Iterable[Read]]) -> Mapping[str, Reply]:
        """As any replies."""
        if self._notes.known or not probe.reads:
            return super().of(probe, ahead)
        found = dict(super().of(replace(probe, reads=(*probe.reads, self._notes.read)), ahead))
        self._notes.take(found.pop(_KEY))
        return found


def listening(place: Place, notes: HostNotes) -> None:
    """Have the record of a host read with the first batch of reads there, whoever asks for it."""
    replies = ListeningReplies(place.replies.remote, place.replies.clock, place.replies.changes)
    replies.listen(notes)
    place.replies = replies
