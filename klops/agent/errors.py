"""The one error of the agent: what the verbs print as ``{"error": {code, message, hint}}``."""

from __future__ import annotations

import os

#: Code of what the system refuses: it may be otherwise a moment later.
SYSTEM = "system"
#: Code of an error that nobody reckoned with.
INTERNAL = "internal"


class VerbError(Exception):
    """Something the agent refuses or can't do. ``code`` is stable, ``hint`` says what to do next."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint

    def as_json(self) -> dict[str, str]:
        """``{code, message, hint}``."""
        return {"code": self.code, "message": self.message, "hint": self.hint}


def system_error(error: OSError) -> VerbError:
    """What the system refuses: a full disk, no more processes or descriptors."""
    name = error.filename
    where = f"{os.fsdecode(name)}: " if isinstance(name, (str, bytes)) else ""
    return VerbError(
        SYSTEM, f"{where}{error.strerror or error}", "make room on the host (df -h, ulimit), then repeat it"
    )
