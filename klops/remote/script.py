"""What is sent to a shell, and how its answer is taken apart. Pure: text and bytes in, text and bytes out.

Everything a remote starts runs under a POSIX ``sh`` that is given its script on standard input, whatever the
login shell is: that one only ever sees ``exec sh -c 'eval ...'``. The script is one compound command, so a
script that arrives cut off is a syntax error and nothing of it runs.

Its first act is a line ``@@MARKER B PID PGRP START`` on both streams. What comes before is noise of profile
scripts and is dropped; without that line the command never started. PID and START (clock ticks after boot)
identify the shell when it has to be ended. The marker is fresh for every call, so contents need no escaping.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from klops.remote.base import Reply
from klops.remote.noting import noting

if TYPE_CHECKING:
    from klops.remote.reads import Read

#: Bytes of noise kept for the message when a command never starts.
NOISE_LIMIT = 64 * 1024
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

#: The shell that takes its whole standard input as the script; commands in it find their input empty.
EVAL_ALL = ("sh", "-c", 'eval "$(cat)"')


_BLOCKS = "dd ibs=65536 obs=65536"


def eval_first(size: int) -> tuple[str, ...]:
    """The shell that takes ``size`` bytes of its input as the script and leaves the rest to the command.

    One byte a read: a larger block may come short from a pipe, and reading ahead would eat the command's
    input.
    """
    return ("sh", "-c", f'eval "$(dd bs=1 count={size} 2>/dev/null)"')


def login_line(argv: Sequence[str]) -> str:
    """``argv`` as a line for a login shell of any kind (sh, csh, fish)."""
    return "exec " + shlex.join(argv)


@dataclass(frozen=True)
class Identity:
    """The shell of one command on the host: pid, process group and start time in clock ticks (0: unknown)."""

    pid: int
    group: int
    start: int


class IncompleteError(Exception):
    """The answer to a batch ended before its last section."""


def framed(marker: str, lines: str) -> bytes:
    """A script of these lines: it first says, on both streams, that it began and who carries it out."""
    text = "{\n" + _opening(marker) + lines + "}"
    if "\0" in text:
        raise ValueError("a command can't contain a zero byte")
    return text.encode("utf-8", "surrogateescape")


def _opening(marker: str) -> str:
    return (
        "read -r _k 2>/dev/null </proc/$$/stat && set -- $_k\n"
        f'printf \'\\n@@%s B %s %s %s\\n\' {marker} $$ "${{5:-0}}" "${{22:-0}}"\n'
        f"printf '\\n@@%s B\\n' {marker} >&2\n"
        "set --; unset _k\n"
    )


def command_script(
    argv: Sequence[str], marker: str, *, cwd: str | None = None, env: Mapping[str, str] | None = None
) -> bytes:
    """The script that runs one command. Values of ``env`` travel in it, never in an argv of the wrapper."""
    # the shell stays: it turns a signal into 128 + n, and is there to be ended with its group
    return framed(marker, f"( {command_lines(argv, cwd=cwd, env=env)} )\nexit $?\n")


def command_lines(
    argv: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None
) -> str:
    """The lines by which a shell becomes a command."""
    if not argv:
        raise ValueError("empty command")
    folder = "" if cwd is None else f"cd -- {shlex.quote(cwd)} || exit 126\n"
    # exec, so that a program is meant and never a builtin of the same name
    return export_lines(env) + folder + f"exec {shlex.join(argv)}"


def export_lines(env: Mapping[str, str] | None) -> str:
    """The lines that set environment variables."""
    for name in env or {}:
        if not _NAME.match(name):
            raise ValueError(f"not a name of an environment variable: {name!r}")
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in (env or {}).items())


def distinct(reads: Sequence[Read]) -> list[str]:
    """The scripts of the reads, each once, in order."""
    return list(dict.fromkeys(read.script for read in reads))


def batch_script(lanes: Sequence[Sequence[str]], marker: str) -> bytes:
    """The script that carries out reads, each in a subshell of its own with empty input."""
    return framed(marker, batch_lines(lanes, marker) + "exit 0\n")


def batch_lines(lanes: Sequence[Sequence[str]], marker: str) -> str:
    """The lines of it: reads of one lane one after the other, lanes side by side, their answers in order.

    Both streams go through dd, which makes large blocks of many small pieces: each piece would be a packet of
    its own on the wire, and packets are what a run over many hosts costs.
    """
    parts = [f"_h() {{ printf '\\n@@%s %s\\n' {marker} \"$*\"; }}\n"]
    parts.append(f"exec 4>&1\n{{ {{\n{_side_by_side([lane for lane in lanes if lane], 0)}")
    parts.append(f"}} 2>&3 3>&- 4>&- | {_BLOCKS} 2>/dev/null >&4; }} 3>&1 | {_BLOCKS} >&2 2>/dev/null\n")
    return "".join(parts)


def _side_by_side(lanes: Sequence[Sequence[str]], number: int) -> str:
    """Lines that say what the first lane says, and then what the others, begun with it, have said meanwhile.

    Until it is their turn that waits in pipes, one for each stream, which take 64 KiB: a lane that says more
    goes on then. The first lane's shell alone holds the writing end of 7, so the end of 8 is its end. No
    script has any of these.
    """
    first, *others = lanes or [()]
    if not others:
        return _one_by_one(first, number)
    then = "read -r _w <&8; exec cat 8<&-"
    return (
        "{ {\nexec 7>&1 >&5 2>&6 5>&- 6>&-\n"
        f"{_one_by_one(first, number)}"
        "} | {\nexec 8<&0 </dev/null\n"
        "{ {\n"
        f"{_side_by_side(others, number + len(first))}"
        f"}} 2>&1 >&9 5>&- 6>&- 8<&- 9>&- | {{ {then} >&6 5>&- 6>&- 9>&-; }}; }} 9>&1 |\n"
        f"{{ {then} >&5 5>&- 6>&-; }}\n"
        "}; } 5>&1 6>&2\n"
    )


def _one_by_one(scripts: Sequence[str], number: int) -> str:
    parts = []
    for index, script in enumerate(scripts, number):
        parts.append(f"_h S {index}; _h S {index} >&2\n(\n{script}\n) </dev/null 7>&-\n")
        parts.append(f"_r{index}=$?; _h E {index} $_r{index}; _h E {index} $_r{index} >&2\n")
    return "".join(parts)


def status_of(index: int) -> str:
    """How a later script of a lane names the exit status of an earlier one. Numbers go on lane after lane."""
    return f"$_r{index}"


def batch_replies(stdout: bytes, stderr: bytes, marker: str, count: int) -> list[Reply]:
    """The replies of a batch of ``count`` scripts from what followed the opening line.

    Raises :class:`IncompleteError`.
    """
    outs = _sections(stdout, marker, count)
    errors = _sections(stderr, marker, count)
    return [Reply(rc, out, err) for (rc, out), (_, err) in zip(outs, errors, strict=True)]


def _sections(data: bytes, marker: str, count: int) -> list[tuple[int, bytes]]:
    mark = b"\n@@" + marker.encode()
    found = []
    at = 0
    for index in range(count):
        head = mark + b" S %d\n" % index
        tail = mark + b" E %d " % index
        start = data.find(head, at)
        end = data.find(tail, start + len(head)) if start >= 0 else -1
        stop = data.find(b"\n", end + len(tail)) if end >= 0 else -1
        if stop < 0:
            raise IncompleteError(f"{index} of {count} reads were answered")
        found.append((int(data[end + len(tail) : stop]), data[start + len(head) : end]))
        at = stop
    return found


class Opening:
    """Takes the noise off the front of a stream: bytes go in as they come, those of the command come out."""

    def __init__(self, marker: str) -> None:
        self._mark = b"\n@@" + marker.encode() + b" B"
        self._before = b"\n"
        self.seen = False
        self.identity: Identity | None = None

    @property
    def noise(self) -> bytes:
        """What came before the opening line; everything there was, when the line never came."""
        return self._before[1:]

    def feed(self, data: bytes) -> bytes:
        """The part of the data that belongs to the command."""
        if self.seen:
            return data
        text = self._before + data
        at = text.find(self._mark)
        end = text.find(b"\n", at + len(self._mark)) if at >= 0 else -1
        if end < 0:
            # the mark is shorter than what is kept, so it can't be cut off by dropping the oldest noise
            self._before = text if len(text) <= NOISE_LIMIT else b"\n" + text[-NOISE_LIMIT // 2 :]
            return b""
        numbers = text[at + len(self._mark) : end].split()
        if len(numbers) == 3:
            pid, group, start = (int(n) for n in numbers)
            self.identity = Identity(pid, group, start)
        self.seen = True
        self._before = text[:at] or b"\n"
        return text[end + 1 :]


def end_script(who: Identity, audit_log: str) -> bytes:
    """The script that ends a command: TERM to its process group, KILL after two seconds. 0: nothing is left.

    Each signal is a line in ``audit_log`` ("": there is none).

    The group is signalled only while the shell that leads it is the one that was started: same pid, same
    start time. When that shell is gone the command is over, and nobody is signalled. Where the command itself
    went through sudo, its processes are another user's; they are reached through sudo too.
    Command lines of the group as it was before are its output: what was waited for is among them.
    """
    # group 0 is one of another pid namespace, which can't be named from here: the shell alone then
    target = f"-{who.group}" if who.group > 1 else str(who.pid)
    text = f"""{{
is_it() {{ read -r s </proc/{who.pid}/stat 2>/dev/null && set -- $s && [ "${{22}}" = {who.start} ]; }}
there() {{
  for f in /proc/[0-9]*/stat; do
    read -r s <"$f" 2>/dev/null || continue
    set -- ${{s##*) }}
    [ "$1" != Z ] && [ "$3" = {who.group or who.pid} ] && return 0
  done
  return 1
}}
tell() {{
  for f in /proc/[0-9]*/stat; do
    read -r s 2>/dev/null <"$f" || continue
    set -- ${{s##*) }}
    [ "$3" = {who.group or who.pid} ] && tr '\\0' ' ' 2>/dev/null <"${{f%stat}}cmdline" && echo
  done
}}
{noting(audit_log)}signal() {{
  kill "-$1" {target} 2>/dev/null && o=sent || o=refused
  told "$1" 'a command of klops is to end' "$2" $o
}}
told() {{ noted "$1" {who.pid} {who.start} {who.group or who.pid} "$2" "$3" "$4"; }}
wait_for() {{ n=0; while there; do n=$((n+1)); [ $n -gt "$1" ] && return 1; sleep 0.1; done; }}
is_it || exit 0
tell
signal TERM 'identity of its shell checked just before'; wait_for 20 && exit 0
h='its group, seen ever since the identity of its shell was checked'
signal KILL "$h"; wait_for 10 && exit 0
sudo -n kill -s KILL -- {target} 2>/dev/null && o=sent || o=refused
told KILL 'a command of klops, run through sudo, is to end' "$h" $o
wait_for 10
exit $?
}}"""
    return text.encode()
