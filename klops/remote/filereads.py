"""Typed reads of files and folders whose paths may hold ``~``, ``$NAME`` and, where it says so, patterns.

What they print is framed with zero bytes, which no path can hold.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from dataclasses import dataclass
from typing import ClassVar

from klops.commands.words import word
from klops.remote.reads import ABSENT, Read

#: Exit statuses of reads: it is a folder; it may not be read.
FOLDER, UNREADABLE = 45, 46
#: Exit status of a read that the host has no program for.
NO_PROGRAM = 47


@dataclass(frozen=True)
class FolderRead(Read):
    """The absolute path of a folder, for a command to be run in; fails when it can't be entered."""

    path: str

    @property
    def script(self) -> str:
        return f"CDPATH= cd -- {word(self.path)} >/dev/null && pwd || exit {ABSENT}"


@dataclass(frozen=True)
class GlobRead(Read):
    """The first path that matches a pattern, seen from ``folder`` (None: where a login begins).

    Status ``ABSENT`` when none does. A link that leads nowhere matches.
    """

    pattern: str
    folder: str | None = None

    @property
    def looks(self) -> tuple[str, ...]:
        path = posixpath.join(self.folder or "", self.pattern)
        plain = re.split(r"[*?\[]", path, maxsplit=1)[0]
        return (path,) if plain == path else (posixpath.dirname(plain).rstrip("/") + "/",)

    @property
    def script(self) -> str:
        enter = f"CDPATH= cd -- {word(self.folder)} >/dev/null 2>&1 || exit {ABSENT}; " if self.folder else ""
        return (
            f"{enter}for f in {word(self.pattern, globs=True)}; do "
            'if [ -e "$f" ] || [ -h "$f" ]; then printf \'%s\' "$f"; exit 0; fi; done; '
            f"exit {ABSENT}"
        )


@dataclass(frozen=True)
class ContentRead(Read):
    """A file's path as expanded, a zero byte, and its content up to ``limit`` bytes and one more.

    Statuses: ``ABSENT``, ``FOLDER``, ``UNREADABLE``. Only a regular file is read: nothing else has an end.
    """

    path: str
    limit: int

    @property
    def script(self) -> str:
        return f'p={word(self.path)}; {_readable()}printf \'%s\\0\' "$p"; head -c {self.limit + 1} <"$p"'


@dataclass(frozen=True)
class TailRead(Read):
    """A part of a file: ``DEVICE:INODE SIZE``, a zero byte, and at most ``limit`` bytes from ``offset`` on.

    Status ``ABSENT`` for what is no file that can be read. The path is not expanded.
    """

    path: str
    offset: int
    limit: int

    @property
    def script(self) -> str:
        path = shlex.quote(self.path)
        return (
            f"[ -f {path} ] && [ -r {path} ] || exit {ABSENT}; "
            f"printf '%s\\0' \"$(stat -L -c '%d:%i %s' -- {path})\"; "
            f"tail -c +{self.offset + 1} -- {path} | head -c {self.limit}"
        )


@dataclass(frozen=True)
class ChecksumRead(Read):
    """A file's path as expanded, its size in bytes and its sha1, each ended by a zero byte; a line of
    ``ls -lndL``.

    Statuses as of :class:`ContentRead`; ``NO_PROGRAM`` where nothing computes a sha1.
    """

    slow: ClassVar[bool] = True

    path: str

    @property
    def script(self) -> str:
        return (
            f"p={word(self.path)}; {_readable()}{_digests('sha1')}"
            'n=$(wc -c <"$p") || exit 1; printf \'%s\\0%s\\0%s\\0\' "$p" "$n" "$(digest <"$p")"; '
            'LC_ALL=C ls -lndL -- "$p"'
        )


def _readable() -> str:
    return (
        f'if [ -d "$p" ]; then exit {FOLDER}; fi; '
        f'if ! [ -e "$p" ]; then exit {ABSENT}; fi; '
        f'if ! [ -f "$p" ] || ! [ -r "$p" ]; then exit {UNREADABLE}; fi; '
    )


def _digests(algorithm: str) -> str:
    """Defines ``digest``, which prints the digest of its input; ``NO_PROGRAM`` where there is no way."""
    bits = algorithm.removeprefix("sha")
    perl = f"elif command -v shasum >/dev/null; then digest() {{ shasum -a {bits} | cut -d ' ' -f 1; }}; "
    return (
        f"if command -v {algorithm}sum >/dev/null; then digest() {{ {algorithm}sum | cut -d ' ' -f 1; }}; "
        f"{perl if algorithm != 'md5' else ''}"
        "elif command -v openssl >/dev/null; then "
        f"digest() {{ openssl dgst -{algorithm} | sed 's/.*= *//'; }}; "
        f"else exit {NO_PROGRAM}; fi; "
    )


#: What :class:`StatRead` asks of stat, in this order: GNU's and busybox' stat agree on it.
STAT_FORMAT = "%f %u %g %s %i %d %h %b %o %t %T %.X %.Y %.Z"


@dataclass(frozen=True)
class StatRead(Read):
    """All about one path, as fields each ended by a zero byte, read by ``klops.actions.files.filestat``.

    The path as expanded; ``STAT_FORMAT``; the owner's name; the group's; ``r``, ``w``, ``x`` for what the
    user may; where a link leads in the end, and what it holds; ``checksum`` or nothing; the answer of
    ``file --mime``; that of ``lsattr``. ``NO_PROGRAM``: no stat, or nothing for that digest.
    """

    path: str
    follow: bool = False
    checksum: str = ""
    mime: bool = False
    attributes: bool = False

    @property
    def slow(self) -> bool:  # type: ignore[override]  # only a digest takes long
        """With a checksum."""
        return bool(self.checksum)

    @property
    def script(self) -> str:
        stat = "LC_ALL=C stat -L" if self.follow else "LC_ALL=C stat"
        lines = [
            f"p={word(self.path)}",
            f"command -v stat >/dev/null || exit {NO_PROGRAM}",
            f's=$({stat} -c {shlex.quote(STAT_FORMAT)} -- "$p") || exit $?',
            "f() { printf '%s\\0' \"$1\"; }",
            'f "$p"; f "$s"',
            f'f "$({stat} -c %U -- "$p")"; f "$({stat} -c %G -- "$p")"',
            'm=; [ -r "$p" ] && m=r; [ -w "$p" ] && m=${m}w; [ -x "$p" ] && m=${m}x; f "$m"',
            'f "$(readlink -f -- "$p" 2>/dev/null)"; f "$(readlink -- "$p" 2>/dev/null)"',
        ]
        lines.append(self._digest_line() if self.checksum else 'f ""')
        lines.append(
            'f "$(file -b --mime-type --mime-encoding -- "$p" 2>/dev/null)"' if self.mime else 'f ""'
        )
        lines.append('f "$(lsattr -vd -- "$p" 2>/dev/null)"' if self.attributes else 'f ""')
        return "\n".join(lines)

    def _digest_line(self) -> str:
        regular = '[ -f "$p" ] && [ -r "$p" ]' + ("" if self.follow else ' && ! [ -h "$p" ]')
        return f'if {regular}; then {_digests(self.checksum)}f "$(digest <"$p")"; else f ""; fi'
