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
    "--grace": float,
    "--access-age": float,
    "--run": str,
    "--container": str,
    "--kind": str,
    "--names": str,
    "--files": str,
    "--imports": str,
    "--paths": str,
    "--asked": str,
}
#: Options with a value that may be given more than once.
_LISTS = ("--include",)
_FLAGS = (
    "--follow",
    "--while-stdin",
    "--beside",
    "--check",
    "--host",
    "--shared-ipc",
    "--shared-tmp",
    "--lift",
    "--verify",
    "--entries",
    "--resumes",
    "--late",
)
#: Verbs that take the name of a unit or a release.
_NAMED = ("start", "stop", "restart", "remove", "wait", "logs", "build")
#: Verbs that leave nothing behind.
READING = ("status", "ps", "holders", "about", "releases", "packages", "generations")
#: Verbs about releases.
RELEASES = ("releases", "send", "build", "activate")
_VERBS = (
    *("several", "status", "ps", "holders", "about"),
    *("keep", "bring-back", "forget-kept", "quit"),
    *("hold", "supervise", "compile", "gate", "reap"),
    *("xccl", "rank", "note"),
    *("generations", "generation"),
    *("packages", "stack", "restore", "patch"),
    *("releases", "send", "activate"),
    *_NAMED,
)


class Options:
    """What stands on the command line."""

    def __init__(self, argv: list[str]) -> None:
        if not argv or argv[0] not in _VERBS:
            raise VerbError("usage", f"verbs: {', '.join(_VERBS)}")
        self.verb = argv[0]
        self.values: dict[str, Any] = {}
        self.lists: dict[str, list[str]] = {}
        self.flags: set[str] = set()
        names = []
        rest = iter(argv[1:])
        for word in rest:
            if word in _VALUES:
                try:
                    self.values[word] = _VALUES[word](next(rest))
                except (StopIteration, ValueError) as error:
                    raise VerbError("usage", f"{word} needs a value ({_VALUES[word].__name__})") from error
            elif word in _LISTS:
                value = next(rest, None)
                if value is None:
                    raise VerbError("usage", f"{word} needs a value")
                self.lists.setdefault(word, []).append(value)
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
        """The root, which every verb but ``gate``, ``rank`` and ``about`` needs."""
        root = self.values.get("--root", "")
        if not root.startswith("/"):
            raise VerbError("usage", "--root with an absolute path is needed")
        return str(root.rstrip("/"))


def digest_of(package: str) -> str:
    """What the package is called: its file's name says it."""
    return os.path.splitext(os.path.basename(package))[0]
