"""Secrets: a type of their own that hides itself, and a redactor as the second line."""

from __future__ import annotations

import base64
import hmac
import json
import shlex
import urllib.parse
from collections.abc import Callable
from typing import NoReturn

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
    """Replaces known secret values in text, in the spellings in which they turn up."""

    def __init__(self) -> None:
        self._spellings: list[str] = []

    def add(self, secret: Secret) -> None:
        """Learn a secret. Values shorter than ``SHORTEST_REDACTED`` are left to the type alone."""
        value = secret.reveal()
        if len(value) < SHORTEST_REDACTED:
            return
        spellings = {
            value,
            shlex.quote(value),
            shlex.quote(value)[1:-1],
            json.dumps(value)[1:-1],
            json.dumps(value, ensure_ascii=False)[1:-1],
            repr(value)[1:-1],
            urllib.parse.quote(value, safe=""),
            urllib.parse.quote_plus(value),
            base64.b64encode(value.encode()).decode(),
        }
        known = set(self._spellings) | {s for s in spellings if len(s) >= SHORTEST_REDACTED}
        # the longest first, so that a spelling which contains another is masked whole
        self._spellings = sorted(known, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """``text`` with every known secret masked."""
        for spelling in self._spellings:
            if spelling in text:
                text = text.replace(spelling, MASK)
        return text
