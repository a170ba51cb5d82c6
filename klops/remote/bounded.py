"""Reads that may hang, as whatever asks a driver that is stuck: each has a deadline of its own."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import ClassVar

from klops.remote.reads import Read

#: Exit status of a read that gave no answer in time: that of timeout(1).
LATE = 124
#: Seconds that the far side has to end what is late, before nobody waits for its end any longer.
_MORE = 2
#: The line between what a read says and its errors.
_ERRORS = "@@klops-bounded-errors"
#: What it says, its errors, its status: the asker's last lines.
_ANSWER = f"printf '\\n%s\\n%s\\n%s' {_ERRORS} \"$e\" $?"


@dataclass(frozen=True)
class BoundedRead(Read):
    """Another read, given up after ``seconds``: status ``LATE``, and the other reads of the batch go on.

    What hangs in the driver can't be ended, not even by KILL. So nothing waits for that: it writes into a
    pipe whose reader has a deadline too, and holds no stream of the batch. Status 127 where the host has no
    timeout(1). That one's KILL is no line of the audit log: a read knows no root, so no log.
    """

    #: it takes the time that its own deadline gives it, however many of them there are in a batch
    slow: ClassVar[bool] = True

    inner: Read
    seconds: int

    @property
    def longest(self) -> int:
        """Seconds until it has come back, whatever hangs."""
        return self.seconds + _MORE

    @property
    def looks(self) -> tuple[str, ...]:
        return self.inner.looks

    @property
    def engine(self) -> tuple[str, ...]:
        return self.inner.engine

    @property
    def script(self) -> str:
        late = f"{{ echo 'no answer within {self.seconds} s' >&2; exit {LATE}; }}"
        # a shell that is started anew: one that is forked keeps the streams of the batch, to put them back
        asker = f'e=$(timeout -s KILL {self.seconds} sh -c "$1" 2>&1 1>&3); {_ANSWER}'
        return (
            "command -v timeout >/dev/null || { echo 'there is no program timeout' >&2; exit 127; }\n"
            f"out=$( ( {shlex.join(('sh', '-c', asker, 'sh', self.inner.script))} 3>&1 2>/dev/null & ) | "
            f"timeout {self.seconds + _MORE} cat ) || {late}\n"
            f'n=\'\n\'; rc=${{out##*"$n"}}; out=${{out%"$n"*}}\n'
            f'[ "$rc" != 137 ] || {late}\n'
            f'e=${{out##*"$n{_ERRORS}$n"}}; [ -z "$e" ] || printf \'%s\\n\' "$e" >&2\n'
            f'printf \'%s\' "${{out%"$n{_ERRORS}$n"*}}"\n'
            'exit "$rc"'
        )
