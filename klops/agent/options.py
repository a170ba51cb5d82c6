"""What stands on the command line of a verb."""

from __future__ import annotations

import os
from typing import Any

from klops.agent.errors import VerbError

#: Options with a value, and how to read it.
_VALUES: dict[str, Any] = {
    "--root": str,
    "--timeout": float,
    "--lines": int,
    "--since": float,
    "--device-dir": str,
    "--launcher": int,
}
_FLAGS = ("--follow", "--while-stdin", "--beside")
#: Verbs that take a unit's name.
_NAMED = ("start", "stop", "restart", "remove", "wait", "logs")
_VERBS = (
    *("status", "ps", "holders", "about"),
    *("keep", "bring-back", "forget-kept", "quit"),
    *("hold", "supervise", "gate"),
    *_NAMED,
)


class Options:
    """What stands on the command line."""

    def __init__(self, argv: list[str]) -> None:
        if not argv or argv[0] not in _VERBS:
            raise VerbError("usage", f"verbs: {', '.join(_VERBS)}")
        self.verb = argv[0]
        self.values: dict[str, Any] = {}
        self.flags: set[str] = set()
        names = []
        rest = iter(argv[1:])
        for word in rest:
            if word in _VALUES:
                try:
                    self.values[word] = _VALUES[word](next(rest))
                except (StopIteration, ValueError) as error:
                    raise VerbError("usage", f"{word} needs a value ({_VALUES[word].__name__})") from error
            elif word in _FLAGS:
                self.flags.add(word)
            elif word.startswith("-"):
                raise VerbError("usage", f"unknown option {word}")
            else:
                names.append(word)
        if len(names) != (1 if self.verb in _NAMED else 0):
            raise VerbError("usage", f"{self.verb} takes {'one name' if self.verb in _NAMED else 'no name'}")
        self.name = names[0] if names else ""

    @property
    def root(self) -> str:
        """The root, which every verb but ``gate`` and ``about`` needs."""
        root = self.values.get("--root", "")
        if not root.startswith("/"):
            raise VerbError("usage", "--root with an absolute path is needed")
        return str(root.rstrip("/"))


def digest_of(package: str) -> str:
    """What the package is called: its file's name says it."""
    return os.path.splitext(os.path.basename(package))[0]
