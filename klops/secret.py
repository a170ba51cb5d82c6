"""Secrets: a type of their own that hides itself, and a redactor as the second line."""

from __future__ import annotations

import hmac
import re
import threading
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from klops import spellings

MASK = "********"
#: Shorter values are too common to be searched for in text: a key "a" would mask the whole log.
SHORTEST_REDACTED = 4


class Secret:
    """A value that shows itself only to :meth:`reveal`.

    Not a ``str``: formatting, joining, JSON and pickling never show it by accident. Two secrets are equal
    when their values are, so a changed secret still counts as a change; there is no hash, which would have to
    tell something of the value. A deferred secret (from the
    environment, a file or a command) is read once, when it is first revealed.
    """

    __slots__ = ("_load", "_value", "source")

    def __init__(
        self, value: str | None = None, *, load: Callable[[], str] | None = None, source: str = "value"
    ) -> None:
        if (value is None) == (load is None):
            raise TypeError("a secret is either a value or a way to load one")
        self._value = value
        self._load = load
        #: where it comes from, for messages: "value", "env NAME", "file PATH", "command NAME"
        self.source = source

    def reveal(self) -> str:
        """The value itself. For the one place that hands it over, never for text that people read."""
        if self._value is None:
            assert self._load is not None  # noqa: S101 - the constructor guarantees it
            self._value = self._load()
        return self._value

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self.reveal().encode(), other.reveal().encode())

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")


class Redactor:
    """Replaces known secret values in text, in the spellings in which they turn up.

    Which these are is told by :mod:`klops.spellings`. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._values: set[str] = set()
        #: expressions for the values so far; None: not made yet
        self._patterns: _Patterns | None = _Patterns(None, None)
        self._lock = threading.Lock()

    def add(self, secret: Secret) -> None:
        """Learn a secret. Values shorter than ``SHORTEST_REDACTED`` are left to the type alone.

        Each line of a longer secret is learned as if it were one: logs show lines.
        """
        value = secret.reveal()
        texts = {value, value.strip(), *(line.strip() for line in value.splitlines())}
        with self._lock:
            news = {text for text in texts if len(text) >= SHORTEST_REDACTED} - self._values
            if news:
                self._values |= news
                self._patterns = None

    def __call__(self, text: str) -> str:
        """``text`` with every known secret masked."""
        patterns = self._patterns
        if patterns is None:
            with self._lock:
                patterns = self._patterns = _Patterns.of(self._values)
        spans: list[tuple[int, int]] = []
        if patterns.literal is not None:
            _search(patterns.literal, text, spans)
        # this one costs more, and finds nothing that isn't written with one of these
        if patterns.url is not None and ("%" in text or "+" in text):
            _search(patterns.url, text, spans)
        return _masked(text, spans) if spans else text


class _Patterns(NamedTuple):
    """What is searched for: literal spellings, and those of URLs."""

    literal: re.Pattern[str] | None
    url: re.Pattern[str] | None

    @classmethod
    def of(cls, values: set[str]) -> _Patterns:
        literal = {text for value in values for text in spellings.literal(value)}
        literal = {text for text in literal if len(text) >= SHORTEST_REDACTED}
        url = {text for value in values for text in spellings.url_patterns(value)}
        return cls(
            re.compile("|".join(map(re.escape, _longest_first(literal)))) if literal else None,
            re.compile("|".join(_longest_first(url))) if url else None,
        )


def _longest_first(texts: set[str]) -> list[str]:
    """In an order in which, of several that begin at one place, the longest is taken."""
    return sorted(texts, key=lambda text: (-len(text), text))


def _search(pattern: re.Pattern[str], text: str, spans: list[tuple[int, int]]) -> None:
    """All matches, those too that begin within another: masking one must not leave the end of the other."""
    match = pattern.search(text)
    while match:
        spans.append(match.span())
        match = pattern.search(text, match.start() + 1)


def _masked(text: str, spans: list[tuple[int, int]]) -> str:
    """``text`` with one mask in place of each run of overlapping spans."""
    parts: list[str] = []
    done = 0
    for start, end in sorted(spans):
        if start >= done:
            parts += [text[done:start], MASK]
        done = max(done, end)
    return "".join([*parts, text[done:]])
