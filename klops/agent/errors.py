"""The one error of the agent: what the verbs print as ``{"error": {code, message, hint}}``."""

from __future__ import annotations


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
