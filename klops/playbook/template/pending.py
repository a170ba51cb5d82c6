"""Results that can't be known before a task is applied.

In check mode a task that would change something, or whose effect is unknown, registers a :class:`Pending`:
what is known of it can be asked for, anything else raises :class:`NotKnown`, which makes the task that asked
unknown too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn


class NotKnown(Exception):
    """A value was asked for that only exists after an earlier task was applied; the text is the reason."""


class Pending:
    """The registered result of a task that was not applied: ``known`` holds what is certain all the same."""

    __slots__ = ("_known", "_reason")

    def __init__(self, known: Mapping[str, Any], reason: str) -> None:
        self._known = known
        self._reason = reason

    def known(self, key: str) -> Any:
        """The value of ``key``; raises :class:`NotKnown`."""
        if key in self._known:
            return self._known[key]
        raise NotKnown(self._reason)

    def lacks(self, key: str) -> bool:
        """Whether something is certain, and ``key`` isn't."""
        return bool(self._known) and key not in self._known

    def fail(self) -> NoReturn:
        """Refuse to be used as a whole."""
        raise NotKnown(self._reason)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.known(name)

    def __getitem__(self, key: str) -> Any:
        return self.known(key)

    def __contains__(self, key: object) -> bool:
        return key in self._known or self.fail()

    def __iter__(self) -> Iterator[str]:
        self.fail()

    def __len__(self) -> int:
        self.fail()

    def __str__(self) -> str:
        self.fail()

    def __eq__(self, other: object) -> bool:
        self.fail()

    def __ne__(self, other: object) -> bool:
        self.fail()

    __hash__ = object.__hash__

    def _no_operand(self, *_: object) -> NoReturn:
        """Any calculation with it, from either side."""
        self.fail()

    __lt__ = __le__ = __gt__ = __ge__ = _no_operand
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _no_operand
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __pow__ = __rpow__ = _no_operand
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __neg__ = __pos__ = __abs__ = _no_operand
    __bool__ = __int__ = __float__ = __index__ = __call__ = _no_operand
