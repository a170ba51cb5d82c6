"""A barrier around each unit: an error that nobody reckoned with keeps no other unit from being watched.

The unit is left as it is, shown as unhealthy with the reason, and after a while gone on with from what is on
disk, as another supervisor would do. Whoever asks for something has it gone on with at once.
"""

from __future__ import annotations

import errno
import time
from typing import Any, Callable

from klops.agent.audit import Audit
from klops.agent.errors import INTERNAL, VerbError
from klops.agent.trouble import Troubles, fault
from klops.agent.units import unit
from klops.agent.units.managed import Managed

#: Seconds until a unit is tried again.
AGAIN = 10.0


class Barrier:
    """What was met with which unit."""

    def __init__(self, audit: Audit, troubles: Troubles) -> None:
        self._audit = audit
        self._troubles = troubles
        #: by unit: what was met, and the monotonic seconds until which it rests
        self._met: dict[str, tuple[str, float]] = {}

    def hold(self, one: Managed, do: Callable[..., object], *given: Any) -> bool:
        """Do something with a unit; whether that went well.

        Raises ``OSError``: what the system refuses it refuses all of them, and nothing is concluded from it.
        """
        try:
            do(*given)
        except OSError:
            raise
        except Exception as error:
            self._fell(one, error)
            return False
        return True

    def answer(self, one: Managed, do: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
        """What a command on a unit gives.

        Raises what that refuses, and :class:`VerbError` for an error that nobody reckoned with.
        """
        try:
            return do(*given)
        except (OSError, VerbError):
            raise
        except Exception as error:
            raise self._fell(one, error) from error

    def rests(self, one: Managed, now: float) -> bool:
        """Whether nothing is to be done with it yet. Once it is time its state is read again."""
        if not one.fallen:
            return False
        if now < self._met[one.name][1]:
            return True
        one.read_state()
        return False

    def well(self, one: Managed) -> None:
        """All of a look went well with it."""
        if one.name in self._met and not one.fallen:
            del self._met[one.name]
            self._troubles.over(_what(one))
            self._audit.note(
                "state", one.name, state=one.record.state, was=unit.UNHEALTHY, why="it works again"
            )

    def _fell(self, one: Managed, error: Exception) -> VerbError:
        """It is as it is from now on; returns what is said to who asks for it."""
        now, why = time.monotonic(), fault(error)
        said = f"the supervisor could not go on with it: {why}"
        known, _ = self._met.get(one.name, ("", 0.0))
        self._met[one.name] = (why, now + AGAIN)
        hint = "it is tried again by itself, and by klops restart; report it with the log of the container"
        one.refusal = refusal = VerbError(INTERNAL, said, hint)
        # it may live or not: so it is neither failed, nor does it count as one that serves
        before, one.record.error = one.record.state, said
        one.record.enter(unit.UNHEALTHY, now, time.time())
        self._troubles.met(_what(one), OSError(errno.EINVAL, why))
        if known != why:
            self._audit.note("state", one.name, state=unit.UNHEALTHY, was=before, why=said)
        return refusal


def _what(one: Managed) -> str:
    return f"{one.name}: the supervisor could not go on with it"
