"""The audit log of this user: one JSON line for what klops was told to do, and what came of it.

It is written as well as can be: a full disk, a strange folder or a file server that is gone keeps nobody from
working.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from klops import userfolders
from klops.log import get_logger
from klops.remote.audit import BY, LONGEST

#: Environment variable: another path, or ``off``.
VARIABLE = "KLOPS_AUDIT"
OFF = "off"
#: Seconds that a line is waited for; while one is stuck no further one is.
PATIENCE = 3.0


def audit_path(env: Mapping[str, str], *, windows: bool, home: Callable[[], str]) -> str:
    """Where the log is; "" when it is switched off.

    ``home`` is called where only the user's folder tells.
    """
    wanted = env.get(VARIABLE, "")
    if wanted:
        return "" if wanted.lower() == OFF else wanted
    base = userfolders.base(env, "XDG_STATE_HOME", ".local/state", windows=windows, home=home)
    return str(base / "klops" / "audit.jsonl")


class AuditFile:
    """Appends lines to the log; what goes wrong with it is said once.

    ``path``: None for the one of this user, "" for none at all. ``redactor`` masks every text.
    """

    def __init__(self, redactor: Callable[[str], str], path: str | None = None) -> None:
        self._redactor = redactor
        self._path = path
        self._complained = False
        self._guard = threading.Lock()
        #: lines with what is to be told once they are written, for a thread that may be stuck in a write
        self._lines: queue.SimpleQueue[tuple[bytes, threading.Event]] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        self._stuck = False

    def note(self, event: str, fields: Mapping[str, Any]) -> None:
        """One line, in one write: those of several runs don't mix. Never raises for what a disk does.

        It is written on return, but where the disk doesn't answer: then it is written once that does.
        """
        from klops.ui.json import redact

        line = {"at": round(time.time(), 3), "by": BY, "event": event, **redact(fields, self._redactor)}
        written = threading.Event()
        with self._guard:
            self._lines.put(((json.dumps(line) + "\n").encode("ascii"), written))
            if self._writer is None:
                self._writer = threading.Thread(target=self._write, name="klops-audit", daemon=True)
                self._writer.start()
        if not written.wait(0 if self._stuck else PATIENCE) and not self._stuck:
            self._stuck = True
            self._complain(f"no answer within {PATIENCE:g} s")

    def _write(self) -> None:
        while True:
            line, written = self._lines.get()
            try:
                self._append(line)
            except (OSError, RuntimeError) as error:
                # RuntimeError: this user has no folder
                self._complain(str(error))
            self._stuck = False
            written.set()

    def _complain(self, why: str) -> None:
        """Say it, once."""
        with self._guard:
            complained, self._complained = self._complained, True
        if not complained:
            get_logger(__name__).warning(
                "what is done can't be noted in the audit log",
                file=self._path,
                why=why,
                fix=f"{VARIABLE} names another file, or {OFF}",
            )

    def _append(self, line: bytes) -> None:
        if self._path is None:
            windows = sys.platform == "win32"
            self._path = audit_path(os.environ, windows=windows, home=lambda: str(Path.home()))
        if not self._path:
            return
        path = Path(self._path)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        binary = getattr(os, "O_BINARY", 0)  # of Windows, where a newline would become two bytes
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | binary, 0o600)
        try:
            written = os.write(fd, line)
            ours = os.fstat(fd)
        finally:
            os.close(fd)
        if written != len(line):
            raise OSError(f"{self._path}: written only in part")
        # another process may have made room meanwhile: the new file stays
        if ours.st_size > LONGEST and os.path.samestat(ours, path.stat()):
            path.replace(path.with_name(path.name + ".1"))
