"""Facts of a host as variables: read when a template first asks for one, once in a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn, TypeAlias

from klops.actions.base import Probe
from klops.actions.facts import hostfacts
from klops.errors import HostUnreachable, TaskFailed
from klops.playbook.tasks.host import Host
from klops.playbook.tasks.replies import Replies
from klops.playbook.template.pending import NotKnown

#: the variable that holds all facts, by short names
ALL = "ansible_facts"
_PREFIX = "ansible_"
Reading: TypeAlias = "Callable[[Host, Callable[[], Replies]], Mapping[str, Any]]"
#: variables that make a template read facts
NAMES = hostfacts.INJECTED
PROBE = Probe(hostfacts.READS)


def of(host: Host, replies: Callable[[], Replies]) -> Mapping[str, Any]:
    """What is known of the host; ``replies`` gives where to ask it, if nobody did yet."""
    # the field may be cleared by another thread at any time
    known = host.facts
    if known is None:
        with host.reading_facts:
            known = host.facts
            if known is None:
                known = host.facts = hostfacts.facts(replies().of(PROBE, tuple))
    return known


def not_asked() -> NoReturn:
    """In place of where to ask, when nobody is to be asked."""
    raise NotKnown("the facts of the host were not read yet")


def merge(host: Host, news: Mapping[str, Any]) -> None:
    """Lay facts that a module gave over those that were read; both spellings of a name will do."""
    with host.reading_facts:
        short = {name.removeprefix(_PREFIX): value for name, value in news.items()}
        host.given_facts = {**host.given_facts, **short}


def of_other(host: Host, replies: Callable[[], Replies]) -> Mapping[str, Any]:
    """As :func:`of`, for the task of another host, which isn't unreachable because this one is."""
    try:
        return of(host, replies)
    except HostUnreachable as error:
        raise TaskFailed(f"the facts of {host.name} are not known: {error.message}", code="facts") from error


class Facts(Mapping[str, Any]):
    """``ansible_facts``, and each fact as ``ansible_NAME``. To know whether it has one, it is read, too."""

    def __init__(self, host: Host, replies: Callable[[], Replies], read: Reading = of) -> None:
        self._host = host
        self._replies = replies
        self._read = read

    def __getitem__(self, name: str) -> Any:
        if name == ALL:
            return self._all()
        short = name.removeprefix(_PREFIX)
        if name not in self:
            raise KeyError(name)
        given = self._host.given_facts
        return given[short] if short in given else self._read(self._host, self._replies)[short]

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or not name.startswith(_PREFIX):
            return False
        short = name.removeprefix(_PREFIX)
        if name == ALL or short in self._host.given_facts:
            return True
        # a name that may be anything doesn't have facts read
        known = self._host.facts if name not in NAMES else self._read(self._host, self._replies)
        return short in (known or ())

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES | {_PREFIX + name for name in (*self._host.given_facts, *(self._host.facts or ()))})

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _all(self) -> Mapping[str, Any]:
        return {**self._read(self._host, self._replies), **self._host.given_facts}
