"""Files that a command is asked to write: looked at before anything runs, written beside and renamed."""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path

from klops.errors import KlopsError, UsageError

#: What stands for standard output on a command line.
STDOUT = "-"


@dataclass(frozen=True)
class OutFile:
    """Where ``option`` says that something is to go."""

    option: str
    name: str

    @property
    def is_stdout(self) -> bool:
        """Whether it is standard output, which is then its alone."""
        return self.name == STDOUT

    @property
    def _path(self) -> Path:
        # a link stays a link
        return Path(self.name).resolve()

    def check(self) -> None:
        """Raise :class:`UsageError` where nothing could be written in the end, minutes later."""
        if self.is_stdout:
            return
        path = self._path
        if not path.parent.is_dir():
            raise UsageError(f"{self.option}: there is no folder {path.parent}", hint="make it first")
        if path.exists() and not path.is_file():
            raise UsageError(
                f"{self.option}: {self.name} is no file", hint="name one, or say - for standard output"
            )
        if not os.access(path.parent, os.W_OK):
            raise UsageError(f"{self.option}: {path.parent} may not be written", hint="name another folder")

    def write(self, text: str) -> None:
        """Write ``text``, in UTF-8 whatever the locale. Raises :class:`KlopsError`.

        What a file held before stays until all of the new is there.
        """
        # a lone half of a surrogate pair, as JSON from a host may have it, is no character
        data = text.encode("utf-8", "replace")
        if self.is_stdout:
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.flush()
            return
        path = self._path
        beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            beside.write_bytes(data)
            beside.replace(path)
        except OSError as error:
            raise KlopsError(
                f"{self.option}: {self.name} can't be written: {error.strerror or error}", code="system"
            ) from error
        finally:
            beside.unlink(missing_ok=True)
